// Package linelog brings what a worker prints into the log, line by line and up to a
// Rate, and remembers the last lines for the day it dies. It also keeps the trace
// that a Python worker writes when it is told to (trace.go). Open log.go first.
package linelog
