// Package stats owns the numbers of a loaded version: the only counters from
// which statistics, metrics and logs are made. Open stats.go first.
package stats

import "github.com/nesoserve/neso/internal/infer"

// Version counts for one loaded version of a model. Its methods are safe for
// concurrent use and do not allocate.
type Version struct{}

// NewVersion returns counters at zero.
func NewVersion() *Version { return &Version{} }

// Enqueued counts a request as pending; Dequeued ends that.
func (v *Version) Enqueued() {}

// Dequeued says that a pending request now executes, or was dropped.
func (v *Version) Dequeued() {}

// Finish counts a request that ended, from its Times and Failure. It is called
// once per request that was not refused at once.
func (v *Version) Finish(r *infer.Request) {}

// Response counts one response of a decoupled model: index from 0, and whether
// it was empty, failed or was produced for a cancelled request.
func (v *Version) Response(r *infer.Request, index int, failed, empty bool) {}

// Batch counts one execution of the given batch size with its phases in
// nanoseconds.
func (v *Version) Batch(size int, inputNs, inferNs, outputNs int64) {}
