package rawsocket

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// pairs calls f with both ends of a connection of each kind.
func pairs(t *testing.T, f func(t *testing.T, raw *Conn, far net.Conn)) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			far, err := net.Dial(network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			near, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			raw := New(near)
			if raw == nil {
				t.Fatal("no raw calls on a connection of this kind")
			}
			f(t, raw, far)
		})
	}
}

// What is written in whatever parts comes as it was.
func TestParts(t *testing.T) {
	pairs(t, func(t *testing.T, raw *Conn, far net.Conn) {
		random := rand.New(rand.NewPCG(1, 2))
		for range 10 {
			var parts net.Buffers
			var want []byte
			for range random.IntN(2 * maxVectors) {
				size := random.IntN(50)
				switch random.IntN(200) {
				case 0:
					size = maxCall + random.IntN(10)
				case 1:
					size = 10_000
				}
				p := bytes.Repeat([]byte{byte(random.Uint32())}, size)
				parts, want = append(parts, p), append(want, p...)
			}
			var writer sync.WaitGroup
			writer.Go(func() {
				if n, err := raw.WriteParts(parts); n != len(want) || err != nil {
					t.Errorf("%d of %d bytes: %v", n, len(want), err)
				}
			})
			got := make([]byte, len(want))
			if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("read %v, the same %v", err, bytes.Equal(got, want))
			}
			writer.Wait()
		}
	})
}

func TestRead(t *testing.T) {
	pairs(t, func(t *testing.T, raw *Conn, far net.Conn) {
		b := make([]byte, 100)
		if n, err := raw.Read(nil); n != 0 || err != nil {
			t.Errorf("nothing: %d, %v", n, err)
		}
		if raw.HasMore() {
			t.Error("something to read, and nothing was sent")
		}
		_ = raw.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := raw.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("nothing in time: %v", err)
		}
		_ = raw.SetReadDeadline(time.Time{})
		_, _ = io.WriteString(far, "hello")
		if n, err := raw.Read(b[:2]); string(b[:n]) != "he" || err != nil {
			t.Errorf("%q, %v", b[:n], err)
		}
		if !raw.HasMore() {
			t.Error("nothing to read, and there is something")
		}
		if n, err := raw.Read(b); string(b[:n]) != "llo" || err != nil {
			t.Errorf("%q, %v", b[:n], err)
		}
		if err := far.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := raw.Read(b); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("the end: %d, %v", n, err)
		}
		_ = raw.Close()
		if _, err := raw.Read(b); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		if _, err := raw.Write(b); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// A question is written, however long, and what comes then is read.
func TestExchange(t *testing.T) {
	pairs(t, func(t *testing.T, raw *Conn, far net.Conn) {
		for _, size := range []int{1, 1000, maxCall + 1, 16 << 20} {
			question := bytes.Repeat([]byte{byte(size)}, size)
			var answerer sync.WaitGroup
			answerer.Go(func() {
				got := make([]byte, size)
				if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, question) {
					t.Errorf("read %v, the same %v", err, bytes.Equal(got, question))
				}
				_, _ = io.WriteString(far, "yes")
			})
			in, written := make([]byte, 100), 0
			n, err := raw.Exchange(question, in, func() { written++ })
			if string(in[:n]) != "yes" || err != nil || written != 1 {
				t.Errorf("%d bytes: %q, %v, written %d times", size, in[:n], err, written)
			}
			answerer.Wait()
		}
		b := make([]byte, 1)
		_ = raw.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := raw.Exchange([]byte{1}, b, func() {}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("no answer in time: %v", err)
		}
		_ = raw.SetReadDeadline(time.Time{})
		if err := far.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := raw.Read(b); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("the end: %d, %v", n, err)
		}
		far.Close()
		for range 2 { // the first may still be taken by the kernel
			if _, err := raw.Exchange([]byte{1}, b, func() {}); err == nil {
				t.Error("an answer of one who has gone")
			}
		}
		_ = raw.Close()
		if _, err := raw.Exchange([]byte{1}, b, func() {}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// Who does not read is noticed once for each write, which may end by that.
func TestFull(t *testing.T) {
	pairs(t, func(t *testing.T, raw *Conn, _ net.Conn) {
		calls, done, enough := 0, 0, errors.New("enough")
		raw.Done = func() { done++ }
		if _, err := raw.Write([]byte{1}); err != nil || done != 0 {
			t.Errorf("a write that had room: %v, Done was called %d times", err, done)
		}
		raw.Full = func() error {
			calls++
			return raw.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		}
		p := make([]byte, 16<<20)
		if n, err := raw.Write(p); n == 0 || n == len(p) || !errors.Is(err, os.ErrDeadlineExceeded) || calls != 1 || done != 1 {
			t.Errorf("%d bytes, %v, after %d calls, %d ends", n, err, calls, done)
		}
		_ = raw.SetWriteDeadline(time.Time{})
		raw.Full = func() error { return enough }
		if n, err := raw.WriteParts(net.Buffers{p, p}); n == 2*len(p) || !errors.Is(err, enough) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// Send and Receive never wait, also on a socket that blocks.
func TestWithoutWaiting(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := uintptr(pair[0]), uintptr(pair[1])
	b := make([]byte, 64<<10)
	if n, errno := Receive(near, b); n != 0 || errno != syscall.EAGAIN {
		t.Errorf("nothing to receive: %d, %v", n, errno)
	}
	sent := 0
	for {
		n, errno := Send(far, b)
		if errno != 0 {
			if n != 0 || errno != syscall.EAGAIN {
				t.Errorf("no room: %d, %v", n, errno)
			}
			break
		}
		sent += n
	}
	for got := 0; got < sent; {
		n, errno := Receive(near, b)
		if errno != 0 {
			t.Fatalf("%d of %d bytes: %v", got, sent, errno)
		}
		got += n
	}
	value := 0
	var other sync.WaitGroup
	other.Go(func() {
		value = 1
		_, _ = Send(far, []byte{1})
	})
	for {
		n, errno := Receive(near, b)
		if n == 1 {
			break
		}
		if errno != syscall.EAGAIN {
			t.Fatal(n, errno)
		}
		runtime.Gosched()
	}
	if value != 1 { // for the race detector as well, which sees nothing else that orders it
		t.Error("the byte came first")
	}
	other.Wait()
	_ = unix.Close(pair[1])
	if n, errno := Receive(near, b); n != 0 || errno != 0 {
		t.Errorf("the end: %d, %v", n, errno)
	}
	if _, errno := Send(near, b); errno != syscall.EPIPE {
		t.Errorf("nobody is there: %v", errno)
	}
	_ = unix.Close(pair[0])
}

// What happens before a write happens before what follows the read of it, for the
// race detector as well: nothing else orders these.
func TestOrder(t *testing.T) {
	pairs(t, func(t *testing.T, raw *Conn, far net.Conn) {
		for name, ends := range map[string][2]net.Conn{"out": {raw, far}, "in": {far, raw}, "both": {raw, New(far)}} {
			value := 0
			var other sync.WaitGroup
			other.Go(func() {
				value = 1
				_, _ = ends[0].Write([]byte{1})
			})
			var b [1]byte
			if _, err := io.ReadFull(ends[1], b[:]); err != nil || value != 1 {
				t.Errorf("%s: %v, %d", name, err, value)
			}
			other.Wait()
		}
	})
}
