package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"
)

const (
	// mostUnread is how much of a body that the handler has left is still read, so
	// that the connection can go on; net/http has the same.
	mostUnread = 256 << 10
	// linger is how long a connection that ends in the middle of a body stays half
	// open, so that the client gets to see the answer.
	linger = 500 * time.Millisecond
)

// exchange is what a connection needs for hot requests, one after the other.
type exchange struct {
	c        *conn
	ctx      hotContext
	remote   string
	head     string // the latest one
	request  *http.Request
	body     body
	response response
	watch    watch
}

func newExchange(c *conn) *exchange {
	x := &exchange{c: c}
	x.ctx = hotContext{Context: c.base, done: c.base.Done(), local: c.LocalAddr(), x: x}
	if a := c.RemoteAddr(); a != nil { // as net/http
		x.remote = a.String()
	}
	x.response.x = x
	x.response.header = http.Header{}
	x.watch.begin(c)
	return x
}

// again reports whether b begins with the head of the latest request: a client
// that sends one kind of request sends the same head each time, and what it
// means is known.
func (x *exchange) again(b []byte) bool {
	if len(b) < len(x.head) || string(b[:len(x.head)]) != x.head {
		return false
	}
	x.c.head.size, x.c.head.length = len(x.head), x.request.ContentLength
	return true
}

// serve answers the hot request at the beginning of what is buffered. It reports
// whether the connection goes on.
func (c *conn) serve() (goesOn bool) {
	c.use.Store(busy)
	defer func() { goesOn = !c.ceaseUse() && goesOn }()
	if c.x == nil {
		c.x = newExchange(c)
	}
	x := c.x
	if h := c.buf[c.r : c.r+c.head.size]; string(h) != x.head {
		x.parse(string(h), c.head)
	}
	c.r += c.head.size
	goesOn = x.run()
	if x.body.left > 0 {
		if !x.body.over && !x.body.failed {
			_ = c.CloseWrite() // the client is gone if this fails
			time.Sleep(linger)
		}
		return false
	}
	c.since = time.Now()
	if end := c.idleEnd(c.s.idleTimeout()); c.armed.IsZero() || c.armed.After(end) {
		c.armAt(end)
	}
	return goesOn
}

// run has the handler answer the request. It reports whether the connection goes
// on.
func (x *exchange) run() bool {
	defer x.watch.stop()
	ctx, cancel := context.WithCancel(&x.ctx)
	defer cancel()
	x.watch.cancel = cancel
	x.body = body{x: x, left: x.c.head.length}
	x.response.reset()
	if x.body.left == 0 {
		x.watch.start()
	}
	x.c.s.Handler.ServeHTTP(&x.response, x.request.WithContext(ctx))
	return x.response.finish()
}

// ceaseUse lets the connection be closed again. It reports whether that has been
// tried meanwhile.
func (c *conn) ceaseUse() (closed bool) {
	closed = c.use.Swap(idle) == parting
	if closed {
		c.s.gone(c)
	}
	return closed
}

// lastOne reports whether the answer to a hot request ends the connection.
func (c *conn) lastOne() bool { return c.use.Load() == parting || c.s.leaving.Load() }

// parse makes the request of a head that has been found to be a hot one.
func (x *exchange) parse(text string, h head) {
	path := text[h.pathStart:h.pathEnd]
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: path}, RequestURI: path,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: h.length, Body: &x.body, RemoteAddr: x.remote,
	}
	if h.length == 0 {
		r.Body = http.NoBody
	}
	n := strings.Count(text, "\n") - 2
	r.Header = make(http.Header, n)
	values := make([]string, n)
	for name, value := range fields(text) {
		key := textproto.CanonicalMIMEHeaderKey(name)
		if key == "Host" {
			r.Host = value
			continue
		}
		if have := r.Header[key]; have != nil {
			r.Header[key] = append(have, value)
			continue
		}
		values[0] = value
		r.Header[key], values = values[:1:1], values[1:]
	}
	x.head, x.request = text, r
}

// hotContext is what the contexts of all hot requests of a connection are made of. It
// is asked twice in each whether it can end, which its base, a chain of values, would
// find out anew.
type hotContext struct {
	context.Context // of the connection
	done            <-chan struct{}
	local           net.Addr
	x               *exchange
}

type exchangeKey struct{}

// Done implements context.Context.
func (c *hotContext) Done() <-chan struct{} { return c.done }

// Value implements context.Context.
func (c *hotContext) Value(key any) any {
	switch key {
	case exchangeKey{}:
		return c.x
	case http.LocalAddrContextKey:
		return c.local
	}
	return c.Context.Value(key)
}

// body is the body of a hot request.
type body struct {
	x      *exchange
	left   int64
	timed  bool // the time of reads is bound, or has been chosen not to be
	over   bool // the client has closed its half early
	failed bool
}

// Read reads of this message only. As in net/http, the time that a request may
// take to arrive ends an endless one.
func (b *body) Read(p []byte) (n int, err error) {
	if b.left == 0 || b.over {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.left)]
	c := b.x.c
	if c.r == c.w && !b.timed {
		b.timed = true
		c.arm(c.s.ReadTimeout)
	}
	n, err = c.pass(p)
	b.left -= int64(n)
	switch {
	case b.left == 0:
		b.x.watch.start()
		return n, io.EOF
	case errors.Is(err, io.EOF):
		b.over, err = true, io.ErrUnexpectedEOF
	}
	b.failed = b.failed || err != nil
	return n, err
}

// Close does nothing: what is left is read when the request is answered.
func (b *body) Close() error { return nil }

// settle reads what the handler has left. It reports whether the connection may
// go on, as far as the answer can tell.
func (b *body) settle() bool {
	if b.left >= mostUnread {
		return false
	}
	_, err := io.Copy(io.Discard, b)
	return err == nil
}
