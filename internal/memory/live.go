package memory

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"sync"

	"github.com/nesoserve/neso/internal/invariants"
	"github.com/nesoserve/neso/tensor"
)

const scribbled = 0xDB

// scribble makes any use of freed memory show.
func scribble(b []byte) {
	for i := range b {
		b[i] = scribbled
	}
}

// checkScribble panics when freed memory has been written to.
func checkScribble(b []byte) {
	for i, v := range b {
		if v != scribbled {
			invariants.Check(false, "byte %d of a freed buffer of %d bytes was written to (%#x)", i, len(b), v)
		}
	}
}

// live remembers the buffers in use, in invariants builds only.
type live struct {
	mu      sync.Mutex
	buffers map[*tensor.Buffer][]uintptr
}

func (l *live) add(b *tensor.Buffer) {
	pcs := make([]uintptr, 16)
	pcs = pcs[:runtime.Callers(3, pcs)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buffers == nil {
		l.buffers = map[*tensor.Buffer][]uintptr{}
	}
	l.buffers[b] = pcs
}

func (l *live) remove(b *tensor.Buffer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.buffers, b)
}

func (l *live) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var leaks []string
	for b, pcs := range l.buffers {
		var s strings.Builder
		fmt.Fprintf(&s, "%d bytes, %d references, allocated at", b.Len(), b.References())
		frames := runtime.CallersFrames(pcs)
		for {
			f, more := frames.Next()
			fmt.Fprintf(&s, "\n\t%s (%s:%d)", f.Function, f.File, f.Line)
			if !more {
				break
			}
		}
		leaks = append(leaks, s.String())
	}
	sort.Strings(leaks)
	return leaks
}
