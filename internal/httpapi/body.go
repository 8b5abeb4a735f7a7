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
)

const (
	// smallBody is what is read at once, before the model is asked.
	smallBody = 64 << 10
	// keepScratch is how much body memory a pooled call keeps.
	keepScratch = 256 << 10
	// minRate is the slowest upload, in bytes per second, once ReadTimeout is over.
	minRate = 16 << 10
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
	if d, ok := w.(deadlines); ok {
		_ = d.SetReadDeadline(time.Time{}) // not every writer can
	}
}

// drain reads what the client still sends.
func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody || r.Header["Expect"] != nil {
		return
	}
	if d, ok := w.(deadlines); ok && (r.ContentLength < 0 || r.ContentLength > smallBody) {
		_ = d.SetReadDeadline(time.Now().Add(drainTime))
	}
	_, _ = io.CopyN(io.Discard, r.Body, drainLimit) // the reply goes out in any case
}

// steady reads a large body and grants it more time as it arrives.
type steady struct {
	r       io.Reader
	d       deadlines
	end     time.Time
	granted int64
	n       int64
}

func (s *Server) steady(w http.ResponseWriter, r *http.Request) *steady {
	d, _ := w.(deadlines)
	return &steady{r: r.Body, d: d, end: time.Now().Add(s.o.ReadTimeout)}
}

func (b *steady) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	if b.d != nil && b.n-b.granted >= 1<<20 {
		b.granted = b.n
		_ = b.d.SetReadDeadline(b.end.Add(time.Duration(b.n/minRate) * time.Second))
	}
	return n, err
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

// buffer returns scratch memory of at least n bytes: the call's own, or a
// pooled large one.
func (s *Server) buffer(c *call, n int) []byte {
	if n <= cap(c.scratch) {
		return c.scratch[:n]
	}
	if n <= keepScratch {
		c.scratch = make([]byte, n, max(4096, 1<<bits.Len(uint(n-1)))) // rounded up, so that it grows seldom
		return c.scratch
	}
	if p, ok := s.big.Get().(*[]byte); ok && cap(*p) >= n {
		c.large = p
		return (*p)[:n]
	}
	b := make([]byte, n)
	c.large = &b
	return b
}

// slurp reads a body of unknown length, at most limit bytes.
func (s *Server) slurp(c *call, r io.Reader, limit int64) ([]byte, error) {
	b := s.buffer(c, smallBody)[:0]
	for {
		if len(b) == cap(b) {
			if err := s.reserve(c, int64(cap(b))); err != nil {
				return nil, err
			}
			grown := make([]byte, len(b), int(min(2*int64(cap(b)), limit+1)))
			copy(grown, b)
			b = grown
			c.large = &b
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			return nil, errTooLong
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// errTooLong is replaced by the text that fits the place.
var errTooLong = backend.Errorf(backend.InvalidArg, "body too long")

// reserve counts memory of a body that no model has admitted yet.
func (s *Server) reserve(c *call, n int64) error {
	if s.unadmitted.Add(n) > s.o.MaxUnadmitted {
		s.unadmitted.Add(-n)
		return &backend.Error{Code: backend.Unavailable, Message: "too many request bytes in memory", RetryAfter: time.Second}
	}
	c.reserved += n
	return nil
}

func (s *Server) jsonTooLong(n int64) *backend.Error {
	return backend.Errorf(backend.InvalidArg, "request JSON size of %d bytes exceeds the maximum allowed input size of %d bytes. Use --http-max-input-size to increase the limit.", n, s.o.MaxInputSize)
}

// controlBody reads the JSON body of a control request.
func (s *Server) controlBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > s.o.MaxInputSize {
		s.drain(w, r)
		return nil, s.jsonTooLong(r.ContentLength)
	}
	c := s.calls.Get().(*call)
	defer s.release(c)
	src := s.steady(w, r)
	in, err := decompress(r.Header["Content-Encoding"], src)
	if err == nil {
		defer in.Close()
		var b []byte
		if b, err = s.slurp(c, in, s.o.MaxInputSize); err == nil {
			stopReadTimer(w)
			return append([]byte{}, b...), nil // not nil: there was a body
		}
	}
	if err == errTooLong { //nolint:errorlint // our own value
		err = s.jsonTooLong(s.o.MaxInputSize + 1)
	}
	if refused(err) {
		s.drain(w, r)
	}
	return nil, bodyError(err)
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
