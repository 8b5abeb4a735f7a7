// Package hostcalls serves what a model asks of the server: inference of other models
// (infer.go), model control and custom metrics (control.go). Calls bounds how many of
// these one worker has under way. What a call needs of its connection are the few
// functions of a Worker. Open calls.go first.
package hostcalls
