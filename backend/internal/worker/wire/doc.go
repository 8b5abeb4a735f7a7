// Package wire is the worker protocol as bytes: docs/internals/worker-protocol.md in Go. Both
// sides use it, the server and workers that are written in Go.
//
// A Reader cuts a stream into frames, and refuses those that are too long for their
// kind (bounds.go) or come too slowly (patience.go). A Cursor takes a body apart; an
// Encoder makes the frames that carry tensors, Append functions the others. A frame
// is a Header (frame.go) and a body: texts and numbers (control.go), requests
// (requests.go, batchshape.go), responses (responses.go), each with tensor entries
// (entry.go).
//
// Everything that comes is foreign: each count, offset and length is checked before
// it is used. A ProtocolError says which field of which frame was wrong.
package wire
