// Package engine is the server without front ends: one method for everything a
// caller can ask. Open engine.go first, then infer.go, which is hop 2 of a
// request; admission.go has the server-wide bounds, host.go what backends may
// ask, close.go the way down.
package engine
