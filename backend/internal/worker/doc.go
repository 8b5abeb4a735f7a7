// Package worker speaks docs/worker-protocol.md: it starts worker processes,
// sends them batches of requests and turns what comes back into responses.
//
// It owns the frames (frame.go, requests.go, responses.go, batchshape.go,
// control.go), the shared memory (segment_*.go, buddy.go, arena.go,
// outputs.go, lend.go; on GPUs devicepool.go, devices.go), one connection to one process (conn.go, execute.go, lead.go, deliver.go)
// and the processes themselves (launcher.go, zygote_*.go, process_*.go, worker.go). Open
// worker.go first, then conn.go.
//
// Everything that a worker sends is foreign: each count, offset and length is
// checked before it is used, and a frame that breaks the protocol ends the
// connection, hence the worker, never the server.
package worker
