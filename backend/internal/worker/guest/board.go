package guest

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	workerboard "github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// board is the worker's side of package board: what is sent ahead to a served instance
// is the server's until it is begun.
type board struct {
	known bool // HELLO says so
	data  []byte
	// bell is what the server rings for answers that are held. Nobody hears it: the clock
	// of turns.go sends them earlier.
	bell *os.File
}

// maps takes the memory that the server hands over.
func (b *board) maps(file *os.File, size uint64) error {
	defer file.Close()
	if b.data != nil || size < workerboard.RecalledAt+8 || size > 1<<20 {
		return fmt.Errorf("worker protocol: a board of %d bytes", size)
	}
	var err error
	b.data, err = segment.Map(file, int(size), true)
	return err
}

// words are those of an instance.
type words struct{ begun, recalled *atomic.Uint64 }

// words returns those at an offset, nil where there is none.
func (b *board) words(offset *int) (*words, error) {
	if offset == nil {
		return nil, nil
	}
	at := *offset
	if at < 0 || at%8 != 0 || at > len(b.data)-workerboard.RecalledAt-8 {
		return nil, fmt.Errorf("worker protocol: no board at offset %d", at)
	}
	word := func(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&b.data[at])) }
	return &words{word(at), word(at + workerboard.RecalledAt)}, nil
}

// begin writes down that a batch begins; false where the server has recalled it. In this
// order: what the server recalls at this moment it sees begun, or it is seen here.
func (w *words) begin(id uint64) bool {
	if w == nil {
		return true
	}
	w.begun.Store(id)
	return id > w.recalled.Load()
}

// holdsLocked reports whether answers may wait: none of them has waited for long. What
// they wait for is running, so the clock ticks.
func (g *Guest) holdsLocked() bool {
	now := time.Now()
	if g.held.IsZero() {
		g.held = now
	}
	return now.Sub(g.held) < holdLimit && len(g.out) < holdBytes
}

// frame sends a frame without a body.
func (g *Guest) frame(kind wire.Kind, instance uint32, id uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var err error
	g.out, err = wire.AppendFrame(g.out, kind, instance, id, nil)
	return g.sendLocked(err)
}
