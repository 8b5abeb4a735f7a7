//go:build cgo

package native

// #include <stdlib.h>
import "C"

import (
	"sync"

	"github.com/nesoserve/neso/capi/object"
)

// block is memory of C.
type block struct {
	at   uintptr
	size int
}

const (
	// smallBlock is the size of blocks that are kept, keptBlocks how many of them.
	smallBlock, keptBlocks = 1 << 10, 64
)

// blocks keeps memory of C for what small requests bring: a call of C for each would take
// longer than to fill it. A request may be released by any thread.
type blocks struct {
	mu    sync.Mutex
	kept  []block
	ended bool
}

// take returns a block of at least so many bytes.
func (b *blocks) take(size int) block {
	if size > smallBlock {
		return block{uintptr(C.malloc(C.size_t(size))), size}
	}
	b.mu.Lock()
	if n := len(b.kept); n > 0 {
		k := b.kept[n-1]
		b.kept = b.kept[:n-1]
		b.mu.Unlock()
		return k
	}
	b.mu.Unlock()
	return block{uintptr(C.malloc(smallBlock)), smallBlock}
}

// give takes a block back; that of the zero value is none.
func (b *blocks) give(k block) {
	if k.size == smallBlock {
		b.mu.Lock()
		if len(b.kept) < keptBlocks && !b.ended {
			b.kept = append(b.kept, k)
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
	object.FreeText(k.at)
}

// free ends the memory.
func (b *blocks) free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	for _, k := range b.kept {
		object.FreeText(k.at)
	}
	b.kept = nil
}
