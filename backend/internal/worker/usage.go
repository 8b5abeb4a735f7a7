package worker

import (
	"slices"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// usage is what memory the models of a worker and their instances say that they have, with
// CONTROL. It ends with the process, whose successor says it anew.
type usage struct {
	mu    sync.Mutex
	parts map[part][]backend.MemoryUsage
	size  int // figures in parts
}

// part is a model of the worker, with the instance 0, or an instance.
type part struct{ model, instance uint32 }

// Bounds of what is kept: a part has a figure for each type of memory and device, and there
// are two numbers for each instance at most.
const (
	mostFigures = 1 << 16
	mostParts   = 1 << 16
)

// take replaces what a part has said.
func (u *usage) take(b *wire.MemoryBody) error {
	p := partOf(b.Model, b.Instance)
	u.mu.Lock()
	defer u.mu.Unlock()
	before, known := u.parts[p]
	if u.size-len(before)+len(b.Usage) > mostFigures || !known && len(u.parts) >= mostParts {
		return backend.Errorf(backend.Unavailable, "the process reports more than %d figures of its memory", mostFigures)
	}
	if u.parts == nil {
		u.parts = map[part][]backend.MemoryUsage{}
	}
	u.parts[p] = b.Usage
	u.size += len(b.Usage) - len(before)
	return nil
}

func partOf(model, instance uint32) part {
	if instance != 0 {
		model = 0
	}
	return part{model, instance}
}

func (u *usage) forget(p part) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.size -= len(u.parts[p])
	delete(u.parts, p)
}

// ReportedMemory returns the sums of what a model and instances of it say that they have;
// ok is false where they have said nothing.
func (c *Conn) ReportedMemory(model uint32, instances []uint32) (sums []backend.MemoryUsage, ok bool) {
	u := &c.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.parts) == 0 {
		return nil, false
	}
	var said [][]backend.MemoryUsage
	for p, usage := range u.parts {
		if p == partOf(model, 0) || slices.Contains(instances, p.instance) {
			said = append(said, usage)
		}
	}
	return backend.SumMemory(said...), len(said) > 0
}

// ForgetMemory forgets what a model has said, or, unless that is 0, an instance.
func (c *Conn) ForgetMemory(model, instance uint32) { c.usage.forget(partOf(model, instance)) }
