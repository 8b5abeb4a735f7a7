package worker

import (
	"slices"
	"time"
)

// interruptGrace is the default of ConnOptions.Grace. It is short: the requests of a
// batch that is interrupted have had their time.
const interruptGrace = time.Second

// contextEnded cancels the batches of a context. When the worker does not come back from
// them in time, they are abandoned, or the connection ends, which answers them.
func (c *Conn) contextEnded(done <-chan struct{}) {
	s := c.lock()
	defer c.unlock()
	if s.err != nil {
		return
	}
	var ids []uint64
	var instances []*Instance
	for b := range s.work.batches.Under(done) {
		ids = append(ids, b.ID)
		if i := b.Instance; i.Board != nil && !slices.Contains(instances, i) {
			instances = append(instances, i)
		}
		for _, h := range b.Handles {
			s.work.cancel(h)
		}
	}
	if len(ids) == 0 {
		return
	}
	s.out.flush()
	if s.err != nil { // ended while the lock was free for the write: Close may wait already
		return
	}
	grace := c.opts.Grace
	if grace <= 0 {
		grace = interruptGrace
	}
	taken := s.work.recall(instances)
	c.wg.Go(func() {
		c.takeBack(taken)
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.closing:
			return
		}
		s := c.lock()
		stuck := false
		for _, id := range ids {
			stuck = stuck || s.work.batches.Find(id) != nil
		}
		c.unlock()
		switch {
		case stuck && c.opts.KeepStuck:
			for _, id := range ids {
				c.tell(func(f *batchFrames) { f.abandon(id) })
			}
		case stuck:
			c.end(ErrStuck)
		}
	})
}
