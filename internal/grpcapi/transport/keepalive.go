package transport

import (
	"math/rand/v2"
	"time"

	"github.com/nesoserve/neso/backend"
)

// keep starts what ends connections that are dead or too old.
func (c *conn) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.afterLocked(timerKeepalive, c.s.o.KeepaliveTime, c.ping)
	age, over := c.s.o.MaxConnectionAge, c.old
	if c.s.parting.Load() && (age <= 0 || age > partAge) {
		age, over = partAge, c.move
	}
	if age > 0 {
		// Connections that began together must not end together.
		c.afterLocked(timerAge, time.Duration(float64(age)*(0.9+0.2*rand.Float64())), over)
	}
}

// part drains a connection. One that is not greeted will be asked by keep.
func (c *conn) part() {
	c.mu.Lock()
	greeted := c.greeted
	c.mu.Unlock()
	if greeted {
		c.move()
	}
}

// move has the client take another connection. Its calls here have the time that they
// need: the server goes on serving them.
func (c *conn) move() { c.drain("max_age") }

// old drains a connection that has reached its age.
func (c *conn) old() {
	c.move()
	if grace := c.s.o.MaxConnectionAgeGrace; grace > 0 {
		c.mu.Lock()
		c.afterLocked(timerAge, grace, c.close)
		c.mu.Unlock()
	}
}

var keepalivePing = [8]byte{'n', 'e', 's', 'o', 'k', 'e', 'e', 'p'}

// ping asks a client that has been silent whether it is there.
func (c *conn) ping() {
	silent := time.Duration(backend.Now() - c.lastRead.Load())
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.s.o.KeepaliveTime - silent; left > 0 {
		c.afterLocked(timerKeepalive, left, c.ping)
		return
	}
	asked := backend.Now()
	c.out = appendPing(c.out, 0, keepalivePing)
	c.kickLocked()
	c.afterLocked(timerKeepalive, c.s.o.KeepaliveTimeout, func() {
		if c.lastRead.Load() < asked {
			c.close()
			return
		}
		c.ping()
	})
}

const (
	// maxStrikes is how many pings may come too early.
	maxStrikes = 2
	// restingPing is how often a client may ping without a call.
	restingPing = 2 * time.Hour
)

// pinged judges a ping of the client.
func (c *intake) pinged() error {
	now := time.Now()
	least := c.s.o.MinPingInterval
	c.mu.Lock()
	resting := len(c.streams) == 0
	c.mu.Unlock()
	if resting && !c.s.o.PingsWithoutCalls {
		least = restingPing
	}
	if !c.quiet.Swap(true) {
		c.strikes = 0 // data was sent since the last one
	} else if !c.lastPing.IsZero() && now.Sub(c.lastPing) < least {
		c.strikes++
	}
	c.lastPing = now
	if c.strikes > maxStrikes {
		return fault(codeEnhanceCalm, "too_many_pings")
	}
	return nil
}
