// Package sequence is the sequence batcher: requests with the same correlation
// ID go, one after the other, to the same slot of the same instance, so that a
// model may keep state from request to request.
//
// Open batcher.go first: it decides, without clock, goroutine or lock. slots.go
// holds slots, backlog and idle sequences, direct.go and oldest.go the two ways
// to form a batch. enqueue.go is hop 4; loop.go feeds the decisions with events
// and does what they say. controls.go makes the control tensors, state.go keeps
// implicit state, null.go fills unused slots. testdata/*.txt are transcripts of
// the decisions.
package sequence
