package flight

import (
	"testing"

	"github.com/nesoserve/neso/internal/ledger"
)

// What a reply keeps is refused where there is no room, and given back.
func TestKept(t *testing.T) {
	l := ledger.New(1 << 20)
	other := l.Limit(ledger.Out) - 1<<20
	if !l.Take(ledger.Out, other) { // somebody else's: an answer that is alone always fits
		t.Fatal("no room at all")
	}
	k := Kept{Ledger: l}
	for range 8 {
		if err := k.Add(1 << 13); err != nil {
			t.Fatal(err)
		}
	}
	if held := l.Held(ledger.Out); !k.Large() || held <= other {
		t.Errorf("%d bytes are held", held)
	}
	if err := k.Add(1 << 18); err == nil {
		t.Error("four times 256 KiB fit into the 1 MiB that is left")
	}
	k.Free()
	if held := l.Held(ledger.Out); held != other {
		t.Errorf("%d bytes are held at the end, want those of the other", held)
	}
}
