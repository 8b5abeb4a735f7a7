// Package worker is the server's side of the connection with one worker process: it
// sends it batches of requests and turns what comes back into responses. The packages
// below it hold what knows nothing of a connection, docs/architecture.md lists them;
// package supervise starts workers and keeps them running.
//
// A Conn is the connection with its process (conn.go), an Instance one that it serves
// (execute.go). One goroutine at a time reads (lead.go) and delivers what comes
// (deliver.go); whoever has something to send writes it (write.go). Open conn.go
// first.
//
// Everything that a worker sends is foreign: each count, offset and length is
// checked before it is used, and a frame that breaks the protocol ends the
// connection, hence the worker, never the server.
package worker
