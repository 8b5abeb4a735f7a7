// Package supervise keeps the worker of an instance running: a Worker starts another
// process when one has died, later each time (restart.go), and gives batches to the
// one that lives. A Session is one life: a process and the connection with it. Open
// worker.go first.
package supervise
