package guest

import (
	"encoding/json"
	"sync"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Concurrent is a Handler that may be called by several goroutines at once.
type Concurrent interface {
	// Queue says which calls a call waits for. Calls of one queue begin in the order in
	// which they came. A parallel call runs together with parallel calls of its queue;
	// any other call runs alone in its queue. Calls of different queues do not wait for
	// each other. Queue is called by one goroutine.
	Queue(kind wire.Kind, instance uint32, body json.RawMessage) (queue uint32, parallel bool)
}

// callQueues run the calls of a Concurrent, each on a goroutine of its own.
type callQueues struct {
	guest   *Guest
	handler Concurrent
	running sync.WaitGroup

	mu     sync.Mutex
	queues map[uint32]*callQueue
}

// callQueue is a queue that has calls.
type callQueue struct {
	waiting  []queuedCall
	alone    bool // a call runs that is not parallel
	parallel int  // how many parallel calls run
}

type queuedCall struct {
	job
	parallel bool
}

// put has a call run when its turn comes.
func (c *callQueues) put(j job) {
	number, parallel := c.handler.Queue(j.h.Kind, j.h.Instance, j.body)
	j.in.Retain()
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[number]
	if q == nil {
		q = &callQueue{}
		c.queues[number] = q
	}
	q.waiting = append(q.waiting, queuedCall{j, parallel})
	c.beginLocked(number, q)
}

// beginLocked begins the calls whose turn it is, and forgets a queue that has none.
func (c *callQueues) beginLocked(number uint32, q *callQueue) {
	for len(q.waiting) > 0 {
		call := q.waiting[0]
		if q.alone || !call.parallel && q.parallel > 0 {
			return
		}
		q.waiting[0] = queuedCall{}
		q.waiting = q.waiting[1:]
		if q.alone = !call.parallel; call.parallel {
			q.parallel++
		}
		c.running.Go(func() {
			c.run(&call.job)
			c.mu.Lock()
			defer c.mu.Unlock()
			if q.alone = false; call.parallel {
				q.parallel--
			}
			c.beginLocked(number, q)
		})
	}
	if !q.alone && q.parallel == 0 {
		delete(c.queues, number)
	}
}

func (c *callQueues) run(j *job) {
	err := c.guest.call(j)
	j.in.Release()
	if err != nil {
		c.guest.broke(err)
	}
}
