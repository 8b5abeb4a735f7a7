// Package channel is what connects a worker with its server below the frames: two
// socket pairs, the descriptors that are passed over them, and the system calls that
// read and write them without waiting.
//
// Ends are the server's ends, Inherited the worker's. NewReader reads what a worker
// sends; on Linux it may ask the socket a while before it waits (poll_linux.go). NewSource
// and NewSink are for a worker that reads on the thread that runs its model.
// Open ends.go first.
package channel
