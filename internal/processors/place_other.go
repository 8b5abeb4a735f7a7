//go:build !linux

package processors

import "errors"

// Place is a set of processors and a NUMA node, of which either may be missing.
type Place struct{}

// NewPlace returns the place of these processors, all of them where there are
// none, and of the memory of a node, any where it is nil. Nothing is nil.
func NewPlace(processors []int, node *int) *Place {
	if len(processors) == 0 && node == nil {
		return nil
	}
	return &Place{}
}

var errPlace = errors.New("Unable to set NUMA thread affinity: not on this system") //nolint:staticcheck // Triton's text

// Bind has the calling thread, and all that it starts from now on, run there. The
// caller has locked its goroutine to the thread.
func (p *Place) Bind() error {
	if p == nil {
		return nil
	}
	return errPlace
}

// Run calls f on a thread that runs there, and threads that f starts stay there.
// The thread itself is then what it was.
func (p *Place) Run(f func() error) error {
	if p == nil {
		return f()
	}
	return errPlace
}
