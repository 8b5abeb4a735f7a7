package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Secure puts TLS over a listener of HTTP/1.1, unless t is nil; it closes l when
// that fails. Accept returns connections whose handshake is over, also those where
// it failed, with patience for it, or a minute where that is 0.
func Secure(l net.Listener, t *TLS, patience time.Duration, log *slog.Logger) (net.Listener, error) {
	config, err := ServerTLS(t, log, "http/1.1")
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	if config == nil {
		return l, nil
	}
	if patience == 0 {
		patience = time.Minute
	}
	return &secure{
		Listener: l, config: config, patience: patience,
		accepted: make(chan accepted), closed: make(chan struct{}), greeting: map[net.Conn]struct{}{},
	}, nil
}

// secure makes the handshakes itself: net/http closes a connection at once where
// one fails. What the client has sent by then, a request behind its lack of a
// certificate, would make the kernel throw away the alert that says why.
type secure struct {
	net.Listener
	config   *tls.Config
	patience time.Duration
	start    sync.Once
	accepted chan accepted
	closed   chan struct{}

	mu       sync.Mutex
	greeting map[net.Conn]struct{} // in their handshakes; nil once closed
}

type accepted struct {
	conn net.Conn
	err  error
}

func (l *secure) Accept() (net.Conn, error) {
	l.start.Do(func() { go l.accept() })
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// accept hands on an error before it tries again: whoever serves waits then.
func (l *secure) accept() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			if l.begin(c) {
				go l.greet(c)
			}
			continue
		}
		select {
		case l.accepted <- accepted{err: err}:
		case <-l.closed:
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// begin reports whether the handshake of c may begin; it closes c otherwise.
func (l *secure) begin(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.greeting == nil {
		_ = c.Close()
		return false
	}
	l.greeting[c] = struct{}{}
	return true
}

func (l *secure) greet(c net.Conn) {
	t := tls.Server(c, l.config)
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	err := t.HandshakeContext(ctx)
	cancel()
	// One that speaks no TLS gets its answer from the HTTP server.
	if _, plain := errors.AsType[tls.RecordHeaderError](err); err != nil && !plain {
		Linger(c)
	}
	l.mu.Lock()
	delete(l.greeting, c)
	l.mu.Unlock()
	select {
	case l.accepted <- accepted{conn: t}: // with its error, which the HTTP server logs
	case <-l.closed:
		_ = c.Close()
	}
}

// Close also closes the connections that are in their handshakes.
func (l *secure) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.greeting == nil {
		return nil
	}
	close(l.closed)
	for c := range l.greeting {
		_ = c.Close()
	}
	l.greeting = nil
	return l.Listener.Close()
}

// The bounds of Linger.
const (
	lingerTime = time.Second
	maxLinger  = 8 << 20
)

// Linger ends what the peer of c reads, and reads what it still sends, for at most a
// second: closed over that, a connection would be reset, and its last words lost. It
// does nothing where c has not two halves.
func Linger(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return
	}
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	if half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, maxLinger)
	}
}
