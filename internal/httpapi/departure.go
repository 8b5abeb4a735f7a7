package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/ledger"
)

// gatherer is what package transport's response writer has beside the interface
// of net/http.
type gatherer interface {
	WriteParts(first []byte, more [][]byte) error
}

// slice is how much of a large answer is written at a time: what has been
// written tells how its client gets on.
const slice = 1<<20 + 64<<10

// hold counts n bytes of an answer until the inference is released. What fits a
// socket is left out: it is counted when it does not go.
func (s *Server) hold(w http.ResponseWriter, r *http.Request, c *inference, n int) *backend.Error {
	if n <= joinLimit {
		return nil
	}
	if !c.out.Opened() {
		c.out.Open(s.ledger(), ledger.Out, nil, transferOf(w, r).cutWrites)
		c.out.For(c.key)
	}
	if !c.out.Take(int64(n)) {
		return c.out.Refusal(int64(n))
	}
	return nil
}

// writeParts writes a large reply and bounds the time that takes.
func (s *Server) writeParts(w http.ResponseWriter, h http.Header, c *inference, first []byte, more [][]byte, moreSize int) {
	h["Content-Length"] = []string{strconv.Itoa(len(first) + moreSize)}
	_ = s.transmit(w, c, first, more) // an error says that the client is gone
}

// transmit writes first and more, with a deadline that each slice moves. What
// net/http keeps of a reply goes out under the last one; package transport has its
// own for what is small.
func (s *Server) transmit(w http.ResponseWriter, c *inference, first []byte, more [][]byte) error {
	d, begin := times(w), time.Now()
	bound := func(sent int) {
		if d != nil {
			_ = d.SetWriteDeadline(ledger.Until(begin, time.Now(), s.o.ReadTimeout, int64(sent)))
		}
	}
	bound(0)
	size := len(first)
	for _, b := range more {
		size += len(b)
	}
	g, gathers := w.(gatherer)
	if gathers {
		defer func() {
			c.out.Close() // nobody cuts what comes after
			_ = d.SetWriteDeadline(time.Time{})
		}()
		if size <= slice {
			return g.WriteParts(first, more)
		}
	}
	sent, pieces := 0, make([][]byte, 0, 1+len(more))
	for rest := append([][]byte{first}, more...); len(rest) > 0; {
		n := 0
		for pieces = pieces[:0]; len(rest) > 0 && n < slice; {
			b := rest[0]
			if room := slice - n; len(b) > room {
				b, rest[0] = b[:room], b[room:]
			} else {
				rest = rest[1:]
			}
			pieces, n = append(pieces, b), n+len(b)
		}
		if err := writeAll(w, g, pieces); err != nil {
			return err
		}
		sent += n
		if c.out.Opened() {
			c.out.Moved(int64(n))
		}
		bound(sent)
	}
	return nil
}

// writeAll writes pieces to g or, where that is nil, to w.
func writeAll(w http.ResponseWriter, g gatherer, pieces [][]byte) error {
	if g != nil {
		return g.WriteParts(pieces[0], pieces[1:])
	}
	for _, b := range pieces {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}
