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

// slow is a Handler whose calls take a second; instance n is of queue n/10, and parallel
// if it is even.
type slow struct {
	Handler
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (s *slow) Queue(_ wire.Kind, n uint32, _ json.RawMessage) (uint32, bool) {
	return n / 10, n%2 == 0
}

func (s *slow) Call(_ wire.Kind, n uint32, _ json.RawMessage) (any, error) {
	s.mu.Lock()
	s.lines = append(s.lines, fmt.Sprintf("%v %d", time.Since(s.start), n))
	s.mu.Unlock()
	time.Sleep(time.Second)
	return nil, nil
}

func TestConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{start: time.Now()}
		c := &callQueues{guest: &Guest{handler: s, to: io.Discard}, handler: s, queues: map[uint32]*callQueue{}}
		in := &wire.Chunk{}
		in.Reset(nil, tensor.Region{}, in)
		for _, n := range []uint32{1, 2, 4, 3, 6, 11, 12} {
			c.put(job{h: wire.Header{Kind: wire.KindInit, Instance: n}, in: in})
		}
		time.Sleep(1500 * time.Millisecond)
		c.put(job{h: wire.Header{Kind: wire.KindInit, Instance: 14}, in: in}) // together with 12, which runs
		c.running.Wait()
		slices.Sort(s.lines)
		want := []string{"0s 1", "0s 11", "1.5s 14", "1s 12", "1s 2", "1s 4", "2s 3", "3s 6"}
		if !slices.Equal(s.lines, want) {
			t.Errorf("calls began at %q, want %q", s.lines, want)
		}
		if len(c.queues) != 0 {
			t.Errorf("%d queues are left", len(c.queues))
		}
	})
}
