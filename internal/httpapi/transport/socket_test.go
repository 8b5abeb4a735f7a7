package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/ledger"
)

// clientGone says whether a write failed because there is no client any more.
func clientGone(err error) bool {
	const aborted, reset = syscall.Errno(10053), syscall.Errno(10054) // of Windows, whose package syscall means others by EPIPE, ECONNRESET
	if runtime.GOOS == "windows" && (errors.Is(err, aborted) || errors.Is(err, reset)) {
		return true
	}
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed)
}

// pair returns a connection as a server has it, and the client's end.
func pair(t *testing.T, network, address string) (*conn, net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		if network == "unix" && runtime.GOOS == "windows" {
			t.Skip("this Windows has no Unix sockets: ", err)
		}
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial(network, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	far, err := (&listener{l, &Server{Server: &http.Server{}}}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	c := far.(*conn)
	c.openSocket()
	return c, client
}

func TestSocket(t *testing.T) {
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			c, client := pair(t, network, address)
			// A client that does not read: each answer waits for room in the end.
			answer := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
			const times = 200
			var sender sync.WaitGroup
			sender.Go(func() {
				for range times {
					if n, err := c.transmit(answer); n != len(answer) || err != nil {
						t.Errorf("%d, %v", n, err)
					}
				}
			})
			if got, err := io.ReadAll(io.LimitReader(client, int64(times*len(answer)))); err != nil ||
				!bytes.Equal(got, bytes.Repeat(answer, times)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			sender.Wait()
			// Nothing comes in time, then something, then the end.
			b := make([]byte, 100)
			if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if n, err := c.receive(b); n != 0 || !isTimeout(err) || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%d, %v", n, err)
			}
			if err := c.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(client, "hello")
			if n, err := c.receive(b); string(b[:n]) != "hello" || err != nil {
				t.Errorf("%q, %v", b[:n], err)
			}
			if n, err := c.receive(nil); n != 0 || err != nil {
				t.Errorf("nothing: %d, %v", n, err)
			}
			_ = client.Close()
			if n, err := c.receive(b); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%d, %v", n, err)
			}
			// The client is gone: the system says so at the latest on the second try.
			_, err := c.transmit(answer)
			for err == nil {
				_, err = c.transmit(answer)
			}
			if !clientGone(err) {
				t.Error(err)
			}
			_ = c.Close()
			if _, err := c.receive(b); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			if _, err := c.transmit(b); !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// stuckBesideOthers fills a connection that nobody reads while others want all
// the room there is, and returns how that ended.
func stuckBesideOthers(t *testing.T, l *ledger.Ledger, fill func(*conn) error) error {
	t.Helper()
	c, _ := pair(t, "tcp", "127.0.0.1:0")
	// The kernel takes nothing more: the next answer is stuck.
	for written := error(nil); written == nil; {
		_ = c.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		_, written = c.Write(make([]byte, 1<<20))
	}
	_ = c.SetWriteDeadline(time.Time{})
	c.s.Ledger = l
	ended := make(chan error)
	go func() { ended <- fill(c) }()
	for l.Held(ledger.Out) == 0 {
		runtime.Gosched()
	}
	const others = 63 << 20 // of 64 MiB
	if !l.Take(ledger.Out, others) {
		t.Fatal("no room")
	}
	defer l.Give(ledger.Out, others)
	for {
		select {
		case err := <-ended:
			return err
		default:
			if l.Take(ledger.Out, 1<<20) { // somebody wants the room
				l.Give(ledger.Out, 1<<20)
			}
			runtime.Gosched()
		}
	}
}

// An answer that does not go is counted, has an end, and the ledger can end it
// before.
func TestAnswersThatDoNotGo(t *testing.T) {
	answer := make([]byte, rawMost)
	fill := func(c *conn) (err error) {
		for err == nil {
			_, err = c.transmit(answer)
		}
		return err
	}
	empty := func(l *ledger.Ledger) {
		t.Helper()
		if n := l.Held(ledger.Out); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	}
	l := ledger.New(1 << 20)
	c, _ := pair(t, "tcp", "127.0.0.1:0")
	c.s.Ledger, c.s.ReadTimeout = l, time.Millisecond
	if err := fill(c); !isTimeout(err) {
		t.Errorf("ends with %v", err)
	}
	empty(l)

	// An answer that is stuck gives way to others. One that still moves just when
	// the page is full is refused, and another try is made.
	err := errNoRoom
	for tries := 0; errors.Is(err, errNoRoom) && tries < 100; tries++ {
		err = stuckBesideOthers(t, l, fill)
	}
	if n := l.Cuts(ledger.Out, ledger.Stalled); !isTimeout(err) || n != 1 {
		t.Errorf("ends with %v after %d cuts", err, n)
	}
	empty(l)

	c, _ = pair(t, "tcp", "127.0.0.1:0")
	c.s.Ledger = l
	if !l.Take(ledger.Out, 64<<20) {
		t.Fatal("no room")
	}
	if err := fill(c); !errors.Is(err, errNoRoom) {
		t.Errorf("a full ledger: %v", err)
	}
	l.Give(ledger.Out, 64<<20)
	empty(l)
}
