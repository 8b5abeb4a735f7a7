package httpapi

import (
	"errors"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/auth"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/httpapi/transport"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/tracing"
)

// call is the memory of one inference in this package. It is pooled.
type call struct {
	decoder  kserve.JSONDecoder
	wishes   kserve.Call
	body     kserve.JSONBody
	reply    kserve.JSONResponse
	sink     *infer.Single
	scratch  []byte
	text     memory.Text // where scratch would be too small
	loaded   int64       // of the body, in scratch or text
	in       arrival
	out      ledger.Hold
	control  int64 // bytes of a control request's body, on the ledger
	raw      bool
	flat     bool // the body is JSON of the generate extension, whatever a header says
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
	c.in.end(nil)
	c.text.Free()
	c.out.Close()
	s.ledger().Give(ledger.In, c.control)
	c.control = 0
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
	pin, req, err := s.admit(w, r, c, caller, name, version, nil)
	if err != nil {
		s.turnAway(w, r, c, err)
		if err == errCoding { //nolint:errorlint // our own value
			h["Accept-Encoding"] = bothCoding
		}
		replyError(w, h, textType, bodyError(err))
		return
	}
	cfg := pin.Model.Config()
	req.Times.Receive = c.received
	req.Ctx = r.Context()
	target := kserve.Target{Config: cfg, Allocator: pin.Model.Allocator(), Reserver: req, Apart: c.text.Room() > 0}
	if shared := s.engine.SharedMemory(); !shared.Empty() {
		target.Memory = s.seenBy(r)
	}
	c.body.Limit = s.o.MaxInputSize
	switch {
	case c.raw:
		err = kserve.DecodeRaw(&req.Request, &c.wishes, target, &c.body)
	case len(c.body.JSON) < heavyText || c.body.RestSize > 0:
		err = c.decoder.Decode(&req.Request, &c.wishes, target, &c.body)
	default:
		s.heavy.in(true, func() { err = c.decoder.Decode(&req.Request, &c.wishes, target, &c.body) })
	}
	c.decoded(req)
	if err == nil && s.forward != nil {
		err = s.forwardHeaders(r, &req.Request)
	}
	if err == nil {
		err = c.wishes.ReadRegions(req, target.Allocator)
	}
	if err != nil {
		req.Abandon()
		s.turnAway(w, r, c, err)
		replyError(w, h, jsonType, bodyError(err))
		return
	}
	if r.ContentLength != 0 {
		c.in.end(h)
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
	if fail = s.hold(w, r, c, responseSize(resp)); fail != nil {
		replyError(w, h, textType, fail)
		return
	}
	if c.wishes.TextSize(resp) < heavyText {
		fail = kserve.EncodeJSON(&c.reply, cfg, id, pin.Model.Version(), resp, &c.wishes, pin.Model.Labels)
	} else {
		s.heavy.in(true, func() {
			fail = kserve.EncodeJSON(&c.reply, cfg, id, pin.Model.Version(), resp, &c.wishes, pin.Model.Labels)
		})
	}
	if fail != nil {
		replyError(w, h, textType, fail)
		return
	}
	defer trace.Send()()
	if fail = s.hold(w, r, c, len(c.reply.JSON)); fail != nil {
		replyError(w, h, textType, fail)
		return
	}
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

// admit reads as much of the body as has to be in memory, pins the model and
// makes the request, which answers into sink, or into the call's own for nil. A
// small body is read first: a slow client then holds no pin. Of a larger one a
// first part is, then the model is asked, and the rest is counted as it comes; its
// binary tail is read straight into tensors. Of a compressed one nothing is
// inflated before there is a model for it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, c *call, caller *auth.Caller, name string, version int64, sink infer.Sink) (engine.Pin, *infer.Request, error) {
	pin, err := s.begin(w, r, c, caller, name, version)
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
		req.Abandon()
		return engine.Pin{}, nil, err
	}
	return pin, req, nil
}

