package ledger

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
)

func want(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d bytes, want %d", what, got, want)
	}
}

func TestPagesAreBounded(t *testing.T) {
	l := New(100)
	for _, c := range []struct {
		n    int64
		fits bool
	}{{60, true}, {41, false}, {math.MaxInt64, false}, {40, true}, {1, false}, {0, true}} {
		if got := l.Take(In, c.n); got != c.fits {
			t.Errorf("Take(%d) beside %d: %v", c.n, l.Held(In), got)
		}
	}
	want(t, "held", l.Held(In), 100)
	want(t, "of answers", l.Held(Out), 0)
	if l.Fits(In, 1) {
		t.Error("a full page has room")
	}
	l.Give(In, 100)
	if !l.Fits(In, 100) || l.Fits(In, 101) {
		t.Error("an empty page has room for what it may hold, and no more")
	}
	want(t, "what fits is not held", l.Held(In), 0)
	err := l.Refusal(In, 41)
	if err.Code != backend.Unavailable || err.RetryAfter != time.Second {
		t.Errorf("refused with %v", err)
	}
}

func TestAnAnswerAloneFits(t *testing.T) {
	l := New(1)
	want(t, "the bound of answers", l.Limit(Out), leastOut)
	if !l.Take(Out, 3*leastOut) {
		t.Fatal("an answer that is alone is refused")
	}
	if l.Take(Out, 1) {
		t.Error("another one fits")
	}
	l.Give(Out, 3*leastOut)
	if !l.Take(Out, leastOut) || l.Take(Out, 1) {
		t.Error("the bound is another one")
	}
}

func TestSharesLeaveRoom(t *testing.T) {
	for name, c := range map[string]struct {
		held, share, own, n int64
		want                bool
	}{
		"an only transfer may have everything":  {0, 0, 0, 100, true},
		"and what comes after its first bytes":  {90, 90, 90, 10, true},
		"several fill three quarters":           {65, 65, 20, 10, true},
		"and no more":                           {70, 70, 20, 10, false},
		"beside others":                         {74, 30, 20, 10, false},
		"a small share gets in":                 {90, 15, 5, 10, true},
		"up to a quarter":                       {90, 20, 5, 10, false},
		"an only transfer beside others' bytes": {90, 5, 5, 10, true},
	} {
		if got := fair(c.held, 100, c.share, c.own, c.n); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	l, s := New(1000), &Share{}
	var a, b, other Hold
	a.Open(l, In, s, func() {})
	b.Open(l, In, s, func() {})
	other.Open(l, In, &Share{}, func() {})
	if !a.Take(500) || !b.Take(250) || b.Take(1) || !other.Take(250) {
		t.Error("one connection has all but a quarter, which others have")
	}
	want(t, "share", s.Held(In), 750)
	a.Close()
	a.Close()
	want(t, "kept", b.Keep(), 250)
	want(t, "share of nothing", s.Held(In), 0)
	want(t, "held", l.Held(In), 500)
	b.Close()
	l.Give(In, 250)
	other.Close()
	want(t, "held at the end", l.Held(In), 0)
}

// What the answers of a key hold over all its connections leaves room for others.
func TestKeysLeaveRoom(t *testing.T) {
	const mib = 1 << 20
	l, key := New(0), &Share{} // 64 MiB of answers
	by := Asker{Key: key}
	var a, b, c, other Hold
	for _, h := range []*Hold{&a, &b, &c} {
		h.Open(l, Out, &Share{}, func() {})
		h.For(key)
	}
	other.Open(l, Out, &Share{}, func() {})
	if !a.Take(20*mib) || !b.Take(20*mib) || c.Take(20*mib) || !other.Take(20*mib) {
		t.Error("one key has all but a quarter, which others have")
	}
	if err := c.Refusal(20 * mib); err.Code != backend.ResourceExhausted || l.Cuts(Out, Key) != 1 {
		t.Errorf("refused with %v, %d times", err, l.Cuts(Out, Key))
	}
	if _, why, ok := l.TakeWhole(Out, by, mib); ok || why != Key {
		t.Errorf("what waits is let in, or refused as %v", why)
	}
	b.Give(5 * mib)
	want(t, "of the key", key.Held(Out), 35*mib)
	a.Close()
	b.Close()
	want(t, "of nothing", key.Held(Out), 0)
	key.Bound(10)
	if _, why, ok := l.TakeWhole(Out, by, mib); !ok {
		t.Errorf("what is alone is refused: %v", why)
	}
	if _, _, ok := l.TakeWhole(Out, by, 1); ok {
		t.Error("its bound is not its bound")
	}
	l.GiveWhole(Out, by, mib)
	if _, _, ok := l.TakeWhole(Out, by, 10); !ok {
		t.Error("its bound is not free again")
	}
	l.GiveWhole(Out, by, 10)
	other.Close()
	want(t, "held at the end", l.Held(Out), 0)
}

// A page that is nearly full takes the room of those that stand still, the one
// that does so for longest first, and of nobody else.
func TestWhoStandsStillLosesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1 << 20)
		const size = 256 << 10
		var holds [3]Hold
		for i := range holds {
			holds[i].Open(l, In, nil, func() {})
			if !holds[i].Take(size) {
				t.Fatal("no room")
			}
			time.Sleep(10 * time.Millisecond)
		}
		off := func() (n int) {
			for i := range holds {
				if holds[i].Off() {
					n |= 1 << i
				}
			}
			return n
		}
		if l.Take(In, size+1) || off() != 0 {
			t.Fatalf("those that have just moved are cut off: %b", off())
		}
		time.Sleep(grace)
		holds[0].Moved(leastMove) // of its 256 KiB
		if l.Fits(In, 1<<20) || off() != 0 {
			t.Fatalf("a declared length pushes out: %b", off())
		}
		time.Sleep(lookEvery)
		if l.Take(In, size+1) || off() != 0b010 {
			t.Fatalf("cut off %b, want the second one", off())
		}
		time.Sleep(lookEvery)
		if l.Take(In, size+1) || off() != 0b010 {
			t.Fatalf("cut off %b before the second one has given back what it holds", off())
		}
		holds[1].Close()
		if !l.Take(In, size+1) {
			t.Error("there is room now")
		}
		if n := l.Cuts(In, Stalled); n != 1 {
			t.Errorf("%d cuts", n)
		}
		l.Give(In, size+1)
		holds[0].Close()
		holds[2].Close()
		want(t, "held", l.Held(In), 0)
	})
}

