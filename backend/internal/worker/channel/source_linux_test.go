package channel

import (
	"errors"
	"io"
	"os"
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
