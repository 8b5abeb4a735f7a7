package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/tracing"
)

// call is the memory of one inference in this package. It is pooled.
type call struct {
	decoder kserve.JSONDecoder
	wishes  kserve.Call
	body    kserve.JSONBody
	reply   kserve.JSONResponse
	sink    *infer.Single
	scratch []byte
	// large is pooled memory borrowed because scratch was too small.
	large    *[]byte
	reserved int64 // of Server.unadmitted
	raw      bool
	received int64
	length   []string // see jsonLength
	lengthOf int
}

func newCall() *call { return &call{sink: infer.NewSingle()} }

// jsonLength returns the value of the length header of c's reply. Most replies of
// a model have the same; a value that was given away does not change.
func (c *call) jsonLength() []string {
	if n := len(c.reply.JSON); c.length == nil || n != c.lengthOf {
		c.length, c.lengthOf = []string{strconv.Itoa(n)}, n
	}
	return c.length
}

// release gives everything back that the call holds.
func (s *Server) release(c *call) {
	c.wishes.Reset()
	c.body = kserve.JSONBody{}
	c.reply.Reset(keepReply)
	c.raw = false
	if c.large != nil {
		s.big.Put(c.large)
		c.large = nil
	}
	if c.reserved > 0 {
		s.unadmitted.Add(-c.reserved)
		c.reserved = 0
	}
	s.calls.Put(c)
}

const (
	// keepReply is how much reply memory a pooled call keeps: the JSON of some
	// million floats, which is costly to grow again and again. The collector
	// takes unused calls.
	keepReply = 32 << 20
	// joinLimit is up to what size a reply is put together and written at once.
	joinLimit = 32 << 10
)

// infer is hop 1: it comes from the network and goes on to engine.Infer
// (hop 2) with a request whose inputs lie in the model's memory. Its answer
// comes back from infer.Request.Respond (hop 7).
func (s *Server) infer(w http.ResponseWriter, r *http.Request, caller *auth.Caller, name string, version int64) {
	h := w.Header()
	c := s.calls.Get().(*call)
	defer s.release(c)
	c.received = backend.Now()
	pin, err := s.admit(w, r, c, caller, name, version)
	if err != nil {
		if refused(err) {
			s.drain(w, r)
		}
		if err == errCoding { //nolint:errorlint // our own value
			h["Accept-Encoding"] = bothCoding
		}
		replyError(w, h, textType, bodyError(err))
		return
	}
	cfg := pin.Model.Config()
	if cfg.Decoupled {
		pin.Unpin()
		s.drain(w, r)
		replyError(w, h, textType, errDecoupled)
		return
	}
	req := pin.NewRequest(c.sink)
	req.Times.Receive = c.received
	req.Ctx = r.Context()
	target := kserve.Target{Config: cfg, Allocator: pin.Model.Allocator(), Reserver: req}
	if shared := s.engine.SharedMemory(); !shared.Empty() {
		target.Memory = s.seenBy(r)
	}
	c.body.Limit = s.o.MaxInputSize
	if c.raw {
		err = kserve.DecodeRaw(&req.Request, &c.wishes, target, &c.body)
	} else {
		err = c.decoder.Decode(&req.Request, &c.wishes, target, &c.body)
	}
	if err == nil && s.forward != nil {
		err = s.forwardHeaders(r, &req.Request)
	}
	if err == nil {
		err = c.wishes.ReadRegions(req, target.Allocator)
	}
	if err != nil {
		req.Abandon()
		if refused(err) {
			s.drain(w, r)
		}
		replyError(w, h, jsonType, bodyError(err))
		return
	}
	if c.body.RestSize > 0 || r.ContentLength != 0 {
		stopReadTimer(w)
	}
	verbose := s.o.Logger != nil && s.o.Logger.Enabled(req.Ctx, logging.Verbose(1))
	var fail *backend.Error
	if verbose {
		req.Hold()
		defer func() { s.access(r, req, fail) }()
	}
	id := req.ID // the request may be gone once it is answered
	req.Times.Start = backend.Now()
	trace := s.startTrace(r, req)
	defer trace.Done()
	if err := s.engine.Infer(req); err != nil {
		fail = backend.AsError(err)
		defer trace.Send()()
		replyError(w, h, jsonType, fail)
		return
	}
	var resp *backend.Response
	if resp, fail = c.sink.Wait(); fail != nil {
		defer trace.Send()()
		replyError(w, h, textType, fail)
		return
	}
	defer resp.Release()
	if fail = kserve.EncodeJSON(&c.reply, cfg, id, pin.Model.Version(), resp, &c.wishes, pin.Model.Labels); fail != nil {
		replyError(w, h, textType, fail)
		return
	}
	defer trace.Send()()
	s.send(w, r, h, c)
}

