package model

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/responsecache"
	"github.com/nesoserve/neso/internal/scheduler"
)

// flights are the requests of a model that are executed at present, by key:
// the first one leads, identical ones join it and get its answer or its error.
// One that was cancelled does not lead any longer: the next takes its place.
type flights struct {
	io   *io
	work sync.WaitGroup // goroutines that hand out answers

	mu  sync.Mutex
	all map[flightKey]*flight
}

// flightKey is what requests in flight must have in common: besides the key of
// the cache all that says how long they wait, and whether they name their
// outputs: an answer to one that does not may lack some.
type flightKey struct {
	key               responsecache.Key
	priority, timeout uint64
	all               bool
}

type flight struct {
	key    flightKey
	joined []*infer.Request
}

// join makes r wait for an identical request and reports true, or makes it the
// leader of a flight.
func (f *flights) join(r *infer.Request, x *pending) bool {
	k := flightKey{x.key, r.Priority, r.Timeout, f.io.wantsAll(r)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if first := f.all[k]; first != nil {
		r.Cache.Joined = true
		r.Times.Queue = backend.Now()
		first.joined = append(first.joined, r)
		return true
	}
	x.flight = &flight{key: k}
	f.all[k] = x.flight
	return false
}

// land ends a flight and returns who has joined it. The second call returns
// nobody.
func (f *flights) land(x *pending) []*infer.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[x.flight.key] == x.flight {
		delete(f.all, x.flight.key)
	}
	joined := x.flight.joined
	x.flight.joined = nil
	return joined
}

// share answers requests with one response, which is borrowed; nil means that
// there was none. Each is answered on a goroutine of its own, since its sink may
// wait for its client.
func (m *Model) share(joined []*infer.Request, resp *backend.Response) {
	for _, r := range joined {
		var own *backend.Response
		if resp != nil {
			own = &backend.Response{
				Outputs:    append(resp.Outputs[:0:0], resp.Outputs...),
				Parameters: append(resp.Parameters[:0:0], resp.Parameters...),
			}
			for i := range own.Outputs {
				own.Outputs[i].Retain()
			}
		}
		m.cache.flights.work.Go(func() { _ = r.Respond(own, true) }) // nobody else answers it
	}
}

// fail answers requests with an error.
func (m *Model) fail(joined []*infer.Request, err *backend.Error, why infer.Reason) {
	for _, r := range joined {
		m.cache.flights.work.Go(func() { r.Fail(err, why) })
	}
}

// succeed executes the first of the requests that is not cancelled, in place of
// a leader that was; the others join it.
func (m *Model) succeed(joined []*infer.Request) {
	for i, r := range joined {
		if r.Cancelled() {
			r.Fail(scheduler.ErrCancelled(), infer.Canceled)
			continue
		}
		r.Cache.Joined, r.Times.Queue = false, 0
		x := &pending{}
		x.key, x.identity = m.key(r)
		f := m.cache.flights
		if f.join(r, x) { // another one leads by now
			continue
		}
		f.mu.Lock()
		x.flight.joined = append(x.flight.joined, joined[i+1:]...)
		f.mu.Unlock()
		r.Cache.Pending = x
		if err := m.enqueue(r); err != nil {
			m.fail(f.land(x), backend.AsError(err), infer.Rejected)
			r.Fail(err, infer.Rejected)
		}
		return
	}
}
