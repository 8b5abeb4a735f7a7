package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// manager is what systemd has: a socket that messages come to.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T, address string) manager {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no datagram sockets of Unix")
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", address)
	return manager{t, c}
}

// next returns the first line of the next message.
func (m manager) next() string {
	m.t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		m.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := m.conn.Read(b)
	if err != nil {
		m.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b[:n]), "\n")
	return first
}

func (m manager) expect(want string) {
	m.t.Helper()
	if got := m.next(); got != want {
		m.t.Fatalf("got %q, want %q", got, want)
	}
}

// TestTheLifeOfAServer is told to a socket with a path, and to one without.
func TestTheLifeOfAServer(t *testing.T) {
	addresses := []string{filepath.Join(t.TempDir(), "notify")}
	if runtime.GOOS == "linux" {
		addresses = append(addresses, fmt.Sprintf("@neso-notify-%d", os.Getpid()))
	}
	for _, address := range addresses {
		m := newManager(t, address)
		t.Setenv("WATCHDOG_USEC", "20000")
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
		ctx, stop := context.WithCancel(t.Context())
		n := Open(ctx, slog.New(slog.DiscardHandler))
		if os.Getenv("NOTIFY_SOCKET")+os.Getenv("WATCHDOG_USEC")+os.Getenv("WATCHDOG_PID") != "" {
			t.Error("workers would inherit the manager's socket")
		}
		n.Ready(func() error { return nil })
		m.expect("READY=1")
		m.expect("WATCHDOG=1")
		m.expect("WATCHDOG=1")
		stop()
		for got := m.next(); got != "STOPPING=1"; got = m.next() {
			if got != "WATCHDOG=1" {
				t.Fatal(got)
			}
		}
		m.expect("WATCHDOG=1") // the last requests are answered
		n.Close()
		n.Close()
	}
}

// A server that is not alive is silent, so that the manager starts it anew.
func TestADeadServerGivesNoSigns(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "2000")
	t.Setenv("WATCHDOG_PID", "")
	n := Open(t.Context(), slog.New(slog.DiscardHandler))
	asked := make(chan struct{})
	n.Ready(func() error { asked <- struct{}{}; return errors.New("a listener does not answer") })
	m.expect("READY=1")
	for range 3 {
		<-asked
	}
	go func() { // what is asked once more while Close waits
		for range asked {
		}
	}()
	n.Close()
	close(asked)
	m.expect("STOPPING=1")
}

func TestAServerThatStopsBeforeItIsReady(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "1000")
	t.Setenv("WATCHDOG_PID", "1") // another process is watched
	ctx, stop := context.WithCancel(t.Context())
	n := Open(ctx, slog.New(slog.DiscardHandler))
	if n.interval != 0 {
		t.Error("takes the watchdog of another process for its own:", n.interval)
	}
	stop()
	m.expect("STOPPING=1")
	n.Ready(func() error { return nil })
	n.Close()
	if err := m.conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if n, err := m.conn.Read(make([]byte, 99)); err == nil {
		t.Errorf("a message of %d bytes after the last one", n)
	}
}

// What the environment says wrong is told, and the server starts.
func TestManagersThatCannotBeTold(t *testing.T) {
	for address, want := range map[string]string{
		"vsock:2:1": "expected an absolute path, or @ and a name", "relative": "expected an absolute path",
		filepath.Join(t.TempDir(), "nothing"): "cannot be told", "/" + strings.Repeat("x", 4000): "cannot be told", "": "",
	} {
		t.Setenv("NOTIFY_SOCKET", address)
		var log bytes.Buffer
		n := Open(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		if n != nil || !strings.Contains(log.String(), want) || want == "" && log.Len() > 0 {
			t.Errorf("%.20q: %v, log %s", address, n, &log)
		}
		n.Ready(nil)
		n.Close()
	}
	for _, usec := range []string{"0", "-1", "x", "9223372036854775807"} {
		if d, err := watchdog(usec, ""); err == nil || d != 0 {
			t.Errorf("%s: %v %v", usec, d, err)
		}
	}
	if d, err := watchdog("1", ""); err != nil || d <= 0 {
		t.Error(d, err)
	}
}
