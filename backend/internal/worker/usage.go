package worker

import (
	"slices"
	"strings"
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

// Bounds of what is kept, whatever the process is: a part has a figure for each type of
// memory and device.
const (
	mostFigures = 1 << 16
	mostParts   = 1 << 16
)

// take replaces what a part has said.
func (u *usage) take(b *wire.MemoryBody) error {
	if len(b.Usage) > wire.MaxMemoryUsage {
		return backend.Errorf(backend.InvalidArg, "%d figures of memory usage, at most %d", len(b.Usage), wire.MaxMemoryUsage)
	}
	for i := range b.Usage {
		k := slices.Index(wire.MemoryTypes, b.Usage[i].Type)
		if k < 0 {
			return backend.Errorf(backend.InvalidArg, "figure %d of memory usage has the type '%.40s', want one of %s",
				i, b.Usage[i].Type, strings.Join(wire.MemoryTypes, ", "))
		}
		b.Usage[i].Type = wire.MemoryTypes[k] // so that nothing of the frame is kept
	}
	p := partOf(b.Model, b.Instance)
	u.mu.Lock()
	defer u.mu.Unlock()
	before, known := u.parts[p]
	switch {
	case u.size-len(before)+len(b.Usage) > mostFigures:
		return backend.Errorf(backend.Unavailable, "the process reports more than %d figures of its memory", mostFigures)
	case !known && len(u.parts) >= mostParts:
		return backend.Errorf(backend.Unavailable, "more than %d models and instances of the process report their memory", mostParts)
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
	said := c.usage.of(model, instances)
	return backend.SumMemory(said...), len(said) > 0
}

// of returns what a model and instances of it have said. The lists do not change.
func (u *usage) of(model uint32, instances []uint32) (said [][]backend.MemoryUsage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	add := func(p part) {
		if list, ok := u.parts[p]; ok {
			said = append(said, list)
		}
	}
	add(part{model: model})
	for _, i := range instances {
		add(part{instance: i})
	}
	return said
}

// ForgetMemory forgets what a model has said, or, unless that is 0, an instance.
func (c *Conn) ForgetMemory(model, instance uint32) { c.usage.forget(partOf(model, instance)) }
