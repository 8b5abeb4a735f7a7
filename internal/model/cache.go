package model

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/scheduler/dynamic"
	"github.com/nesoserve/neso/tensor"
)

// cache is what a model with a response cache, or that lets identical requests
// share an execution, does before hop 4 and at hop 7.
type cache struct {
	store     responsecache.Store // nil when only requests in flight are shared
	allocator tensor.Allocator    // ordinary memory for entries
	logger    *slog.Logger
	subject   responsecache.Subject // but Wanted and Order
	// order places a request that is not executed among those that are; nil where
	// responses leave as they come.
	order *dynamic.Scheduler
	// complained says that a refused insertion has been logged.
	complained atomic.Bool
	flights    *flights // nil unless identical requests share an execution
}

// pending is what is kept of a request between look-up and answer.
type pending struct {
	key      responsecache.Key
	identity responsecache.Identity
	entry    *responsecache.Entry
	failed   error             // why there is no entry
	copied   int64             // nanoseconds that making the entry took
	shared   *backend.Response // for those that have joined, with references of its own
	flight   *flight           // nil unless it leads one
	late     bool              // the answer was given to a cancelled request: it may be cut short
}

// keyScratch is memory for making the key of one request.
type keyScratch struct {
	wanted []bool
	order  []int
}

var keyScratches = sync.Pool{New: func() any { return &keyScratch{} }}

// key returns the key of a request, and of what it was made.
func (m *Model) key(r *infer.Request) (responsecache.Key, responsecache.Identity) {
	w := keyScratches.Get().(*keyScratch)
	defer keyScratches.Put(w)
	w.wanted, w.order = w.wanted[:0], w.order[:0]
	for i := range m.config.Outputs {
		w.wanted = append(w.wanted, m.io.asks(r, m.config.Outputs[i].Name))
	}
	// In the order of the configuration: a client may send them in any.
	for i := range r.Inputs {
		w.order = append(w.order, i)
	}
	for i := range r.Inputs {
		if m.io.input(r.Inputs[i].Name, i) != i {
			slices.SortFunc(w.order, func(a, b int) int { return m.io.input(r.Inputs[a].Name, a) - m.io.input(r.Inputs[b].Name, b) })
			break
		}
	}
	s := m.cache.subject
	s.Identity, s.Wanted, s.Order = m.Identity(), w.wanted, w.order
	return responsecache.NewKey(&s, &r.Request), s.Identity
}

// inferCached answers from the cache, or sends the request on its way so that
// its answer gets there. Its contract is that of Infer.
func (m *Model) inferCached(r *infer.Request) error {
	if c := m.cache; r.Background && c.order == nil && c.store != nil && c.store.Shared() {
		// The look-up is a trip over the network. The goroutine ends with the request,
		// whose pin holds the version.
		go func() {
			if err := m.lookUp(r); err != nil {
				r.Fail(err, infer.Rejected)
			}
		}()
		return nil
	}
	return m.lookUp(r)
}

func (m *Model) lookUp(r *infer.Request) error {
	c := m.cache
	r.Cache.Start = backend.Now()
	key, made := m.key(r)
	if c.store != nil {
		e := c.store.Lookup(r.Ctx, key)
		if e != nil && c.store.Shared() {
			if err := m.foreign(r, e); err != nil {
				c.store.Discredit(key, err)
				e.Release()
				e = nil
			}
		}
		r.Cache.End = backend.Now()
		if e != nil {
			r.Cache.Hit = true
			_ = c.inOrder(r).Respond(e.Response(), true) // it has not been answered before
			return nil
		}
	}
	x := &pending{key: key, identity: made}
	// What is spare to one may be needed by another. An answer may lie in the memory of the program that has sent
	// the request, which it is no longer told of when others have it.
	if c.flights != nil && !r.Internal && r.Spare == 0 && r.Sender == nil && c.flights.join(r, x) {
		return nil
	}
	r.Cache.Pending = x
	err := m.enqueue(r)
	if err != nil && x.flight != nil {
		m.fail(c.flights.land(x), backend.AsError(err), infer.Rejected)
	}
	return err
}

func (c *cache) inOrder(r *infer.Request) backend.Responder {
	if c.order != nil {
		return c.order.InOrder(r)
	}
	return r
}

var errForeign = errors.New("the outputs are not those of the model")

