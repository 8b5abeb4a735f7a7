// Package process starts worker processes, confines them, signals them, learns of
// their ends and of what, and ends what they leave behind.
//
// A Launcher starts a Command as a Process: by itself, or by a fork of a zygote,
// which has imported what each worker needs (zygote.go). The server signals
// processes by descriptors alone (process_linux.go). What confines a worker is in
// confine_linux.go and apart_linux.go; what it has started and left is found by a
// mark (leftovers_linux.go). Open process.go first, then launcher.go.
package process
