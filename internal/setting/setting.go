// Package setting knows what messages call the server's settings. A program that
// embeds the server knows them by their names, as max-queued-bytes for
// Server.MaxQueuedBytes; who runs the command knows the options of these names.
//
// Which of them it is comes with the settings, so that each server of a process
// speaks in its own words.
package setting

// Words are what messages call settings: what stands before their names. The
// zero value stands for the bare names.
type Words string

// Options are the words of the command.
const Options = "--"

// Name returns what messages call a setting.
func (w Words) Name(name string) string { return string(w) + name }
