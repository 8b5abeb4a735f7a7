package residency

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is what the machine decides about, as an obvious model of it: it carries out
// the actions, and holds them against the rules.
type world struct {
	t       *testing.T
	r       *rand.Rand
	m       *Machine
	now     int64
	limit   int64
	stay    int64
	traits  map[string]Traits
	parts   map[string][]string
	sizes   map[string]int64
	in      map[string]int64 // since when
	busy    map[string]bool
	used    map[string]int64
	loading []string
	leaving []string
	open    map[uint64]string // waiters
	// arriving counts who has been told of a model, and has not come yet.
	arriving map[string]int
	callers  map[uint64]string
	log      []string
}

func (w *world) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%d ", w.now)+fmt.Sprintf(format, args...))
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.log[max(0, len(w.log)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

func (w *world) look(name string) Look {
	return Look{Bytes: w.sizes[name], Busy: w.busy[name], Used: w.used[name]}
}

// held is what is in, on its way in or on its way out.
func (w *world) held() (bytes int64) {
	seen := map[string]bool{}
	for name := range w.in {
		seen[name] = true
	}
	for _, name := range w.leaving {
		seen[name] = true
	}
	for _, name := range w.loading {
		for _, member := range w.closure(name) {
			seen[member] = true
		}
	}
	for name := range seen {
		bytes += w.sizes[name]
	}
	return bytes
}

func (w *world) closure(name string) []string { return append([]string{name}, w.parts[name]...) }

func (w *world) step() {
	for name, e := range w.m.models {
		if (w.m.here[name] == e) != (e.state != Out) {
			w.fatalf("%s is %s, and counted among what is here: %t", name, e.state, w.m.here[name] == e)
		}
	}
	for again := true; again; {
		again = false
		actions, _ := w.m.Step(w.now, w.look)
		for _, a := range actions {
			w.logf("%d %s %s %v %v", a.Kind, a.Name, a.Why, a.Waiters, a.Err)
			switch a.Kind {
			case Read:
				var all []Sketch
				for _, name := range w.closure(a.Name) {
					all = append(all, Sketch{Name: name, Parts: w.parts[name], Traits: w.traits[name], Bytes: w.sizes[name]})
				}
				w.m.Read(a.Name, all)
				again = true
			case Load:
				w.mayLoad(a)
			case Evict:
				w.mayLeave(a)
			case Answer:
				for _, id := range a.Waiters {
					if w.open[id] != a.Name {
						w.fatalf("%d is told of %s, and has waited for %q", id, a.Name, w.open[id])
					}
					delete(w.open, id)
					delete(w.callers, id)
				}
				if a.Err == nil {
					w.arriving[a.Name] += len(a.Waiters)
				}
				if _, in := w.in[a.Name]; in != (a.Err == nil) {
					w.fatalf("told of %s, in %t: %v", a.Name, in, a.Err)
				}
			}
		}
	}
}

func (w *world) mayLoad(a Action) {
	if _, in := w.in[a.Name]; in || slices.Contains(w.leaving, a.Name) || slices.Contains(w.loading, a.Name) {
		w.fatalf("%s is loaded twice", a.Name)
	}
	w.loading = append(w.loading, a.Name)
	if held := w.held(); held > w.limit {
		w.fatalf("with %s %d of %d bytes are held", a.Name, held, w.limit)
	}
}

// mayLeave: what leaves is idle, not pinned, has had its stay, and no ensemble that is
// in needs it. Of those that could have left instead none has a lower rank.
func (w *world) mayLeave(a Action) {
	free := func(name string) bool {
		since, in := w.in[name]
		if !in || w.busy[name] || w.arriving[name] > 0 || w.traits[name].Pin || w.now < since+w.stay {
			return false
		}
		for user, parts := range w.parts {
			_, there := w.in[user]
			if slices.Contains(parts, name) && (there || slices.Contains(w.leaving, user) || slices.Contains(w.loading, user)) {
				return false
			}
		}
		return true
	}
	if !free(a.Name) {
		w.fatalf("%s may not leave", a.Name)
	}
	rank := func(name string) [2]int64 {
		return [2]int64{int64(w.traits[name].Priority), max(w.used[name], w.in[name])}
	}
	if w.sizes[a.Name] > 0 && a.Why == ForMemory && len(w.parts) == 0 {
		for name := range w.in {
			if mine, other := rank(a.Name), rank(name); free(name) && slices.Compare(other[:], mine[:]) < 0 {
				w.fatalf("%s leaves, rank %v, and %s could, rank %v", a.Name, mine, name, other)
			}
		}
	}
	delete(w.in, a.Name)
	w.leaving = append(w.leaving, a.Name)
}

func (w *world) finish(list *[]string) string {
	if len(*list) == 0 {
		return ""
	}
	i := w.r.IntN(len(*list))
	name := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return name
}

// come has those come who have been told of a model; without all some wait longer.
func (w *world) come(all bool) {
	for name := range w.arriving {
		for ; w.arriving[name] > 0 && (all || w.r.IntN(3) == 0); w.arriving[name]-- {
			w.m.Came(name)
		}
	}
}

func (w *world) event(names []string) {
	name := names[w.r.IntN(len(names))]
	w.come(w.r.IntN(2) == 0)
	switch w.r.IntN(12) {
	case 0, 1, 2, 3:
		if _, in := w.in[name]; in {
			w.used[name] = w.now
			return
		}
		id := uint64(w.now)
		caller := ""
		for other := range w.busy {
			if w.busy[other] && other != name && w.r.IntN(4) == 0 {
				caller = other
				break
			}
		}
		if err := w.m.Want(w.now, id, name, caller); err == nil {
			w.open[id], w.callers[id] = name, caller
			w.logf("want %d %s by %q", id, name, caller)
		}
	case 4, 5:
		if done := w.finish(&w.loading); done != "" {
			if w.r.IntN(8) == 0 {
				w.logf("failed %s", done)
				w.m.Failed(w.now, done, errors.New("broken"), func(name string) bool { _, in := w.in[name]; return in })
				return
			}
			w.logf("loaded %s", done)
			for _, member := range w.closure(done) {
				if _, there := w.in[member]; !there {
					w.in[member] = w.now
				}
			}
			w.m.Loaded(w.now, done)
		}
	case 6, 7:
		if done := w.finish(&w.leaving); done != "" {
			w.logf("unloaded %s", done)
			w.m.Unloaded(done)
		}
	case 8:
		if _, in := w.in[name]; in {
			w.logf("busy %s", name)
			w.busy[name], w.used[name] = true, w.now
		}
	case 9, 10:
		waits := false
		for _, caller := range w.callers {
			waits = waits || caller == name
		}
		if !waits { // who waits cannot become idle
			delete(w.busy, name)
		}
	case 11:
		for id, of := range w.open {
			if w.r.IntN(3) == 0 {
				w.logf("leave %d", id)
				w.m.Leave(id, of)
				delete(w.open, id)
				delete(w.callers, id)
			}
			break
		}
	}
}

// TestRandom: whatever happens in whatever order, the limit holds when a load begins,
// nothing leaves that may not, the least used leave first, and in the end everybody who
// waits is told.
func TestRandom(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &world{
			t: t, r: r, limit: 100, stay: int64(r.IntN(3) * 5), traits: map[string]Traits{}, parts: map[string][]string{},
			sizes: map[string]int64{}, in: map[string]int64{}, busy: map[string]bool{}, used: map[string]int64{},
			open: map[uint64]string{}, callers: map[uint64]string{}, arriving: map[string]int{},
		}
		w.m = New(Settings{Limit: w.limit, Loads: 1 + r.IntN(3), Waiting: 20, LeastStay: 0})
		w.m.o.LeastStay = 0
		if w.stay > 0 {
			w.m.o.LeastStay = 5
			w.stay = 5
		}
		var names []string
		for i := range 8 {
			name := string(rune('a' + i))
			names = append(names, name)
			w.sizes[name] = int64(10 + r.IntN(40))
			w.traits[name] = Traits{Pin: r.IntN(10) == 0, Priority: r.IntN(3)}
		}
		if seed%2 == 1 {
			for _, ensemble := range []string{"x", "y"} {
				names = append(names, ensemble)
				w.parts[ensemble] = []string{names[r.IntN(4)], names[4+r.IntN(4)]}
			}
		}
		for range 400 {
			w.now++
			w.event(names)
			w.step()
		}
		// Everything ends: nobody is left waiting.
		for range 2000 {
			w.now += 10
			clear(w.busy)
			w.come(true)
			for done := w.finish(&w.leaving); done != ""; done = w.finish(&w.leaving) {
				w.m.Unloaded(done)
			}
			if done := w.finish(&w.loading); done != "" {
				for _, member := range w.closure(done) {
					if _, there := w.in[member]; !there {
						w.in[member] = w.now
					}
				}
				w.m.Loaded(w.now, done)
			}
			w.step()
			if len(w.open) == 0 && len(w.loading) == 0 && len(w.leaving) == 0 {
				break
			}
		}
		if len(w.open) > 0 {
			w.fatalf("seed %d: nobody tells %v", seed, w.open)
		}
		if t := w.m.Totals(); t.Waiting != 0 || w.m.waiting != 0 || len(w.m.reads) != 0 || len(w.m.loads) != 0 {
			w.fatalf("seed %d: %+v is left, %d waiting, %d reads", seed, t, w.m.waiting, len(w.m.reads))
		}
	}
}
