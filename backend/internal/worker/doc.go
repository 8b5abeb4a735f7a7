// Package worker is the server's side of the connection with one worker process: it
// sends it batches of requests and turns what comes back into responses. The packages
// below it hold what knows nothing of a connection, docs/architecture.md lists them;
// package supervise starts workers and keeps them running.
//
// A Conn is the connection with its process (conn.go), an Instance one that it serves
// (execute.go). What a lock guards is a type, state, which only who holds the lock has:
// frames to be written (outbox.go), memory (shared.go), batches (work.go, package
// inflight) and who reads (turns.go, package reader). One goroutine at a time reads
// (reading.go). What takes the frames sees no connection, but what it may touch:
// batchframes.go, memory.go, callframes.go and sessionframes.go. Open conn.go first.
//
// Everything that a worker sends is foreign: each count, offset and length is
// checked before it is used, and a frame that breaks the protocol ends the
// connection, hence the worker, never the server.
package worker