// foreign holds an entry that another process may have written to the
// configuration and to the request.
func (m *Model) foreign(r *infer.Request, e *responsecache.Entry) error {
	return m.fits(r, e.Outputs())
}

// fits holds outputs to the configuration and to the request. What a model may
// answer otherwise does not go into a shared store: nobody could tell it from an
// entry of something else.
func (m *Model) fits(r *infer.Request, outputs []tensor.Tensor) error {
	if len(outputs) != len(asked(r)) {
		return errForeign
	}
	for i := range outputs {
		t := &outputs[i]
		out := m.io.output(t.Name, i)
		if out == nil || t.Datatype != out.Datatype || !wants(r, &m.io, t.Name) || has(outputs[:i], t.Name) {
			return errForeign
		}
		dims := t.Shape
		if m.io.batching && !out.ShapeTensor {
			if len(dims) == 0 || dims[0] != int64(r.BatchSize) {
				return errForeign
			}
			dims = dims[1:]
		}
		if !m.io.loose && !dims.Matches(out.Dims) {
			return errForeign
		}
	}
	return nil
}

// keep takes what the cache, and those that have joined, need of a response
// that has been checked; the response is borrowed.
func (m *Model) keep(r *infer.Request, x *pending, resp *backend.Response) {
	c := m.cache
	if r.Cancelled() {
		x.late = true
		return
	}
	if r.Responses() > 1 {
		return
	}
	if x.flight != nil {
		x.shared = &backend.Response{Outputs: slices.Clone(resp.Outputs), Parameters: slices.Clone(resp.Parameters)}
		for i := range x.shared.Outputs {
			x.shared.Outputs[i].Retain()
		}
	}
	// An answer that lacks an output would be no answer to a request that names it.
	if c.store != nil && hasAll(resp.Outputs, asked(r)) && (!c.store.Shared() || m.fits(r, resp.Outputs) == nil) {
		from := backend.Now()
		x.entry, x.failed = responsecache.NewEntry(resp, c.store.Largest(), c.allocator)
		x.copied = backend.Now() - from
	}
}

// settle is called with the final response: it stores the answer and hands it
// to those that have joined.
func (m *Model) settle(r *infer.Request, x *pending) {
	r.Cache.Pending = nil
	failure, why := r.Failure()
	good := failure == nil && r.Responses() == 1 && !x.late
	switch {
	case x.entry == nil && x.failed == nil:
	case good && x.identity == m.Identity(): // a step of the ensemble may have been loaded anew meanwhile
		m.insert(r, x)
	default:
		x.entry.Release()
	}
	if x.flight == nil {
		return
	}
	joined := m.cache.flights.land(x)
	switch {
	case len(joined) == 0:
	case x.late || failure != nil && r.Cancelled():
		m.cache.flights.work.Go(func() { m.succeed(joined) })
	case failure != nil:
		m.fail(joined, failure, why)
	case x.shared != nil && good:
		m.share(joined, x.shared)
	case r.Responses() == 0:
		m.share(joined, nil)
	default:
		m.fail(joined, backend.Errorf(backend.Internal, "expected a single response, got %d", r.Responses()), infer.Backend)
	}
	x.shared.Release()
}

// insert stores an answer, and notes what the miss took unless another request
// was faster.
func (m *Model) insert(r *infer.Request, x *pending) {
	from := backend.Now()
	outcome, err := responsecache.Refused, x.failed
	if err == nil {
		outcome, err = m.cache.store.Insert(x.key, x.entry)
	}
	if err != nil && !m.cache.complained.Swap(true) {
		m.logger.Error("failed to insert key into the response cache; further failures of this model are not logged",
			"model", m.config.Name, "version", m.version, "key", x.key, "error", err)
	}
	if outcome != responsecache.Present {
		r.Cache.Missed = max(1, r.Cache.End-r.Cache.Start+x.copied+backend.Now()-from)
	}
}

// Identity stands for all that makes the version answer as it does; of an
// ensemble the models of its steps are part.
func (m *Model) Identity() responsecache.Identity {
	own := m.identity()
	if m.graph == nil {
		return own
	}
	h := sha256.New()
	h.Write(own[:])
	m.graph.Steps(func(model string, version int64) bool {
		id, _ := m.steps(model, version) // one that does not serve fails the request
		h.Write(id[:])
		return true
	})
	h.Sum(own[:0])
	return own
}
