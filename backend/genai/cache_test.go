package genai

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
)

func never() bool { return false }

func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		p := newPlaces("m", limits{sequences: 2, cache: 100}, func(v int64) { told = append(told, v) })
		if err := p.take(101, never); err == nil || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("one that never fits: %v", err)
		}
		if err := p.take(60, never); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var begun []string
		names := func() []string { // those that begin at one moment may be told in any order
			mu.Lock()
			defer mu.Unlock()
			return slices.Sorted(slices.Values(begun))
		}
		begin := func(name string, bytes int64) {
			go func() {
				if p.take(bytes, never) == nil {
					mu.Lock()
					defer mu.Unlock()
					begun = append(begun, name)
				}
			}()
			synctest.Wait()
		}
		begin("large", 50) // does not fit yet
		begin("small", 10) // would, but comes after it
		if got := names(); len(got) != 0 {
			t.Errorf("begun: %v", got)
		}
		p.giveBack(60)
		time.Sleep(lookAgain)
		synctest.Wait()
		if got := names(); !slices.Equal(got, []string{"large", "small"}) {
			t.Errorf("begun: %v", got)
		}
		begin("third", 1) // there is memory, and no place
		if got := names(); len(got) != 2 {
			t.Errorf("begun: %v", got)
		}
		p.giveBack(10)
		synctest.Wait()
		p.giveBack(50)
		p.giveBack(1)
		if got := names(); !slices.Equal(got, []string{"large", "small", "third"}) || told[len(told)-1] != 0 {
			t.Errorf("begun: %v, told %v", got, told)
		}
	})
}

// TestPlacesCancelled: who has gone is not waited for.
func TestPlacesCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces("m", limits{sequences: 1, cache: 100}, func(int64) {})
		if err := p.take(1, never); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err := p.take(1, func() bool { return time.Since(begin) > time.Second })
		if !errors.Is(err, errGone) || time.Since(begin) > 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		p.giveBack(1)
		if err := p.take(1, never); err != nil {
			t.Error(err)
		}
	})
}
