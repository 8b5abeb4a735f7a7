// Package inflight keeps the account of the batches that one worker has, and of their
// requests. It is pure: it has no goroutine, timer or socket, and its user's lock guards
// it.
//
// A batch enters (its requests get handles), is sent, and ends in one of four ways: the
// worker has finished it; the worker has not begun it and it was taken back; it was
// abandoned, because the worker does not give it back in time after a cancellation; or
// the connection has ended. When its timeout has passed the batch is expired: its
// requests are answered, but the worker still has it and still reads its inputs.
//
//	entered ── Sent ──> sent ── Expire ──> expired
//	                     │                   │
//	                     ├─ Finished <───────┤ then Settle
//	                     ├─ NotBegun <───────┤
//	                     ├─ Abandon  <───────┘ then Settle, and Returned when it is back
//	                     └─ Close              then Settle
//
// Batches is the account (batches.go), a Pipeline what one instance has been sent, in
// its order (pipeline.go), a Request what has not been finally answered (requests.go).
// I is what the user knows of an instance. Open batches.go first; testdata shows it at
// work.
package inflight
