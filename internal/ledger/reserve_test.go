package ledger

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What is small gets in where the page is full, and nothing else does.
func TestSmallOnesGetInBesideAFullPage(t *testing.T) {
	for _, p := range []Page{In, Out} {
		l := New(leastOut)
		if !l.Take(p, l.Limit(p)) {
			t.Fatal("no room")
		}
		for _, c := range []struct {
			what string
			n    int64
			ok   bool
		}{{"small", 1000, true}, {"just small", Small, true}, {"not small", Small + 1, false}} {
			on, why, ok := l.TakeWhole(p, Asker{}, c.n)
			if ok != c.ok || ok && on != p.reserve() || !ok && why != Full {
				t.Errorf("%s: %d of page %d, %v %v", c.what, on, p, ok, why)
			}
			if ok {
				want(t, c.what, l.Held(on), c.n)
				l.GiveWhole(on, Asker{}, c.n)
			}
		}
		if l.Take(p, 1) {
			t.Error("a part of something large gets in")
		}
		l.Give(p, l.Limit(p))
		if on, _, ok := l.TakeWhole(p, Asker{}, 1); !ok || on != p {
			t.Error("the reserve is used where the page has room")
		}
		l.Give(p, 1)
		want(t, "held", l.Held(p)+l.Held(p.reserve()), 0)
	}
}

func TestReservesAreBounded(t *testing.T) {
	for _, c := range []struct{ limit, want int64 }{{leastPage - 1, 0}, {leastPage, leastReserve}, {64 << 20, 1 << 20}, {64 << 30, 1 << 30}} {
		l := New(c.limit)
		want(t, "reserve", l.Limit(InReserve), c.want)
		l.Take(In, c.limit)
		n := int64(0)
		for n < c.limit {
			if _, _, ok := l.TakeWhole(In, Asker{}, Small); !ok {
				break
			}
			n += Small
		}
		want(t, "in reserve", n, c.want)
	}
}

// One connection, and one key over many, leave most of the reserve to others.
func TestManySmallOnesOfOne(t *testing.T) {
	l := New(64 << 20) // 1 MiB in reserve
	l.Take(In, 64<<20)
	fill := func(by func() Asker) (n int64) {
		for {
			if _, _, ok := l.TakeWhole(In, by(), 1000); !ok {
				return n
			}
			n += 1000
		}
	}
	one, key := &Share{}, &Share{}
	want(t, "of a connection", fill(func() Asker { return Asker{Conn: one} }), 65_000)
	want(t, "of a key", fill(func() Asker { return Asker{Conn: &Share{}, Key: key} }), 262_000)
	want(t, "counted for it", key.Held(InReserve), 262_000)
	if on, _, ok := l.TakeWhole(In, Asker{Conn: &Share{}, Key: &Share{}}, Small); !ok {
		t.Error("others do not get in")
	} else {
		l.GiveWhole(on, Asker{}, Small)
	}
	// Where the parts are smaller than something small, one still gets in.
	tiny := New(leastPage)
	tiny.Take(In, leastPage)
	by := Asker{Conn: &Share{}}
	if _, _, ok := tiny.TakeWhole(In, by, Small); !ok {
		t.Error("the first one does not get in")
	}
	if _, _, ok := tiny.TakeWhole(In, by, 1); ok {
		t.Error("more than its part")
	}
	// What was refused for the key's sake is not counted for the connection.
	by = Asker{Conn: &Share{}, Key: key}
	if _, _, ok := l.TakeWhole(In, by, 1000); ok || by.Conn.Held(InReserve) != 0 {
		t.Errorf("%v, %d bytes are counted for the connection", ok, by.Conn.Held(InReserve))
	}
}

// A request that grows stays where it is as long as it is small, and has to find
// its place on the page then.
func TestExtend(t *testing.T) {
	l := New(1 << 20)
	by := Asker{Conn: &Share{}}
	l.Take(In, 1<<20-2000)
	on, _, ok := l.TakeWhole(In, by, 2000)
	if !ok || on != In {
		t.Fatal("not on the page")
	}
	on, ok = l.Extend(In, on, by, 2000, 3000)
	if !ok || on != InReserve {
		t.Fatal("a small one is not moved to the reserve")
	}
	want(t, "page", l.Held(In), 1<<20-2000)
	want(t, "reserve", l.Held(InReserve), 5000)
	want(t, "connection", by.Conn.Held(InReserve), 5000)
	if on, ok = l.Extend(In, on, by, 5000, 1000); !ok || on != InReserve {
		t.Error("does not grow in the reserve")
	}
	if at, ok := l.Extend(In, on, by, 6000, Small); ok || at != on {
		t.Error("a large one stays in the reserve")
	}
	l.Give(In, 100_000)
	if on, ok = l.Extend(In, on, by, 6000, Small); !ok || on != In {
		t.Error("does not go to the page")
	}
	want(t, "reserve", l.Held(InReserve), 0)
	want(t, "connection", by.Conn.Held(InReserve), 0)
	l.GiveWhole(on, by, 6000+Small)
	want(t, "page", l.Held(In), 1<<20-2000-100_000)
}

