package ratelimit

import (
	"strings"
	"testing"
)

// Instances of a group come and go; the limits follow what is needed.
func TestChange(t *testing.T) {
	l := New(nil)
	one := func(n int) Instance { return Instance{Needs: []Need{{Name: "R", Count: n}}, Priority: 1} }
	g, err := l.Register([]Instance{one(4), one(4)})
	if err != nil {
		t.Fatal(err)
	}
	turns := 0
	g.OnTurn(func() { turns++ })
	limit := func(want int64) {
		t.Helper()
		if u := l.Usage(); len(u) != 1 || u[0].Limit != want {
			t.Errorf("%v, want a limit of %d", u, want)
		}
	}
	limit(4)
	if !g.Ask(0) || g.Ask(1) {
		t.Error("two instances run where there is enough for one")
	}
	if err := g.Add(map[int]Instance{3: one(3)}); err != nil {
		t.Fatal(err)
	}
	limit(4)
	if g.Ask(3) {
		t.Error("a third runs")
	}
	var others Turns
	if !g.Release(0, &others) || !g.Ask(1) {
		t.Error("it is not the turn of the one that waited first")
	}
	g.Remove(0)
	g.Remove(1) // with what it holds: it is the turn of the last one
	if turns != 1 || !g.Ask(3) {
		t.Errorf("%d turns", turns)
	}
	limit(3)
	if !strings.Contains(g.Table(), "Resource: R\t Count: 3\n") {
		t.Error(g.Table())
	}
	if h := g.Held(3); len(h) != 1 || h[0].Units != 3 || g.Held(0) != nil || g.Held(9) != nil || len(g.Least()) != 1 {
		t.Errorf("held %v", h)
	}
	if i := g.AskAny(func(int) bool { return true }); i != -1 {
		t.Errorf("instance %d runs", i)
	}
	if err := g.Add(map[int]Instance{0: {}}); err != nil || !g.Limited() || g.Needs(0) || !g.Needs(3) || g.Needs(9) {
		t.Errorf("%v, limited %v", err, g.Limited())
	}
	if g.Remove(3); g.Limited() {
		t.Error("limited, though nobody needs anything")
	}
	g.Close()
	g.Remove(3)
	if u := l.Usage(); len(u) != 0 {
		t.Errorf("left: %v", u)
	}
}

// What cannot be had changes nothing.
func TestChangeRefused(t *testing.T) {
	l := New([]Capacity{{Name: "R", Count: 4, Device: EveryDevice}})
	g, err := l.Register([]Instance{{Needs: []Need{{Name: "R", Count: 2}}}})
	if err != nil {
		t.Fatal(err)
	}
	err = g.Add(map[int]Instance{1: {Needs: []Need{{Name: "R", Count: 1}}}, 2: {Needs: []Need{{Name: "R", Count: 5}}}})
	if err == nil || !strings.Contains(err.Error(), "limited to 4") {
		t.Error(err)
	}
	if u := l.Usage(); len(u) != 1 || u[0].Limit != 4 || !g.Ask(0) {
		t.Errorf("%v", u)
	}
}
