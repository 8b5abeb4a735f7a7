package lifecycle

import "testing"

func TestMoves(t *testing.T) {
	allowed := map[State][]State{
		Unknown:     {Loading},
		Loading:     {Ready, Unavailable},
		Ready:       {Ready, Unloading},
		Unloading:   {Unavailable, Loading},
		Unavailable: {Loading},
	}
	for from := range states {
		want := map[State]bool{}
		for _, to := range allowed[from] {
			want[to] = true
		}
		for to := range states {
			v := &version{state: from}
			got := func() (ok bool) {
				defer func() { ok = recover() == nil }()
				v.move(to, "why")
				return
			}()
			if got != want[to] {
				t.Errorf("%s to %s: %v, want %v", from, to, got, want[to])
			}
			if got && (v.state != to || v.reason != "why" || v.moves != 1) || !got && v.state != from {
				t.Errorf("%s to %s: now %+v", from, to, v)
			}
		}
	}
}

func TestStateNames(t *testing.T) {
	for s, want := range map[State]string{
		Unknown: "UNKNOWN", Loading: "LOADING", Ready: "READY", Unloading: "UNLOADING",
		Unavailable: "UNAVAILABLE",
	} {
		if s.String() != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
}
