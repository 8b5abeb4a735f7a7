package generation

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestATextIsCounted(t *testing.T) {
	var b Book
	came := time.Now()
	text := b.Begin("m", 2, came)
	other := b.Begin("m", 2, came)
	if n := b.Snapshot()[0]; n.Waiting != 2 || n.Running != 0 {
		t.Errorf("before the first piece: %+v", n)
	}
	text.Piece(came.Add(30*time.Millisecond), true, 7, 1)
	text.Piece(came.Add(130*time.Millisecond), true, 7, 2)
	text.Piece(came.Add(140*time.Millisecond), false, 7, 0) // the end mark is no token
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
}

func TestTheBookIsBounded(t *testing.T) {
	var b Book
	for i := range mostModels + 10 {
		text := b.Begin(strconv.Itoa(i), 1, time.Now())
		text.Piece(time.Now(), true, 1, 1)
		text.End()
	}
	if got := len(b.Snapshot()); got != mostModels {
		t.Errorf("%d models are in the book, want %d", got, mostModels)
	}
	if diff := cmp.Diff([]Numbers{}, (&Book{}).Snapshot()); diff != "" {
		t.Error(diff)
	}
}
