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
	keeps := tensor.NewBuffer(nil, nil)
	is := func(n *near.Near, handle uint64, want backend.Sender, kept *tensor.Buffer) {
		t.Helper()
		if by, keep := n.Sender(handle); by != want || keep != kept {
			t.Errorf("handle %d: got %v and %v, want %v and %v", handle, by, keep, want, kept)
		}
	}
	is(none, 7, nil, nil)
	is(n, 7, nil, nil)
	n.Serve(func(handle uint64) (backend.Sender, *tensor.Buffer) {
		if handle == 7 {
			return who, keeps
		}
		return nil, nil
	})
	is(n, 7, who, keeps)
	is(n, 8, nil, nil)
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
