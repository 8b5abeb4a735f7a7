package channel

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What a goroutine that has outlived its connection writes does not go to who has the
// descriptor's number now.
func TestSinkIsClosed(t *testing.T) {
	ours, theirs, err := NewPair("first")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	sink, file, err := NewSink(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := sink.Write([]byte("before")); n != 6 || err != nil {
		t.Fatalf("open: %d, %v", n, err)
	}
	number := int(file.Fd())
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var fds []int
	for len(fds) < 100 && (len(fds) == 0 || fds[len(fds)-1] != number && fds[len(fds)-2] != number) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, pair[:]...)
	}
	if n, err := sink.Write([]byte("after")); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %d, %v; want none and %v", n, err, os.ErrClosed)
	}
	for _, fd := range fds {
		var b [16]byte
		if n, err := unix.Read(fd, b[:]); n > 0 || !errors.Is(err, unix.EAGAIN) {
			t.Errorf("%q went to somebody else: %v", b[:max(0, n)], err)
		}
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	if got, err := io.ReadAll(ours); string(got) != "before" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// A read that asks for what comes says what one that waits says, and stops to ask where that
// was in vain.
func TestSourceAsks(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(s *Source, theirs *os.File) error // the read
		want   string                                 // in the error; none for data
	}{
		{"data", func(_ *Source, theirs *os.File) error { _, err := theirs.WriteString("data"); return err }, ""},
		{"data behind", func(_ *Source, theirs *os.File) error { go theirs.WriteString("data"); return nil }, ""},
		{"the end", func(_ *Source, theirs *os.File) error { return theirs.Close() }, "EOF"},
		{"interrupted", func(s *Source, _ *os.File) error { s.Interrupt(); return nil }, "interrupted"},
		{"interrupted meanwhile", func(s *Source, _ *os.File) error { go s.Interrupt(); return nil }, "interrupted"},
	} {
		for _, misses := range []int{0, askMisses} {
			ours, theirs, err := NewPair("test")
			if err != nil {
				t.Fatal(err)
			}
			s, err := NewSource(ours)
			if err != nil {
				t.Fatal(err)
			}
			s.Expect(true, true)
			for range misses {
				s.odds.note(false, askMisses)
			}
			if err := test.before(s, theirs); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 8)
			n, err := s.Read(b)
			if test.want == "" && (err != nil || string(b[:n]) != "data") || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%s, %d misses: %q, %v", test.name, misses, b[:n], err)
			}
			_, _ = s.file.Close(), theirs.Close()
		}
	}
}

// TestSourceAsksInVain: the more often nothing came, the more rarely is asked, and one frame
// that comes makes up for all.
func TestSourceAsksInVain(t *testing.T) {
	ours, theirs, err := NewPair("test")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	s, err := NewSource(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer s.file.Close()
	b := make([]byte, 8)
	for _, want := range []int{1, 3, 7, 15, 15} {
		if _, errno := s.ask(b); errno != syscall.EAGAIN {
			t.Fatal(errno)
		}
		skipped := 0
		for !s.odds.fair() {
			skipped++
		}
		if skipped != want {
			t.Errorf("%d frames are waited for, want %d", skipped, want)
		}
	}
	if _, err := theirs.WriteString("d"); err != nil {
		t.Fatal(err)
	}
	if n, errno := s.ask(b); n != 1 || errno != 0 || !s.odds.fair() {
		t.Errorf("%d bytes, %v; what came did not count", n, errno)
	}
}
