package generation

import (
	"encoding/binary"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// said is a response with a piece of text.
func said(text string, tokens int32) *backend.Response {
	number := func(n int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	return &backend.Response{
		Outputs: []tensor.Tensor{
			{Name: "text_output", Datatype: tensor.Bytes, Shape: tensor.Shape{1}, Data: tensor.AppendElement(nil, text)},
			{Name: OutputTokens, Datatype: tensor.Int32, Shape: tensor.Shape{1}, Data: number(tokens)},
		},
		Parameters: []backend.Parameter{backend.Int(PromptTokens, 7)},
	}
}

func TestATextIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Book
		text := b.Begin("m", 2, DefaultOutput, backend.Now())
		other := b.Begin("m", 2, DefaultOutput, backend.Now())
		if n := b.Snapshot()[0]; n.Waiting != 2 || n.Running != 0 {
			t.Errorf("before the first piece: %+v", n)
		}
		time.Sleep(30 * time.Millisecond)
		text.Response(said("a", 1))
		time.Sleep(100 * time.Millisecond)
		text.Response(said("b", 2))
		text.Response(said("", 0)) // the end mark is no token
		text.Response(&backend.Response{Err: backend.Errorf(backend.Internal, "x")})
		text.Response(nil)
		other.End()
		n := b.Snapshot()[0]
		if n.Waiting != 0 || n.Running != 1 || n.Prompt != 7 || n.Tokens != 3 {
			t.Errorf("after two pieces: %+v", n)
		}
		if n.First.Counts[4] != 1 || n.First.Sum != 0.03 || n.Between.Counts[7] != 1 || n.Between.Sum != 0.1 {
			t.Errorf("times: %+v", n)
		}
		text.End()
		text.End()
		if n := b.Snapshot()[0]; n.Waiting != 0 || n.Running != 0 {
			t.Errorf("after the end: %+v", n)
		}
	})
}

func TestTheBookIsBounded(t *testing.T) {
	var b Book
	for i := range mostModels + 10 {
		text := b.Begin(strconv.Itoa(i), 1, DefaultOutput, 0)
		text.Response(said("a", 1))
		text.End()
	}
	if got := b.Beyond(); got != 10 {
		t.Errorf("%d texts are beyond the book, want 10", got)
	}
	if text := b.Begin("5", 1, DefaultOutput, 0); text == nil {
		t.Error("a version that is in the book is not counted any more")
	}
	if got := len(b.Snapshot()); got != mostModels {
		t.Errorf("%d models are in the book, want %d", got, mostModels)
	}
	if diff := cmp.Diff([]Numbers{}, (&Book{}).Snapshot()); diff != "" {
		t.Error(diff)
	}
}
