package httpapi

import (
	"errors"
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
	"github.com/nesoserve/neso/internal/httpapi/coding"
	"github.com/nesoserve/neso/internal/httpapi/transport"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/lane"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/rollout"
	"github.com/nesoserve/neso/internal/tracing"
)

// inference is the memory of one inference in this package. It is pooled.
type inference struct {
	decoder  jsonwire.Decoder
	response kserve.ResponseOptions
	body     jsonwire.Body
	reply    jsonwire.Response
	sink     *infer.Single
	scratch  []byte
	text     memory.Text // where scratch would be too small
	loaded   int64       // of the body, in scratch or text
	in       arrival
	out      ledger.Hold
	key      *ledger.Share // of the caller's answers, nil without a key
	control  int64         // bytes of a control request's body, on the ledger
	raw      bool
	flat     bool // the body is JSON of the generate extension, whatever a header says
	received int64
	length   []string // see jsonLength
	lengthOf int
}

func newInference() *inference { return &inference{sink: infer.NewSingle()} }

// jsonLength returns the value of the length header of c's reply. Most replies of
// a model have the same; a value that was given away does not change.
func (c *inference) jsonLength() []string {
	if n := len(c.reply.JSON); c.length == nil || n != c.lengthOf {
		c.length, c.lengthOf = []string{strconv.Itoa(n)}, n
	}
	return c.length
}

// release gives everything back that the inference holds.
func (s *Server) release(c *inference) {
	c.response.Reset()
	c.body = jsonwire.Body{}
	c.reply.Reset(keepReply)
	c.raw = false
	c.in.end(nil)
	c.text.Free()
	c.out.Close()
	c.key = nil
	s.ledger().Give(ledger.In, c.control)
	c.control = 0
	s.inferences.Put(c)
}

const (
	// keepReply is how much reply memory a pooled inference keeps: the JSON of some
	// million floats, which is costly to grow again and again. The collector
	// takes unused ones.
	keepReply = 32 << 20
	// joinLimit is up to what size a reply is put together and written at once.
	joinLimit = 32 << 10
)

// infer is hop 1: it comes from the network and goes on to engine.Infer
// (hop 2) with a request whose inputs lie in the model's memory. Its answer
// comes back from infer.Request.Respond (hop 7).
func (s *Server) infer(w http.ResponseWriter, r *http.Request, caller *auth.Caller, name string, ask rollout.Ask) {
	h := w.Header()
	c := s.inferences.Get().(*inference)
	defer s.release(c)
	c.received = backend.Now()
	c.key = caller.Share()
	pin, req, err := s.admit(w, r, c, caller, name, ask, nil)
	if err != nil {
		s.turnAway(w, r, c, err)
		if err == errCoding { //nolint:errorlint // our own value
			h["Accept-Encoding"] = bothCoding
		}
		s.replyError(w, h, textType, bodyError(err))
		return
	}
	req.Times.Receive = c.received
	req.Ctx = r.Context()
	var pass *lane.Pass
	if c.body.RestSize >= largeBody {
		pass = pin.Model.Door(req.Ctx.Done())
		defer pass.Leave()
	}
	if err := s.decode(r, c, pin, req); err != nil {
		req.Discard()
		s.turnAway(w, r, c, err)
		s.refuse(c, w, h, jsonType, bodyError(err))
		return
	}
	if r.ContentLength != 0 {
		c.in.end(h)
		stopReadTimer(w)
	}
	pass.Arrived()
	pin = pin.Continue(req)
	verbose := s.o.Logger != nil && s.o.Logger.Enabled(req.Ctx, logging.Verbose(1))
	var fail *backend.Error
	if verbose {
		req.Hold()
		defer func() { s.access(r, req, fail) }()
	}
	id := req.ID // the request may be gone once it is answered
	req.Times.Start = backend.Now()
	if waited := pass.Waited(); waited > 0 { // in line for the instances
		req.Times.Start -= int64(waited)
		req.Times.Queue = req.Times.Start
	}
	trace := s.startTrace(r, req)
	defer trace.Done()
	contentType := jsonType // of an error
	var resp *backend.Response
	if err := s.engine.Infer(req); err != nil {
		fail = backend.AsError(err)
	} else {
		contentType = textType
		resp, fail = c.sink.Wait()
	}
	pass.Leave() // who does not read its answer keeps no place
	if fail == nil {
		defer resp.Release() // what it has is written from where it lies
		fail = s.prepare(w, r, c, pin, id, resp)
	}
	defer trace.Send()()
	if fail != nil {
		s.refuse(c, w, h, contentType, fail)
	} else {
		s.send(w, r, h, c)
	}
}

// prepare makes the reply of a response, once there is room for it.
func (s *Server) prepare(
	w http.ResponseWriter, r *http.Request, c *inference, pin engine.Pin, id string, resp *backend.Response,
) *backend.Error {
	if err := s.hold(w, r, c, int(infer.Bytes(resp))); err != nil {
		return err
	}
	if err := s.encode(r, c, pin, id, resp); err != nil {
		return err
	}
	c.response.ReleaseRegions()
	return s.hold(w, r, c, len(c.reply.JSON))
}

