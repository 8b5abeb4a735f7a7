package httpapi

import (
	"errors"
	"io"
	"math/bits"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/ledger"
)

const (
	// smallBody is what is read whole before the model is asked.
	smallBody = 64 << 10
	// firstBytes is how much of a larger body has to come before anything is done
	// about it: heads cost a client next to nothing. It is part of what a connection
	// costs, and not counted.
	firstBytes = 16 << 10
	// largeBody is from how many bytes on the rest of a body waits at the model's door.
	largeBody = 256 << 10
	// placeShare is the part of a large body that has to come before there is a place
	// for the whole.
	placeShare = 64
	// controlFactor is what the body of a control request takes beside its text, in
	// times its length: text of its members, and files in it out of base64.
	controlFactor = 3
	// inflating is what a decoder of compressed bodies holds.
	inflating = 64 << 10
	// keepScratch is how much body memory a pooled inference keeps.
	keepScratch = 256 << 10
	// drainLimit is how much of an unwanted body is still read, so that a client
	// which sends before it listens gets to see the reply.
	drainLimit = 64 << 20
	drainTime  = 10 * time.Second
)

// deadlines is what net/http's response writer has beside its interface.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// stopReadTimer ends the bound on reading: net/http reads on while the handler
// runs, to see whether the client is still there, and would take the deadline
// for its going away.
func stopReadTimer(w http.ResponseWriter) {
	if d := times(w); d != nil {
		_ = d.SetReadDeadline(time.Time{})
	}
}

// drain reads what the client still sends.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody || r.Header["Expect"] != nil {
		return
	}
	if r.ContentLength > drainLimit {
		return // it would not end in time
	}
	if d := times(w); d != nil && (r.ContentLength < 0 || r.ContentLength > smallBody) {
		_ = d.SetReadDeadline(time.Now().Add(drainTime))
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainLimit) // the reply goes out in any case
}

// readError is the error for a body that did not arrive whole.
func readError(err error) *backend.Error {
	if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // io.ReadFull returns them as they are
		return backend.Errorf(backend.InvalidArg, "the request body ended early")
	}
	if isTimeout(err) {
		return backend.Errorf(backend.InvalidArg, "the request body did not arrive in time")
	}
	return backend.Errorf(backend.InvalidArg, "failed to read the request body: %v", err)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// refused reports whether err was made here or in the core, so that the rest
// of the body can still come, rather than by the connection.
func refused(err error) bool {
	_, ok := err.(*backend.Error) //nolint:errorlint // ours are not wrapped
	return ok
}

// buffer returns memory of at least n bytes that begins with the bytes of have. It
// is the inference's scratch memory. Where that would be too large, it is memory that
// counts as held while it is written to.
func (c *inference) buffer(have []byte, n int) []byte {
	if n > keepScratch {
		if c.text.Room() > 0 {
			return c.text.Grow(n)[:n] // it keeps what it has
		}
		b := c.text.Grow(n)
		copy(b, have)
		return b[:n]
	}
	if n > cap(c.scratch) {
		c.scratch = make([]byte, n, max(4096, 1<<bits.Len(uint(n-1)))) // rounded up, so that it grows seldom
	}
	copy(c.scratch[:n], have)
	return c.scratch[:n]
}

// slurp reads a body of unknown length, at most limit bytes, behind what have
// has of it. The reader counts.
func (c *inference) slurp(have []byte, r io.Reader, limit int64) ([]byte, error) {
	b := c.buffer(have, max(2*len(have), firstBytes))
	n := len(have)
	for {
		if n == len(b) {
			b = c.buffer(b, int(min(2*int64(n), limit+1)))
		}
		k, err := r.Read(b[n:])
		n += k
		if int64(n) > limit {
			return nil, errTooLong
		}
		if err == io.EOF {
			return b[:n], nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// first reads the first part of a body of unknown length, which nobody counts,
// and reports whether that is all of it.
func (c *inference) first(r io.Reader) (b []byte, over bool, err error) {
	b = c.buffer(nil, firstBytes)
	for n := 0; n < len(b); {
		k, err := r.Read(b[n:])
		n += k
		if err == io.EOF {
			return b[:n], true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return b, false, nil
}

// errTooLong is replaced by the text that fits the place.
var errTooLong = backend.Errorf(backend.InvalidArg, "body too long")

func (s *Server) jsonTooLong(n int64) *backend.Error {
	return backend.Errorf(backend.InvalidArg,
		"request JSON size of %d bytes exceeds the maximum allowed input size of %d bytes. Use --http-max-input-size to increase the limit.", n,
		s.o.MaxInputSize)
}

// controlBody reads the JSON body of a control request, which is the inference's until
// it is released.
func (s *Server) controlBody(w http.ResponseWriter, r *http.Request, c *inference) ([]byte, error) {
	if r.ContentLength > s.o.MaxInputSize {
		s.drain(w, r)
		return nil, s.jsonTooLong(r.ContentLength)
	}
	var start []byte
	var err error
	if !coded(r) {
		var over bool
		if start, over, err = c.first(r.Body); over && int64(len(start)) <= s.o.MaxInputSize {
			stopReadTimer(w)
			return start, nil
		}
	}
	var in *decoder
	if err == nil {
		body := s.arrive(w, r, c)
		if err = body.count(int64(len(start))); err == nil {
			in, err = decompress(r.Header["Content-Encoding"], body)
		}
	}
	if err == nil {
		body := &c.in
		defer in.Close()
		if in.source != nil {
			in.inflated, body.coded = body, true
		}
		var b []byte
		if b, err = c.slurp(start, in, s.o.MaxInputSize); err == nil {
			stopReadTimer(w)
			c.control = body.hold.Keep()
			body.end(w.Header())
			if more := controlFactor * int64(len(b)); more > smallBody {
				if !s.ledger().Take(ledger.In, more) {
					return nil, s.ledger().Refusal(ledger.In, more)
				}
				c.control += more
			}
			return b, nil
		}
	}
	if err == errTooLong { //nolint:errorlint // our own value
		err = s.jsonTooLong(s.o.MaxInputSize + 1)
	}
	s.turnAway(w, r, c, err)
	return nil, bodyError(err)
}

// turnAway reads what is left of a body that is refused with err, so that its
// client gets to see why.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, c *inference, err error) {
	c.in.end(w.Header())
	c.body = jsonwire.Body{}
	c.text.Free() // nobody counts it any more
	if refused(err) && !c.in.cut() {
		s.drain(w, r)
	}
}

// bodyError keeps errors with a code and explains the others.
func bodyError(err error) *backend.Error {
	if e, ok := err.(*backend.Error); ok { //nolint:errorlint // ours are not wrapped
		return e
	}
	return readError(err)
}

// headerLength parses Inference-Header-Content-Length for a body of total
// bytes.
func headerLength(text string, total int64) (int64, *backend.Error) {
	const name = lengthHeader
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && n == 0 {
		return 0, backend.Errorf(backend.InvalidArg, "Unable to parse %s, got: %s", name, text)
	}
	if n != int64(int32(n)) {
		return 0, backend.Errorf(backend.InvalidArg, "Unable to parse %s, value is out of range [ -2147483648, 2147483647 ], got: %s", name, text)
	}
	if n < 0 || n > total {
		return 0, backend.Errorf(backend.InvalidArg, "inference header size should be in range (0, %d), got: %s", total, text)
	}
	return n, nil
}
