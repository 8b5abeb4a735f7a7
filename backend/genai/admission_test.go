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

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		p := newAdmission("m", limits{sequences: 2, cache: 100}, 1, func(v int64) { told = append(told, v) })
		if err := p.take(claim{bytes: 101}, never); err == nil || backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("one that never fits: %v", err)
		}
		if err := p.take(claim{bytes: 60}, never); err != nil {
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
				if p.take(claim{bytes: bytes}, never) == nil {
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
		p.giveBack(claim{bytes: 60})
		time.Sleep(lookAgain)
		synctest.Wait()
		if got := names(); !slices.Equal(got, []string{"large", "small"}) {
			t.Errorf("begun: %v", got)
		}
		begin("third", 1) // there is memory, and no place
		if got := names(); len(got) != 2 {
			t.Errorf("begun: %v", got)
		}
		p.giveBack(claim{bytes: 10})
		synctest.Wait()
		p.giveBack(claim{bytes: 50})
		p.giveBack(claim{bytes: 1})
		if got := names(); !slices.Equal(got, []string{"large", "small", "third"}) || told[len(told)-1] != 0 {
			t.Errorf("begun: %v, told %v", got, told)
		}
	})
}

// TestAdmissionCancelled: who has gone is not waited for.
func TestAdmissionCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newAdmission("m", limits{sequences: 1, cache: 100}, 1, func(int64) {})
		if err := p.take(claim{bytes: 1}, never); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err := p.take(claim{bytes: 1}, func() bool { return time.Since(begin) > time.Second })
		if !errors.Is(err, errGone) || time.Since(begin) > 2*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		p.giveBack(claim{bytes: 1})
		if err := p.take(claim{bytes: 1}, never); err != nil {
			t.Error(err)
		}
	})
}

// TestAdmissionSideBySide: each text has as much room as the longest, so that a long one costs more the
// more others there are.
func TestAdmissionSideBySide(t *testing.T) {
	var used int64
	p := newAdmission("m", limits{sequences: 8, cache: 1000}, 2, func(v int64) { used = v })
	for _, c := range []struct {
		claim claim
		fits  bool
		used  int64
	}{
		{claim{tokens: 100}, true, 200},
		{claim{tokens: 50}, true, 400},
		{claim{tokens: 300}, false, 400}, // three of 300
		{claim{bytes: 500}, true, 900},
		{claim{tokens: 60}, false, 900},
		{claim{bytes: 100}, true, 1000},
	} {
		if got := p.try(c.claim); got != c.fits || used != c.used {
			t.Errorf("%+v: %v with %d in use, want %v with %d", c.claim, got, used, c.fits, c.used)
		}
	}
	p.giveBack(claim{bytes: 500})
	p.giveBack(claim{tokens: 100})
	if used != 100+100 {
		t.Errorf("%d in use, want 200", used)
	}
	if err := p.take(claim{tokens: 501}, never); backend.AsError(err).Code != backend.InvalidArg {
		t.Errorf("one that never fits: %v", err)
	}
}
