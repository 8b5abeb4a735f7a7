package worker

import (
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// newPackets returns an outbox whose writes can be told apart, and what takes the next one:
// "" where there is none.
func newPackets(t *testing.T) (o *outbox, next func() string) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	t.Cleanup(func() { _, _ = ours.Close(), unix.Close(fds[1]) })
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	o = &outbox{}
	o.init(&sync.Mutex{}, raw)
	return o, func() string {
		var b [256]byte
		n, err := unix.Read(fds[1], b[:])
		if err != nil {
			return ""
		}
		return string(b[:n])
	}
}

// Batches behind several others leave together, and so do the first ones while they come so;
// a lone client's leave at once, and take along what waits.
func TestBatchesLeaveTogether(t *testing.T) {
	o, next := newPackets(t)
	has := map[bool]int{false: mostBatched, true: mostBatched + 1}
	send := func(frame string, many, another bool) string {
		o.waits = another // as while another one lets those go first that are ready
		o.frames = append(o.frames, frame...)
		o.flushBatch(has[many], false)
		o.waits = false
		return next()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range []struct {
		frame         string
		many, another bool
		want          string
	}{
		{"lone ", false, false, "lone "},
		{"many ", true, false, "many "},
		{"a", true, true, ""},
		{"b", true, true, ""},
		{"c", true, false, "abc"},
		{"first", false, true, ""}, // several came together just now
		{" second", true, false, "first second"},
		{"1", false, false, "1"},
		{"2", false, false, "2"},
		{"3", false, true, ""},
		{"", false, false, "3"},
		{"4", false, false, "4"},
	} {
		if got := send(c.frame, c.many, c.another); got != c.want {
			t.Errorf("%q: %q left, want %q", c.frame, got, c.want)
		}
	}
	for range 4 {
		send("x", false, false)
	}
	o.frames = append(o.frames, "waits "...)
	if got := send("lone", false, true); got != "waits lone" {
		t.Errorf("%q left, want a lone client's batch and what waited", got)
	}
	// A worker that asks for what comes gets the first ones at once, whatever waits.
	o.asked = true
	asked := func(frame string, has int, only bool, want string) {
		t.Helper()
		o.waits = true
		o.frames = append(o.frames, frame...)
		o.flushBatch(has, only)
		if got := next(); got != want {
			t.Errorf("%q: %q left, want %q", frame, got, want)
		}
		o.waits = false
	}
	asked("first", 1, true, "first")
	asked("fourth", mostAsked, true, "fourth")
	asked("fifth ", mostAsked+1, true, "")
	asked("of several", mostAsked, false, "")
	asked(" next", 1, true, "fifth of several next")
	o.end()
	if got := send("late", true, false); got != "" || o.waits {
		t.Errorf("%q left after the end", got)
	}
}
