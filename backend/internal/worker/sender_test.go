package worker

import (
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/near"
	"github.com/nesoserve/neso/tensor"
)

// inPieces is a program that has an input in pieces.
type inPieces struct {
	backend.Sender
	memory *tensor.Buffer
}

func (s inPieces) InPieces() *tensor.Buffer { return s.memory }

// TestSenderOfWhatFails: who has sent a request is found together with what keeps its inputs, which the end of the
// connection, and so of the request, does not take away from whoever works on them.
func TestSenderOfWhatFails(t *testing.T) {
	n := &near.Near{}
	f := newFakeWith(t, ConnOptions{Near: n})
	inst := f.instance(nil)
	freed := make(released, 1)
	memory := tensor.NewBuffer(nil, freed)
	pieces, whole := request(newAnswers()), request(newAnswers())
	pieces.Sender, whole.Sender = inPieces{memory: memory}, inPieces{}
	done := f.execute(t.Context(), inst, pieces, whole, request(newAnswers()))
	_, blocks := f.taken()
	by, keep := n.Sender(blocks[0].Handle)
	if by != pieces.Sender || keep != memory {
		t.Fatalf("got %v and %v", by, keep)
	}
	if by, keep := n.Sender(blocks[1].Handle); by != whole.Sender || keep != nil {
		t.Errorf("a request in whole pieces: got %v and %v", by, keep)
	}
	if by, keep := n.Sender(blocks[2].Handle); by != nil || keep != nil {
		t.Errorf("a client's request: got %v and %v", by, keep)
	}
	_ = f.ctrl.Close()
	_ = f.fds.Close()
	if err := result(t, done); err == nil {
		t.Error("the connection has not failed")
	}
	memory.Release() // as the end of the request does
	if by, keep := n.Sender(blocks[0].Handle); by != nil || keep != nil {
		t.Errorf("a request that was answered: got %v and %v", by, keep)
	}
	if len(freed) != 0 {
		t.Fatal("the inputs are gone while they are worked on")
	}
	keep.Release()
	if len(freed) != 1 {
		t.Error("the inputs are kept")
	}
}

// released takes a buffer whose last reference is gone.
type released chan struct{}

func (r released) ReleaseBuffer(*tensor.Buffer) { r <- struct{}{} }