// startTrace begins the timeline of a request that is sampled; the result is nil
// for all others.
func (s *Server) startTrace(r *http.Request, req *infer.Request) *tracing.Trace {
	t := s.engine.Tracer()
	if !t.On() {
		return nil // no closure is made
	}
	return t.Start(req, tracing.HTTP, func(name string) string { return strings.Join(r.Header.Values(name), ",") })
}

var errDecoupled = backend.Errorf(backend.Unsupported, "HTTP end point doesn't support models with decoupled transaction policy")

// admit reads as much of the body as has to be in memory and pins the model.
// A small body is read first: a slow client then holds no pin. A large one is
// admitted first, so that its bytes are counted before there is memory for
// them, and its binary tail is read straight into tensors.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *call, caller *auth.Caller, name string, version int64) (engine.Pin, error) {
	coded := len(r.Header["Content-Encoding"]) > 0 && r.Header["Content-Encoding"][0] != "" && r.Header["Content-Encoding"][0] != "identity"
	switch {
	case coded || r.ContentLength < 0:
		if err := s.readUnsized(w, r, c); err != nil {
			return engine.Pin{}, err
		}
		return s.engine.ResolveFor(caller, name, version, int64(len(c.body.JSON)+len(c.body.Tail)))
	case r.ContentLength <= smallBody:
		b := s.buffer(c, int(r.ContentLength))
		if err := readFull(r.Body, b); err != nil {
			return engine.Pin{}, err
		}
		if err := s.split(r, c, b, r.ContentLength); err != nil {
			return engine.Pin{}, err
		}
		return s.engine.ResolveFor(caller, name, version, r.ContentLength)
	}
	json, raw, err := s.jsonSize(r, r.ContentLength)
	if err != nil {
		return engine.Pin{}, err
	}
	pin, err := s.engine.ResolveFor(caller, name, version, r.ContentLength)
	if err != nil {
		return engine.Pin{}, err
	}
	body := s.steady(w, r)
	c.raw = raw
	c.body.JSON = s.buffer(c, int(json))
	if err := readFull(body, c.body.JSON); err != nil {
		pin.Unpin()
		return engine.Pin{}, err
	}
	c.body.Rest, c.body.RestSize = body, r.ContentLength-json
	return pin, nil
}