// decode fills the request from the body and from the headers that the model sees.
func (s *Server) decode(r *http.Request, c *inference, pin engine.Pin, req *infer.Request) error {
	target := kserve.Target{Config: pin.Model.Config(), Allocator: pin.Model.Allocator(), Reserver: req, Apart: c.text.Room() > 0}
	if shared := s.engine.SharedMemory(); !shared.Empty() {
		target.Memory = s.seenBy(r)
	}
	c.body.Limit = s.o.MaxInputSize
	var err error
	switch {
	case c.raw:
		err = jsonwire.DecodeRaw(&req.Request, &c.response, target, &c.body)
	case len(c.body.JSON) < heavyText:
		err = c.decoder.Decode(&req.Request, &c.response, target, &c.body)
	default:
		if err = s.decodeHeavy(c, req, target); err == nil { // the tail may be on its way
			err = c.decoder.Tail(&req.Request, target, &c.body)
		}
	}
	c.decoded(req)
	if err == nil && s.forward != nil {
		err = s.forwardHeaders(r, &req.Request)
	}
	if err == nil {
		err = c.response.ReadRegions(req, target.Allocator)
	}
	return err
}

// decodeHeavy reads a large JSON document when its turn comes. Its own function,
// like encodeHeavy, so that the requests that need neither make no closure.
func (s *Server) decodeHeavy(c *inference, req *infer.Request, target kserve.Target) error {
	fail := s.heavily(req.Ctx.Done(), true, func() *backend.Error {
		if err := c.decoder.Document(&req.Request, &c.response, target, &c.body); err != nil {
			return bodyError(err)
		}
		return nil
	})
	if fail != nil {
		return fail
	}
	return nil
}

// encode makes the reply of a response.
func (s *Server) encode(r *http.Request, c *inference, pin engine.Pin, id string, resp *backend.Response) *backend.Error {
	if c.response.TextSize(resp) >= heavyText {
		return s.encodeHeavy(r, c, pin, id, resp)
	}
	return jsonwire.Encode(&c.reply, pin.Model.Config(), id, pin.Model.Version(), resp, &c.response, pin.Model.Labels)
}

func (s *Server) encodeHeavy(r *http.Request, c *inference, pin engine.Pin, id string, resp *backend.Response) *backend.Error {
	return s.heavily(r.Context().Done(), true, func() *backend.Error {
		return jsonwire.Encode(&c.reply, pin.Model.Config(), id, pin.Model.Version(), resp, &c.response, pin.Model.Labels)
	})
}

// refuse answers with an error, once the client's shared memory is let go.
func (s *Server) refuse(c *inference, w http.ResponseWriter, h http.Header, contentType []string, err *backend.Error) {
	c.response.ReleaseRegions()
	s.replyError(w, h, contentType, err)
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

// send writes the reply. Large tensors go out from where the model left them.
func (s *Server) send(w http.ResponseWriter, r *http.Request, h http.Header, c *inference) {
	contentType := jsonType
	if c.reply.TailSize > 0 {
		contentType = binaryType
		h[lengthHeader] = c.jsonLength()
	}
	h["Content-Type"] = contentType
	if accept := r.Header["Accept-Encoding"]; accept != nil {
		if k := coding.Choose(accept); k != coding.None {
			h["Content-Encoding"] = gzipCoding
			if k == coding.Deflate {
				h["Content-Encoding"] = zlibCoding
			}
			var small []byte
			done := s.heavy.In(r.Context().Done(), len(c.reply.JSON)+c.reply.TailSize >= heavyInflated, func() {
				small = coding.Compress(k, append([][]byte{c.reply.JSON}, c.reply.Tail...)...)
			})
			if !done {
				return // nobody is there to read it
			}
			s.writeParts(w, h, c, small, nil, 0)
			return
		}
	}
	if len(c.reply.JSON)+c.reply.TailSize <= joinLimit {
		for _, t := range c.reply.Tail {
			c.reply.JSON = append(c.reply.JSON, t...)
		}
		s.write(w, h, http.StatusOK, c.reply.JSON)
		return
	}
	s.writeParts(w, h, c, c.reply.JSON, c.reply.Tail, c.reply.TailSize)
}

// reservedHeaders cannot be forwarded: they are parameters with a meaning.
var reservedHeaders = []string{"sequence_id", "sequence_start", "sequence_end", "priority", "timeout", "headers", "binary_data_output"}

// forwardHeaders makes parameters of the headers that the pattern matches, with
// the names as the client spells them and in its order. What only net/http has
// seen has its canonical names (My-Header), sorted.
func (s *Server) forwardHeaders(r *http.Request, req *backend.Request) error {
	from := len(req.Parameters)
	fields := transport.Fields(r)
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
