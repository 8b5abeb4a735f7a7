package channel

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

// TestPolling is about which frames are asked for: not those that nobody expects
// soon, not after a while without a look at the network, not too many in a row, and
// ever fewer the more often it was in vain.
func TestPolling(t *testing.T) {
	var p polling
	ask := func(soon bool, idle time.Duration) bool {
		p.soon = p.soon || soon
		return p.begin(idle)
	}
	if ask(false, 0) {
		t.Error("asks for a frame that nobody expects")
	}
	if !ask(true, pollWindow) || ask(true, pollWindow+1) {
		t.Error("the window does not end when it should")
	}
	if ask(false, 0) {
		t.Error("what is expected holds for one frame")
	}
	for _, want := range []int{1, 3, 7, 15, 31, 63, 63} {
		p.end(false)
		skipped := 0
		for !ask(true, 0) {
			skipped++
		}
		if skipped != want {
			t.Errorf("skips %d frames, want %d", skipped, want)
		}
	}
	p.end(true)
	if !ask(true, 0) {
		t.Error("does not ask after a frame that came")
	}
	p.end(false)
	if ask(true, 0) || !ask(true, 0) {
		t.Error("a frame that came does not forget what was in vain before")
	}
	for range maxRun - 1 {
		if p.end(true); !ask(true, 0) {
			t.Fatal("does not ask, though all came")
		}
	}
	if p.end(true); ask(true, 0) || !ask(true, 0) {
		t.Error("more in a row than may be, or it does not begin anew")
	}
}

// TestPolledRead: a read that asks the socket says what one that waits says.
func TestPolledRead(t *testing.T) {
	before := parked.Swap(math.MaxInt64 / 2) // so that the window is not over
	defer parked.Store(before)
	for _, test := range []struct {
		name   string
		before func(ours, theirs *os.File) error // the read
		want   string                            // in the error; none for data
	}{
		{"data", func(_, theirs *os.File) error { _, err := theirs.WriteString("data"); return err }, ""},
		{"data behind", func(_, theirs *os.File) error { go theirs.WriteString("data"); return nil }, ""},
		{"the end", func(_, theirs *os.File) error { return theirs.Close() }, "EOF"},
		{"a deadline", func(ours, _ *os.File) error { return ours.SetReadDeadline(time.Unix(1, 0)) }, "i/o timeout"},
		{"closed", func(ours, _ *os.File) error { return ours.Close() }, "closed"},
	} {
		ours, theirs, err := NewPair("test")
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewReader(ours)
		if err != nil {
			t.Fatal(err)
		}
		if err := test.before(ours, theirs); err != nil {
			t.Fatal(err)
		}
		d.Expect()
		b := make([]byte, 8)
		n, err := d.Read(b)
		if test.want == "" && (err != nil || string(b[:n]) != "data") || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %q, %v", test.name, b[:n], err)
		}
		if d.polling.soon {
			t.Errorf("%s: the read did not look whether to poll", test.name)
		}
		_, _ = ours.Close(), theirs.Close()
	}
}

// TestPolledReadSeesDeadline: what always comes at once does not keep a reader
// from what it is told by a deadline, however often others wait.
func TestPolledReadSeesDeadline(t *testing.T) {
	before := parked.Swap(math.MaxInt64 / 2)
	defer parked.Store(before)
	ours, theirs, err := NewPair("test")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	d, err := NewReader(ours)
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 * maxRun {
		if _, err := theirs.WriteString("d"); err != nil {
			t.Fatal(err)
		}
		d.Expect()
		if _, err := d.Read(make([]byte, 1)); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			return
		}
	}
	t.Errorf("%d frames were read after the deadline", 2*maxRun)
}
