//go:build unix

package bound

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/internal/scratch"
)

const (
	// ticketLife is how long a ticket may be used, once.
	ticketLife = time.Minute
	// maxTickets bounds those that nobody has used.
	maxTickets = 256
	// joinWait bounds how long a process may take to show its ticket.
	joinWait = 5 * time.Second
	// maxJoining bounds the connections that have not shown a ticket yet.
	maxJoining = 64
)

// Listener lets processes of the same user join a running server: through a
// socket in a private directory, with a ticket that the API hands out. A
// process shows its ticket and passes the server's ends of its two channels.
type Listener struct {
	o      Options
	log    *slog.Logger
	dir    *scratch.Dir
	socket *net.UnixListener
	wg     sync.WaitGroup
	places chan struct{} // one for each connection without a ticket

	mu       sync.Mutex
	tickets  map[string]time.Time // with the end of their life
	joining  map[*net.UnixConn]struct{}
	sessions map[*Session]struct{}
	closed   bool
}

// Listen opens the socket.
func Listen(o Options) (*Listener, error) {
	dir, err := scratch.Make("neso-bind-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir.Path, "socket")
	s, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	l := &Listener{
		o: o, log: o.Logger, dir: dir, socket: s, places: make(chan struct{}, maxJoining), tickets: map[string]time.Time{},
		joining: map[*net.UnixConn]struct{}{}, sessions: map[*Session]struct{}{},
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.o.Stop = nil // a guest does not stop the server
	l.wg.Go(l.accept)
	return l, nil
}

// Ticket returns the path of the socket and a token that opens it once.
func (l *Listener) Ticket() (socket, token string, err error) {
	token = rand.Text() + rand.Text()
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, end := range l.tickets {
		if now.After(end) {
			delete(l.tickets, t)
		}
	}
	if l.closed || len(l.tickets) >= maxTickets {
		return "", "", fmt.Errorf("too many tickets for binding are unused, try again in %v", ticketLife)
	}
	l.tickets[token] = now.Add(ticketLife)
	return l.socket.Addr().String(), token, nil
}

// take uses up a ticket.
func (l *Listener) take(shown []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t, end := range l.tickets {
		if subtle.ConstantTimeCompare([]byte(t), shown) == 1 {
			delete(l.tickets, t)
			return time.Now().Before(end)
		}
	}
	return false
}

func (l *Listener) accept() {
	for {
		c, err := l.socket.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors: not in a tight loop
			continue
		}
		select {
		case l.places <- struct{}{}:
		default:
			_ = c.Close()
			continue
		}
		if !l.keep(c) {
			return
		}
		l.wg.Go(func() {
			err := l.join(c)
			l.mu.Lock()
			delete(l.joining, c)
			l.mu.Unlock()
			<-l.places
			if err != nil {
				l.log.Warn("a process could not join", slog.Any("error", err))
			}
		})
	}
}

func (l *Listener) keep(c *net.UnixConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.joining[c] = struct{}{}
	return true
}

// join takes the ticket and the channels from a connection, and closes it.
func (l *Listener) join(c *net.UnixConn) error {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(joinWait)); err != nil {
		return err
	}
	shown := make([]byte, 256)
	oob := make([]byte, unix.CmsgSpace(8*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(shown, oob)
	if err != nil {
		return err
	}
	fds, err := rights(oob[:oobn])
	if err != nil {
		return err
	}
	if !l.take(shown[:n]) || len(fds) != 2 || flags&unix.MSG_CTRUNC != 0 {
		closeAll(fds)
		_, _ = io.WriteString(c, "n") // the caller reads why in the log
		return errors.New("its ticket is unknown or used, or it passed no channels")
	}
	control, descriptors, err := Inherit(fds[0], fds[1])
	if err != nil {
		closeAll(fds)
		return err
	}
	s, err := Open(control, descriptors, l.o)
	if err != nil {
		return err
	}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.sessions[s] = struct{}{}
		l.wg.Go(func() { l.attend(s) })
	}
	l.mu.Unlock()
	if closed {
		s.Close()
		return errClosed
	}
	_, err = io.WriteString(c, "y")
	return err
}

// attend waits for the end of a session and takes its models out of service.
func (l *Listener) attend(s *Session) {
	<-s.Done()
	if err := s.Err(); err != nil {
		l.log.Warn("the connection with a process is broken", slog.Any("error", err))
	}
	if err := s.UnbindAll(context.Background()); err != nil {
		l.log.Debug("unbinding what a process served", slog.Any("error", err))
	}
	s.Close()
	l.mu.Lock()
	delete(l.sessions, s)
	l.mu.Unlock()
}

// Close ends all sessions and removes the socket. The models of the sessions
// are unloaded before, with the server.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for c := range l.joining {
		_ = c.Close()
	}
	sessions := make([]*Session, 0, len(l.sessions))
	for s := range l.sessions {
		sessions = append(sessions, s)
	}
	l.mu.Unlock()
	err := l.socket.Close()
	for _, s := range sessions {
		s.Close()
	}
	l.wg.Wait()
	return errors.Join(err, l.dir.Remove())
}

func rights(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range messages {
		more, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, more...)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