func TestTrickleIsNoMovement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(64 << 20)
		var h Hold
		h.Open(l, In, nil, func() {})
		if !h.Take(63 << 20) {
			t.Fatal("no room")
		}
		for range 100 {
			time.Sleep(grace / 100)
			h.Moved(1000)
		}
		if l.Take(In, 2<<20) || !h.Off() {
			t.Error("63 MiB are held by who moves some bytes now and then")
		}
		h.Close()
	})
}

// What a request counts is watched all the same, and given back by the request.
func TestStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1 << 20)
		var h Hold
		l.Take(In, 1<<20)
		h.Open(l, In, nil, func() {})
		h.Stand(1 << 20)
		time.Sleep(grace)
		if l.Take(In, 1) || !h.Off() {
			t.Error("not cut off")
		}
		h.Close()
		want(t, "held", l.Held(In), 1<<20)
	})
}

// Nobody is cut off once he has closed: the connection is another transfer's.
func TestCutAndClose(t *testing.T) {
	l := New(1 << 20)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var h Hold
			for range 500 {
				open := true
				h.Open(l, In, nil, func() {
					if !open {
						t.Error("cut off after the end")
					}
				})
				if h.Take(watchFrom) {
					h.mark.Store(h.mark.Load() - int64(time.Hour))
				}
				l.page[In].look.Store(0)
				l.relieve(In, 1<<20)
				h.Close()
				open = false
			}
		})
	}
	wg.Wait()
	want(t, "held", l.Held(In), 0)
}

// What was found standing still and has ended, or moved, before it could be cut
// off is not, nor is the next transfer of its hold.
func TestCutTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1 << 20)
		var h Hold
		for what, meanwhile := range map[string]func(){
			"it moved":       func() { h.Moved(leastMove) },
			"it was another": func() { h.Close(); h.Open(l, In, nil, func() { t.Error("cut off") }) },
		} {
			h.Open(l, In, nil, func() { t.Error("cut off") })
			since := h.mark.Load()
			time.Sleep(grace)
			meanwhile()
			if h.cutOff(since) || h.Off() {
				t.Errorf("%s: it is cut off", what)
			}
			h.Close()
		}
	})
}

func TestUntil(t *testing.T) {
	begin := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		after time.Duration
		moved int64
		want  time.Duration
	}{
		"at first":                   {0, 0, time.Minute},
		"nothing comes":              {59 * time.Second, 0, time.Minute},
		"slow but steady":            {64 * time.Second, 1 << 20, 2*time.Minute + 4*time.Second},
		"too slow":                   {10 * time.Minute, 1 << 20, 2*time.Minute + 4*time.Second},
		"fast, then nothing":         {time.Second, 4 << 30, time.Minute + time.Second},
		"slow and large has its end": {5 * time.Hour, 6 << 30, time.Minute + (1024+6128)*time.Second},
	} {
		if got := Until(begin, begin.Add(c.after), time.Minute, c.moved).Sub(begin); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	l, s := New(1<<30), &Share{}
	var h Hold
	cut := func() {}
	if n := testing.AllocsPerRun(100, func() {
		h.Open(l, In, s, cut)
		h.Take(1 << 10)
		h.Close()
		l.Take(Out, 10)
		l.Give(Out, 10)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHold(b *testing.B) {
	for name, size := range map[string]int64{"small": 1 << 10, "large": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			l := New(1 << 30)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var h Hold
				cut := func() {}
				for pb.Next() {
					h.Open(l, In, nil, cut)
					h.Take(size)
					h.Close()
				}
			})
		})
	}
}
