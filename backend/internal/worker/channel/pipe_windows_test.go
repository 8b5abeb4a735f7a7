package channel

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// pair returns both ends of a channel, which the test closes.
func pair(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, theirs, err := NewPair("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// TestPair: bytes go both ways at once, a reader can be interrupted and goes on, and the end
// comes behind what was written before.
func TestPair(t *testing.T) {
	ours, theirs := pair(t)
	heard := make(chan string)
	go func() { // waits while the other direction is written to
		b := make([]byte, 16)
		n, _ := theirs.Read(b)
		heard <- string(b[:n])
	}()
	if _, err := theirs.WriteString("up"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 16)
	if n, err := ours.Read(b); err != nil || string(b[:n]) != "up" {
		t.Errorf("got %q, %v", b[:n], err)
	}
	if err := ours.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with a deadline that is past: %v", err)
	}
	if err := ours.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ours.WriteString("down"); err != nil {
		t.Fatal(err)
	}
	if got := <-heard; got != "down" {
		t.Errorf("got %q", got)
	}
	if _, err := theirs.WriteString("last"); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	if got, err := io.ReadAll(ours); string(got) != "last" || err != nil {
		t.Errorf("at the end: %q, %v", got, err)
	}
}

// TestShutdown: it ends a read that waits, and the other side hears of the end.
func TestShutdown(t *testing.T) {
	ours, theirs := pair(t)
	ended := make(chan error)
	go func() {
		_, err := ours.Read(make([]byte, 1))
		ended <- err
	}()
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for waiting := true; waiting; { // the read may not have begun
		Shutdown(raw)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("the read returned without an error")
			}
			waiting = false
		default:
		}
	}
	_ = ours.Close()
	if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the other side: %v", err)
	}
}

// TestNobodyElse: a channel cannot be opened by its name, nor can somebody take the name first.
func TestNobodyElse(t *testing.T) {
	path := `\\.\pipe\neso-test-` + rand.Text()
	ours, theirs, err := newPipeAt(path, "test", true)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer func() { _ = windows.CloseHandle(theirs) }()
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, access := range []uint32{windows.GENERIC_READ | windows.GENERIC_WRITE, windows.GENERIC_READ, 0} {
		if h, err := windows.CreateFile(name, access, 0, nil, windows.OPEN_EXISTING, 0, 0); err == nil {
			_ = windows.CloseHandle(h)
			t.Errorf("the pipe can be opened once more, with access %#x", access)
		}
	}
	if _, _, err := newPipeAt(path, "second", true); err == nil {
		t.Error("a pipe of a name that is taken was made")
	}
	for _, first := range []uint32{0, windows.FILE_FLAG_FIRST_PIPE_INSTANCE} { // somebody waits for us there
		trap := `\\.\pipe\neso-trap-` + rand.Text()
		name, _ := windows.UTF16PtrFromString(trap)
		h, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|first, 0, windows.PIPE_UNLIMITED_INSTANCES, 1024, 1024, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := newPipeAt(trap, "ours", true); err == nil {
			t.Error("a pipe was made beside that of somebody else")
		}
		_ = windows.CloseHandle(h)
	}
}

// TestPass: a file arrives as a handle of its own. A worker that never takes what it is
// handed is given up, and holds nobody up.
func TestPass(t *testing.T) {
	ours, theirs := pair(t)
	ends := Ends{Descriptors: ours}
	defer ends.Peer.Close()
	file, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := ends.Pass(file); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	got, err := ReceiveFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if _, err := io.ReadFull(got, b); string(b) != "MZ" || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
	_ = got.Close()
	if err := ends.Pass(file); err == nil {
		t.Error("a closed file was passed")
	}

	if file, err = os.Open(os.Args[0]); err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{4096, 8} { // a write that is cut leaves room
		filled := 0
		for err = error(nil); err == nil && filled <= 2*pipeBuffer; filled += size {
			_ = ours.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			_, err = ours.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d bytes went into a pipe that nobody reads: %v", filled, err)
		}
	}
	if err := ends.Pass(file); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a pipe that nobody reads: %v", err)
	}
}

// TestInherited: what the environment says is checked, and is not handed on.
func TestInherited(t *testing.T) {
	for _, text := range []string{"", "1", "x,y", "0,0", "-4,8", "4", "99999999999,4", "4294967295,4294967295", "123456,123456"} {
		t.Setenv(variable, text)
		if c, d, err := Inherited(); err == nil {
			t.Errorf("%q: got %v, %v", text, c, d)
		} else if !strings.Contains(err.Error(), "handle") {
			t.Errorf("%q: %v", text, err)
		}
		if _, there := os.LookupEnv(variable); there {
			t.Errorf("%q: what the worker starts would hear of it", text)
		}
	}
	one, first, err := NewPipe("first", true)
	if err != nil {
		t.Fatal(err)
	}
	two, second, err := NewPipe("second", true)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	defer two.Close()
	name, value, _ := strings.Cut(Inheritance(first, second), "=")
	t.Setenv(name, value)
	control, descriptors, err := Inherited()
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	defer descriptors.Close()
	if pid := PeerOf(control); pid != os.Getpid() {
		t.Errorf("the process at the other end is %d", pid)
	}
	if _, err := one.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if n, err := control.Read(b); n != 1 || b[0] != 'x' || err != nil {
		t.Errorf("got %q, %v", b[:n], err)
	}
	ends, err := EndsOf(control, descriptors)
	if err != nil {
		t.Fatal(err)
	}
	ends.Peer.Close()
}
