package httpapi

import (
	"io"
	"net/http"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/rollout"
)

var errDecoupled = backend.Errorf(backend.Unsupported, "HTTP end point doesn't support models with decoupled transaction policy")

// admit reads as much of the body as has to be in memory, pins the model and
// makes the request, which answers into sink, or into the inference's own for nil. A
// small body is read first: a slow client then holds no pin. Of a larger one a
// first part is, then the model is asked, and the rest is counted as it comes; its
// binary tail is read straight into tensors. Of a compressed one nothing is
// inflated before there is a model for it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *inference, caller *auth.Caller, name string, ask rollout.Ask,
	sink infer.Sink,
) (engine.Pin, *infer.Request, error) {
	pin, err := s.begin(w, r, c, caller, name, ask)
	if err != nil {
		return engine.Pin{}, nil, err
	}
	if sink == nil {
		if pin.Model.Config().Decoupled {
			pin.Unpin()
			return engine.Pin{}, nil, errDecoupled
		}
		sink = c.sink
	}
	req := pin.NewRequest(sink)
	c.flat = sink != c.sink
	c.in.handOver(req)
	if err := s.goOn(w, r, c, req); err != nil {
		req.Discard()
		return engine.Pin{}, nil, err
	}
	return pin, req, nil
}

// begin reads the first part of a body, which is all of a small one, into
// c.body.Tail, and pins the model.
func (s *Server) begin(
	w http.ResponseWriter, r *http.Request, c *inference, caller *auth.Caller, name string, ask rollout.Ask,
) (engine.Pin, error) {
	n := r.ContentLength
	switch {
	case coded(r):
		if k := r.Header["Content-Encoding"][0]; k != "gzip" && k != "deflate" {
			return engine.Pin{}, errCoding
		}
		s.arrive(w, r, c)
		return s.engine.ResolveArriving(r.Context(), caller, name, ask, 0, -1)
	case n < 0:
		b, over, err := c.first(r.Body)
		if err == nil && !over {
			if err = s.arrive(w, r, c).count(int64(len(b))); err == nil {
				b, err = c.slurp(b, io.LimitReader(&c.in, smallBody-int64(len(b))), smallBody)
			}
			if err == nil && len(b) < smallBody {
				over = true
				c.in.end(w.Header())
			}
		}
		if err != nil {
			return engine.Pin{}, err
		}
		c.body.Tail = b
		if over {
			return s.engine.ResolveFor(r.Context(), caller, nil, name, ask, int64(len(b)))
		}
		return s.engine.ResolveArriving(r.Context(), caller, name, ask, int64(len(b)), -1)
	case n <= firstBytes:
		c.body.Tail = c.buffer(nil, int(n))
		if err := readFull(r.Body, c.body.Tail); err != nil {
			return engine.Pin{}, err
		}
		return s.engine.ResolveFor(r.Context(), caller, nil, name, ask, n)
	}
	b := c.buffer(nil, firstBytes)
	if err := readFull(r.Body, b); err != nil {
		return engine.Pin{}, err
	}
	c.body.Tail = b
	s.arrive(w, r, c)
	switch {
	case n <= smallBody:
		if err := c.in.count(n); err != nil {
			return engine.Pin{}, err
		}
		c.in.whole = true
		c.body.Tail = c.buffer(b, int(n))
		if err := readFull(&c.in, c.body.Tail[len(b):]); err != nil {
			return engine.Pin{}, err
		}
		c.in.end(w.Header())
		return s.engine.ResolveFor(r.Context(), caller, nil, name, ask, n)
	case n <= memory.Whole:
		// There is memory for all of it as soon as there is any.
		c.in.whole = true
		c.in.hold.Stand(n)
		return s.engine.ResolveFor(r.Context(), caller, nil, name, ask, n)
	}
	return s.engine.ResolveArriving(r.Context(), caller, name, ask, int64(len(b)), n)
}

// goOn reads as much more of the body as has to be in memory, and divides it.
func (s *Server) goOn(w http.ResponseWriter, r *http.Request, c *inference, req *infer.Request) error {
	b, n := c.body.Tail, r.ContentLength
	switch {
	case !c.in.open:
		n = int64(len(b))
	case coded(r):
		var err error
		if b, err = s.inflate(r, c, req); err != nil {
			return err
		}
		n = int64(len(b))
	case n < 0:
		var err error
		if b, err = c.slurp(b, &c.in, s.o.MaxInputSize); err == errTooLong { //nolint:errorlint // our own value
			return s.jsonTooLong(s.o.MaxInputSize + 1)
		} else if err != nil {
			return err
		}
		n = int64(len(b))
	}
	json, raw := n, false
	if !c.flat {
		var err error
		if json, raw, err = s.jsonSize(r, n); err != nil {
			return err
		}
	}
	need := json
	if !c.in.whole {
		need = max(need, n/placeShare)
	}
	if have := int64(len(b)); have < need {
		b = c.buffer(b, int(need))
		if err := readFull(&c.in, b[have:]); err != nil {
			return err
		}
	}
	c.raw, c.body.JSON, c.body.Tail = raw, b[:json], b[json:]
	if left := n - int64(len(b)); left > 0 {
		c.body.Rest, c.body.RestSize = &c.in, left
	} else {
		c.in.end(w.Header())
	}
	c.loaded = int64(len(b))
	return nil
}

// coded reports whether the body of r is compressed.
func coded(r *http.Request) bool {
	v := r.Header["Content-Encoding"]
	return len(v) > 0 && v[0] != "" && v[0] != "identity"
}

// inflate reads a compressed body whole.
func (s *Server) inflate(r *http.Request, c *inference, req *infer.Request) ([]byte, error) {
	if err := req.Reserve(inflating); err != nil {
		return nil, err
	}
	defer req.Return(inflating)
	c.in.coded = true
	in, err := decompress(r.Header["Content-Encoding"], &c.in)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	in.inflated = &c.in
	b, err := c.slurp(nil, in, s.o.MaxInputSize)
	if err == errTooLong { //nolint:errorlint // our own value
		return nil, backend.Errorf(backend.InvalidArg,
			"Decompressed data size exceeds the maximum allowed value of %d bytes. Use --http-max-input-size to increase the limit.",
			s.o.MaxInputSize)
	}
	return b, err
}

// decoded lets go of a large text whose tensors have been made.
func (c *inference) decoded(req *infer.Request) {
	if c.text.Room() > 0 {
		req.Return(c.loaded)
		c.text.Free()
		c.body.JSON, c.body.Tail = nil, nil
	}
}

// jsonSize returns how much of a body of total bytes is JSON, and whether
// there is none because the body is one raw tensor.
func (s *Server) jsonSize(r *http.Request, total int64) (size int64, raw bool, err error) {
	size = total
	if v := r.Header[lengthHeader]; len(v) > 0 {
		n, fault := headerLength(v[0], total)
		if fault != nil {
			return 0, false, fault
		}
		size, raw = n, n == 0
	}
	if size > s.o.MaxInputSize {
		return 0, false, s.jsonTooLong(size)
	}
	return size, raw, nil
}