// A small transfer that comes in pieces, and stands still in the reserve.
func TestSmallTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1 << 20)
		l.Take(In, 1<<20-1000)
		share := &Share{}
		open := func(h *Hold, whole int64) {
			h.Open(l, In, share, func() {})
			h.Whole(whole)
		}
		var small, large Hold
		open(&large, Small+1)
		open(&small, 4000)
		if !small.Take(1000) || small.Page() != In || large.Take(1000) {
			t.Fatal("the page is another one")
		}
		if !small.Take(3000) || small.Page() != InReserve {
			t.Error("a small transfer does not get in")
		}
		want(t, "page", l.Held(In), 1<<20-1000)
		want(t, "share of the page", share.Held(In), 0)
		want(t, "share of the reserve", share.Held(InReserve), 4000)
		if small.Take(Small) {
			t.Error("it is not small any more")
		}
		if n := small.Keep(); n != 4000 {
			t.Errorf("%d bytes are kept", n)
		}
		want(t, "share of what is kept", share.Held(InReserve), 4000)
		l.GiveWhole(small.Page(), Asker{Conn: share}, 4000)
		want(t, "share at the end", share.Held(InReserve), 0)
		// Those that fill the reserve and stand still give way, however small.
		var still [8]Hold
		for i := range still {
			still[i].Open(l, In, &Share{}, func() {})
			still[i].Whole(Small)
			if !still[i].Take(Small) {
				t.Fatal("no room")
			}
		}
		time.Sleep(grace)
		if _, _, ok := l.TakeWhole(In, Asker{}, Small); ok {
			t.Error("the reserve is not full")
		}
		off := 0
		for i := range still {
			if still[i].Off() {
				off++
			}
			still[i].Close()
		}
		if off != 2 { // an eighth, and what is asked for
			t.Errorf("%d are cut off", off)
		}
		large.Close()
		want(t, "reserve at the end", l.Held(InReserve), 0)
		want(t, "page at the end", l.Held(In), 1<<20-1000)
	})
}

// An answer is handed over with its place.
func TestAdoptFromTheReserve(t *testing.T) {
	l := New(0)
	full := l.Limit(Out)
	l.Take(Out, full)
	by := Asker{&Share{}, &Share{}}
	on, _, ok := l.TakeWhole(Out, by, 5000)
	if !ok || on != OutReserve {
		t.Fatal("no room")
	}
	var h Hold
	h.Open(l, Out, by.Conn, func() {})
	h.For(by.Key)
	h.Adopt(on, by, 5000, 9000)
	want(t, "reserve", l.Held(OutReserve), 5000)
	h.Give(7000) // what moves may be more than what was counted
	h.Give(2000)
	h.Close()
	want(t, "reserve at the end", l.Held(OutReserve), 0)
	want(t, "of the connection", by.Conn.Held(OutReserve), 0)
	want(t, "of the key", by.Key.Held(OutReserve), 0)
	want(t, "page at the end", l.Held(Out), full)
}

func TestReserveUnderLoad(t *testing.T) {
	l := New(leastPage)
	l.Take(In, leastPage-Small)
	shares := [3]Share{}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			by := Asker{Conn: &shares[i%3], Key: &shares[0]}
			for n := range int64(2000) {
				on, _, ok := l.TakeWhole(In, by, n)
				if !ok {
					continue
				}
				more, ok := l.Extend(In, on, by, n, 1000)
				if ok {
					on, n = more, n+1000
				}
				if held := l.Held(InReserve); held > l.Limit(InReserve)+6*Small { // each may be about to see that it is too much
					t.Errorf("%d bytes in reserve", held)
				}
				l.GiveWhole(on, by, n)
			}
		})
	}
	wg.Wait()
	want(t, "reserve", l.Held(InReserve), 0)
	want(t, "page", l.Held(In), leastPage-Small)
	for i := range shares {
		want(t, "share", shares[i].Held(InReserve), 0)
	}
}