// readUnsized reads a chunked or compressed body whole.
func (s *Server) readUnsized(w http.ResponseWriter, r *http.Request, c *call) error {
	in, err := decompress(r.Header["Content-Encoding"], s.steady(w, r))
	if err != nil {
		return err
	}
	defer in.Close()
	b, err := s.slurp(c, in, s.o.MaxInputSize)
	if err == errTooLong { //nolint:errorlint // our own value
		if r.Header["Content-Encoding"] == nil {
			return s.jsonTooLong(s.o.MaxInputSize + 1)
		}
		return backend.Errorf(backend.InvalidArg, "Decompressed data size exceeds the maximum allowed value of %d bytes. Use --http-max-input-size to increase the limit.", s.o.MaxInputSize)
	}
	if err != nil {
		return err
	}
	return s.split(r, c, b, int64(len(b)))
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

// split divides a body in memory into JSON and binary tail.
func (s *Server) split(r *http.Request, c *call, b []byte, total int64) error {
	json, raw, err := s.jsonSize(r, total)
	if err != nil {
		return err
	}
	c.raw, c.body.JSON, c.body.Tail = raw, b[:json], b[json:]
	return nil
}

// send writes the reply. Large tensors go out from where the model left them.
func (s *Server) send(w http.ResponseWriter, r *http.Request, h http.Header, c *call) {
	h["Content-Type"] = jsonType
	if c.reply.TailSize > 0 {
		h["Content-Type"] = binaryType
		h[lengthHeader] = c.jsonLength()
	}
	if accept := r.Header["Accept-Encoding"]; accept != nil {
		if k := chooseCoding(accept); k != uncoded {
			h["Content-Encoding"] = gzipCoding
			if k == deflated {
				h["Content-Encoding"] = zlibCoding
			}
			s.writeParts(w, h, compress(k, append([][]byte{c.reply.JSON}, c.reply.Tail...)...), nil, 0)
			return
		}
	}
	if len(c.reply.JSON)+c.reply.TailSize <= joinLimit {
		for _, t := range c.reply.Tail {
			c.reply.JSON = append(c.reply.JSON, t...)
		}
		write(w, h, http.StatusOK, c.reply.JSON)
		return
	}
	s.writeParts(w, h, c.reply.JSON, c.reply.Tail, c.reply.TailSize)
}

// gatherer is what package transport's response writer has beside the interface
// of net/http.
type gatherer interface {
	WriteParts(first []byte, more [][]byte) error
}

// writeParts writes a large reply and bounds the time that takes.
func (s *Server) writeParts(w http.ResponseWriter, h http.Header, first []byte, more [][]byte, moreSize int) {
	size := len(first) + moreSize
	if d, ok := w.(deadlines); ok && size > joinLimit {
		_ = d.SetWriteDeadline(time.Now().Add(s.o.ReadTimeout + time.Duration(size/minRate)*time.Second))
		defer func() { _ = d.SetWriteDeadline(time.Time{}) }()
	}
	h["Content-Length"] = []string{strconv.Itoa(size)}
	if g, ok := w.(gatherer); ok {
		_ = g.WriteParts(first, more) // an error says that the client is gone
		return
	}
	if _, err := w.Write(first); err != nil {
		return // the client is gone
	}
	for _, b := range more {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}

// reservedHeaders cannot be forwarded: they are parameters with a meaning.
var reservedHeaders = []string{"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"}

// forwardHeaders makes parameters of the headers that the pattern matches. The
// names are in lower case, as over gRPC: HTTP does not tell how they were
// written.
func (s *Server) forwardHeaders(r *http.Request, req *backend.Request) error {
	from := len(req.Parameters)
	for name, values := range r.Header {
		if s.o.Guard != nil && (name == "Authorization" || name == apiKeyHeader) {
			continue // a key is for the server, not for models
		}
		if !s.forward.MatchString(name) || len(values) == 0 {
			continue
		}
		name = strings.ToLower(name)
		if slices.Contains(reservedHeaders, name) || strings.HasPrefix(name, "triton_") {
			return backend.Errorf(backend.InvalidArg, "Header '%s' is reserved for Triton usage and cannot be forwarded.", name)
		}
		req.Parameters = append(req.Parameters, backend.String(name, values[0]))
	}
	slices.SortFunc(req.Parameters[from:], func(a, b backend.Parameter) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// access logs one inference, with the error it was answered with, and drops the
// hold on it.
func (s *Server) access(r *http.Request, req *infer.Request, fail *backend.Error) {
	status := http.StatusOK
	if fail != nil {
		status = kserve.HTTPStatus(fail.Code)
	}
	kserve.LogAccess(r.Context(), s.o.Logger, req, slog.Int("status", status), slog.String("client", r.RemoteAddr))
	req.Drop()
}

// readFull fills b. Unlike io.ReadFull it takes an end in the very last read
// for what it is, and allocates nothing.
func readFull(r interface{ Read([]byte) (int, error) }, b []byte) error {
	for n := 0; n < len(b); {
		k, err := r.Read(b[n:])
		n += k
		if n == len(b) {
			return nil
		}
		if err != nil {
			return err
		}
		if k == 0 {
			return errors.New("reader gives nothing")
		}
	}
	return nil
}
