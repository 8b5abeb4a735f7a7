package board

import (
	"encoding/binary"
	"testing"
)

// TestSlots: each instance has its own two words, and one that gets those of another
// may not run what went to that one.
func TestSlots(t *testing.T) {
	b, heard, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer heard.Close()
	word := func(offset int) uint64 { return binary.NativeEndian.Uint64(b.Segment().Data()[offset:]) }
	var slots []*Slot
	for n := range boardSize / boardSlot {
		s := b.Take(uint64(n))
		if s == nil || *s.Offset() != n*boardSlot || word(*s.Offset()+RecalledAt) != uint64(n) || s.Begun() != 0 {
			t.Fatalf("part %d: %+v", n, s)
		}
		slots = append(slots, s)
	}
	if b.Take(0) != nil {
		t.Error("there are more parts than room")
	}
	binary.NativeEndian.PutUint64(b.Segment().Data()[*slots[3].Offset():], 7) // as its worker does
	if slots[3].Begun() != 7 || slots[2].Begun() != 0 || slots[4].Begun() != 0 {
		t.Error("begun by another one")
	}
	slots[3].Recall(9)
	if word(*slots[3].Offset()+RecalledAt) != 9 {
		t.Error("not recalled")
	}
	b.Free(slots[3])
	if s := b.Take(20); s == nil || *s.Offset() != 3*boardSlot || s.Begun() != 0 || word(*s.Offset()+RecalledAt) != 20 {
		t.Errorf("taken again: %+v", s)
	}
	var none *Slot
	if none.Offset() != nil {
		t.Error("none has an offset")
	}
}
