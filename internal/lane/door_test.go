package lane

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pending counts as a model's statistics do.
type pending struct{ n atomic.Int64 }

func (p *pending) Enqueued() { p.n.Add(1) }
func (p *pending) Dequeued() { p.n.Add(-1) }

// crowd is who comes to a door, by number.
type crowd struct {
	door   Door
	who    pending
	mu     sync.Mutex
	passes map[int]*Pass
	in     []int // in the order in which they came in
}

func (c *crowd) come(number, places int, gone <-chan struct{}) {
	go func() {
		p := c.door.Enter(places, gone, &c.who)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.passes[number] = p
		c.in = append(c.in, number)
	}()
	synctest.Wait()
}

func (c *crowd) expect(t *testing.T, what string, waiting int64, in ...int) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.in, in) || c.who.n.Load() != waiting {
		t.Errorf("%s: %v are in, expected %v; %d wait, expected %d", what, c.in, in, c.who.n.Load(), waiting)
	}
}

func atDoor(t *testing.T, f func(t *testing.T, c *crowd)) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{passes: map[int]*Pass{}}
		f(t, c)
		for _, p := range c.passes {
			p.Leave()
			p.Leave() // the second time nothing is given back
		}
		if c.door.inside != 0 || len(c.door.line) != 0 {
			t.Errorf("in the end %d places are taken and %d wait", c.door.inside, len(c.door.line))
		}
	})
}

func TestDoorLetsInWhoWaitsLongest(t *testing.T) {
	atDoor(t, func(t *testing.T, c *crowd) {
		for n := range 4 {
			c.come(n, 2, nil)
			if n < 2 {
				c.passes[n].Arrived()
			}
		}
		c.expect(t, "two places", 2, 0, 1)
		time.Sleep(arrival)
		c.expect(t, "who has arrived keeps its place", 2, 0, 1)
		c.passes[1].Leave()
		c.expect(t, "one has left", 1, 0, 1, 2)
		if w := c.passes[2].Waited(); w != arrival || c.passes[0].Waited() != 0 {
			t.Errorf("waited %v and %v, expected %v and 0", w, c.passes[0].Waited(), arrival)
		}
		c.passes[2].Arrived()
		c.passes[1].Leave()
		c.expect(t, "it leaves again", 1, 0, 1, 2)
		c.come(4, 3, nil) // there is one more place, which is for who waits longer
		c.expect(t, "one place more", 1, 0, 1, 2, 3)
		c.passes[3].Arrived()
		c.passes[0].Leave()
		c.expect(t, "the next one", 0, 0, 1, 2, 3, 4)
	})
}

func TestDoorKeepsNobodyForLong(t *testing.T) {
	atDoor(t, func(t *testing.T, c *crowd) {
		c.come(0, 1, nil)
		c.passes[0].Arrived()
		gone := make(chan struct{})
		c.come(1, 1, nil)
		c.come(2, 1, gone)
		close(gone)
		c.expect(t, "one has gone", 1, 0, 2)
		time.Sleep(patience)
		c.expect(t, "one has waited enough", 0, 0, 2, 1)
		c.passes[1].Leave()
		c.passes[2].Leave()
		c.come(3, 1, nil)
		c.expect(t, "they had no place to give back", 1, 0, 2, 1)
		c.passes[0].Leave()
		c.expect(t, "and nobody else has it", 0, 0, 2, 1, 3)
	})
}

func TestWhoComesSlowlyKeepsNoPlace(t *testing.T) {
	atDoor(t, func(t *testing.T, c *crowd) {
		for n := range 3 {
			c.come(n, 1, nil)
		}
		c.expect(t, "one place", 2, 0)
		time.Sleep(arrival)
		c.expect(t, "the first one's body has not come", 1, 0, 1)
		c.passes[1].Arrived()
		c.passes[0].Arrived()
		c.passes[0].Leave()
		c.expect(t, "it has nothing to give back", 1, 0, 1)
		c.passes[1].Leave()
		c.expect(t, "the second one has", 0, 0, 1, 2)
	})
}

func TestNoDoor(t *testing.T) {
	var p *Pass
	p.Arrived()
	p.Leave()
	if p.Waited() != 0 {
		t.Error("who has come through no door has waited")
	}
}
