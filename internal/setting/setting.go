// Package setting knows what messages call the server's settings. A program that
// embeds the server knows them by their names, as max-queued-bytes for
// Server.MaxQueuedBytes; who runs the command knows the options of these names.
//
// Which of them it is belongs to the program, not to one of its servers: so the
// command says it once, before it makes any, and it is handed to nobody.
package setting

import "sync/atomic"

var options atomic.Bool

// AsOptions has messages call settings as options of a command line from now on.
func AsOptions() { options.Store(true) }

// Name returns what messages call a setting.
func Name(name string) string {
	if options.Load() {
		return "--" + name
	}
	return name
}