// begin reads the first part of a body, which is all of a small one, into
// c.body.Tail, and pins the model.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, c *call, caller *auth.Caller, name string, version int64) (engine.Pin, error) {
	n := r.ContentLength
	switch {
	case coded(r):
		if k := r.Header["Content-Encoding"][0]; k != "gzip" && k != "deflate" {
			return engine.Pin{}, errCoding
		}
		s.arrive(w, r, c)
		return s.engine.ResolveFor(caller, name, version, 0)
	case n < 0:
		b, err := c.slurp(nil, io.LimitReader(s.arrive(w, r, c), smallBody), smallBody)
		if err != nil {
			return engine.Pin{}, err
		}
		if len(b) < smallBody {
			c.in.end(w.Header())
		}
		c.body.Tail = b
		return s.engine.ResolveFor(caller, name, version, int64(len(b)))
	case n <= firstBytes:
		c.body.Tail = c.buffer(nil, int(n))
		if err := readFull(r.Body, c.body.Tail); err != nil {
			return engine.Pin{}, err
		}
		return s.engine.ResolveFor(caller, name, version, n)
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
		return s.engine.ResolveFor(caller, name, version, n)
	case n <= memory.Whole:
		// There is memory for all of it as soon as there is any.
		c.in.whole = true
		c.in.hold.Stand(n)
		return s.engine.ResolveFor(caller, name, version, n)
	}
	return s.engine.ResolveArriving(caller, name, version, int64(len(b)), n)
}

// goOn reads as much more of the body as has to be in memory, and divides it.
func (s *Server) goOn(w http.ResponseWriter, r *http.Request, c *call, req *infer.Request) error {
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
func (s *Server) inflate(r *http.Request, c *call, req *infer.Request) ([]byte, error) {
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
		return nil, backend.Errorf(backend.InvalidArg, "Decompressed data size exceeds the maximum allowed value of %d bytes. Use --http-max-input-size to increase the limit.", s.o.MaxInputSize)
	}
	return b, err
}

// decoded lets go of a large text whose tensors have been made.
func (c *call) decoded(req *infer.Request) {
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
			var small []byte
			s.heavy.in(len(c.reply.JSON)+c.reply.TailSize >= heavyInflated, func() {
				small = compress(k, append([][]byte{c.reply.JSON}, c.reply.Tail...)...)
			})
			s.writeParts(w, h, c, small, nil, 0)
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
	s.writeParts(w, h, c, c.reply.JSON, c.reply.Tail, c.reply.TailSize)
}

// reservedHeaders cannot be forwarded: they are parameters with a meaning.
var reservedHeaders = []string{"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"}

// forwardHeaders makes parameters of the headers that the pattern matches, with
// the names as the client spells them and in its order. What net/http has parsed
// has its canonical names (My-Header), sorted.
func (s *Server) forwardHeaders(r *http.Request, req *backend.Request) error {
	from := len(req.Parameters)
	fields := transport.Fields(r.Context())
	if fields == nil {
		fields = canonical(r.Header)
	}
	for name, value := range fields {
		if s.o.Guard != nil && (strings.EqualFold(name, "Authorization") || strings.EqualFold(name, apiKeyHeader)) {
			continue // a key is for the server, not for models
		}
		if !s.forward.MatchString(name) || strings.EqualFold(name, "Host") {
			continue
		}
		if lower := strings.ToLower(name); slices.Contains(reservedHeaders, lower) || strings.HasPrefix(lower, "triton_") {
			return backend.Errorf(backend.InvalidArg, "Header '%s' is reserved for Triton usage and cannot be forwarded.", name)
		}
		if !slices.ContainsFunc(req.Parameters[from:], func(p backend.Parameter) bool { return p.Name == name }) {
			req.Parameters = append(req.Parameters, backend.String(name, value))
		}
	}
	return nil
}

// canonical yields each field of a header with its first value, sorted.
func canonical(h http.Header) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if len(h[name]) > 0 && !yield(name, h[name][0]) {
				return
			}
		}
	}
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
