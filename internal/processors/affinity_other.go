//go:build !linux

package processors

import "errors"

// Affinity is a set of processors and a NUMA node, of which either may be missing.
type Affinity struct{}

// NewAffinity returns the affinity to these processors, all of them where there are
// none, and to the memory of a node, any where it is nil. Nothing is nil.
func NewAffinity(processors []int, node *int) *Affinity {
	if len(processors) == 0 && node == nil {
		return nil
	}
	return &Affinity{}
}

var errAffinity = errors.New("Unable to set NUMA thread affinity: not on this system") //nolint:staticcheck // Triton's text

// Bind has the calling thread, and all that it starts from now on, run there. The
// caller has locked its goroutine to the thread.
func (a *Affinity) Bind() error {
	if a == nil {
		return nil
	}
	return errAffinity
}

// Run calls f on a thread that runs there, and threads that f starts stay there.
// The thread itself is then what it was.
func (a *Affinity) Run(f func() error) error {
	if a == nil {
		return f()
	}
	return errAffinity
}
