package completion

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
)

// counted counts how often it was dropped.
type counted struct{ drops atomic.Int64 }

func (c *counted) Drop() { c.drops.Add(1) }

func TestReadyKeepsUntilTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Ready[*counted]
		a, b := &backend.Config{Name: "a", Version: 1}, &backend.Config{Name: "a", Version: 2}
		taken, replaced, expired, left, late := &counted{}, &counted{}, &counted{}, &counted{}, &counted{}

		r.Keep(a, taken)
		if _, ok := r.Take(b); ok {
			t.Error("another version has what was kept")
		}
		if _, ok := r.TakeIf(a, func(c *counted) bool { return c != taken }); ok {
			t.Error("what was not wanted is handed out")
		}
		if got, ok := r.Take(a); !ok || got != taken {
			t.Error("what was kept is not there")
		}
		if _, ok := r.Take(a); ok {
			t.Error("it is there twice")
		}
		r.Keep(a, replaced)
		time.Sleep(readyFor / 2)
		r.Keep(a, expired)
		time.Sleep(readyFor/2 + 1)
		synctest.Wait()
		if expired.drops.Load() != 0 || replaced.drops.Load() != 1 {
			t.Errorf("the first one's end took the second: %d drops of the first, %d of the second", replaced.drops.Load(), expired.drops.Load())
		}
		time.Sleep(readyFor)
		synctest.Wait()
		r.Keep(b, left)
		r.Close()
		r.Close()
		r.Keep(b, late)
		if _, ok := r.Take(b); ok {
			t.Error("something is kept after the end")
		}
		for name, got := range map[string]int64{"expired": expired.drops.Load(), "left": left.drops.Load(), "late": late.drops.Load()} {
			if got != 1 {
				t.Errorf("%s was dropped %d times", name, got)
			}
		}
		if taken.drops.Load() != 0 {
			t.Error("what was taken was dropped")
		}
	})
}
