package hostcalls

import (
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/hostmetrics"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// callLimit bounds the calls that one worker may have under way.
const callLimit = 1024

// Worker is the caller, as its calls see it.
type Worker struct {
	// Host is the server; nil refuses all calls.
	Host backend.Host
	// Go runs f on a goroutine that the connection waits for at its end.
	Go func(f func())
	// Reply answers METRIC, CONTROL and the like: with FAILED when err is set.
	Reply func(id uint64, value any, err error) error
	// Send sends a response to INFER. It consumes what is shared. With wait it waits
	// while the worker does not read.
	Send func(a Answer, wait bool) error
	// Lend says where the worker reads a tensor that lies in memory of another one.
	// False: it has to be copied.
	Lend func(t *tensor.Tensor) (wire.Place, bool)
	// ToHost brings a tensor from a GPU to ordinary memory.
	ToHost func(t *tensor.Tensor) *backend.Error
	// Fail ends the connection.
	Fail func(err error)
}

// Calls are the calls of one worker.
type Calls struct {
	w       Worker
	metrics hostmetrics.Metrics

	mu      sync.Mutex
	infers  map[uint64]*Infer
	running int
}

// Init makes it ready to use.
func (c *Calls) Init(w Worker) {
	c.w, c.infers = w, map[uint64]*Infer{}
	c.metrics.Init()
}

// Close lets go of the metrics of a worker that has ended.
func (c *Calls) Close() { c.metrics.Close() }

var (
	errNoHost  = backend.Errorf(backend.Unsupported, "calls into the server are not possible here")
	errTooMany = backend.Errorf(backend.Unavailable, "the model has more than %d calls into the server under way", callLimit)
)

// begin counts a call; false when too many are under way.
func (c *Calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running >= callLimit {
		return false
	}
	c.running++
	return true
}

func (c *Calls) finish() {
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
}

// Answered is what Run's f returns when it has answered the call itself.
var Answered any = answered{}

type answered struct{}

// Run answers a call with what f returns. f may take its time: it runs beside the
// reader.
func (c *Calls) Run(id uint64, f func() (any, error)) error {
	if !c.begin() {
		return c.w.Reply(id, nil, errTooMany)
	}
	c.w.Go(func() {
		defer c.finish()
		value, err := f()
		if err == nil && value == Answered {
			return
		}
		if err := c.w.Reply(id, value, err); err != nil {
			c.w.Fail(err)
		}
	})
	return nil
}

// Refuse answers a call that is possible nowhere.
func (c *Calls) Refuse(id uint64) error { return c.w.Reply(id, nil, errNoHost) }

func (c *Calls) find(id uint64) *Infer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.infers[id]
}

// Cancel takes the worker's word that it does not wait for an INFER any more.
func (c *Calls) Cancel(id uint64) {
	if call := c.find(id); call != nil {
		call.stop()
	}
}

// Credit takes a CREDIT: so much of the responses to an INFER has been taken.
func (c *Calls) Credit(id uint64, body []byte) error {
	taken, err := wire.DecodeCredit(body)
	if err != nil {
		return err
	}
	if call := c.find(id); call != nil && call.window != nil {
		call.window.Credit(taken)
	}
	return nil
}
