package guest

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// slow is a Handler whose calls take a second; instance n is of lane n/10, and beside
// others if it is even.
type slow struct {
	Handler
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (s *slow) Lane(_ wire.Kind, n uint32, _ json.RawMessage) (uint32, bool) { return n / 10, n%2 == 0 }

func (s *slow) Call(_ wire.Kind, n uint32, _ json.RawMessage) (any, error) {
	s.mu.Lock()
	s.lines = append(s.lines, fmt.Sprintf("%v %d", time.Since(s.start), n))
	s.mu.Unlock()
	time.Sleep(time.Second)
	return nil, nil
}

func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{start: time.Now()}
		l := &lanes{guest: &Guest{handler: s, to: io.Discard}, handler: s, by: map[uint32]*callLane{}}
		in := &wire.Chunk{}
		in.Reset(nil, tensor.Region{}, in)
		for _, n := range []uint32{1, 2, 4, 3, 6, 11, 12} {
			l.put(job{h: wire.Header{Kind: wire.KindInit, Instance: n}, in: in})
		}
		time.Sleep(1500 * time.Millisecond)
		l.put(job{h: wire.Header{Kind: wire.KindInit, Instance: 14}, in: in}) // beside 12, which runs
		l.running.Wait()
		slices.Sort(s.lines)
		want := []string{"0s 1", "0s 11", "1.5s 14", "1s 12", "1s 2", "1s 4", "2s 3", "3s 6"}
		if !slices.Equal(s.lines, want) {
			t.Errorf("calls began at %q, want %q", s.lines, want)
		}
		if len(l.by) != 0 {
			t.Errorf("%d lanes are left", len(l.by))
		}
	})
}
