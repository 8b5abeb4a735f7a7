package near_test

import (
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/tensor"
)

type sender struct{ backend.Sender }

// freed counts buffers whose last reference is gone.
type freed int

func (f *freed) ReleaseBuffer(*tensor.Buffer) { *f++ }

func TestSender(t *testing.T) {
	var none *near.Near
	n, who := &near.Near{}, &sender{}
	if none.Sender(7) != nil || n.Sender(7) != nil {
		t.Error("a sender before Serve")
	}
	n.Serve(func(handle uint64) backend.Sender {
		if handle == 7 {
			return who
		}
		return nil
	})
	if n.Sender(7) != backend.Sender(who) || n.Sender(8) != nil {
		t.Errorf("got %v and %v", n.Sender(7), n.Sender(8))
	}
}

func TestBuffers(t *testing.T) {
	n, gone := &near.Near{}, freed(0)
	made := func() *tensor.Buffer { return tensor.NewBuffer(make([]byte, 8), &gone) }
	a, b := made(), made()
	first, second := n.Send(a), n.Send(b)
	if first == second || n.Take(first) != a || n.Take(second) != b {
		t.Fatalf("numbers %d and %d do not give what was sent", first, second)
	}
	for _, number := range []uint64{0, first, second, 77} {
		if n.Take(number) != nil {
			t.Errorf("number %d gives a buffer", number)
		}
	}
	a.Release()
	if again := n.Send(b); again != first && again != second {
		t.Errorf("number %d in place of %d or %d", again, first, second)
	}
	n.End()
	if gone != 2 {
		t.Errorf("%d buffers are free after End, want 2", gone)
	}
	if n.Send(made()) != 0 || gone != 3 {
		t.Errorf("a buffer that comes after End is kept: %d are free", gone)
	}
	var none *near.Near
	none.End()
	if none.Take(1) != nil {
		t.Error("no connection gives a buffer")
	}
}
