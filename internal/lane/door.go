package lane

import (
	"slices"
	"sync"
	"time"
)

const (
	// arrival is how long who has been let in may wait for its client before others
	// are let in instead: a client that sends slowly keeps no place.
	arrival = 2 * time.Millisecond
	// patience is how long somebody waits at most. It goes in then without a place: a
	// door saves work, it is never what a request ends at.
	patience = 50 * time.Millisecond
)

// Door is where requests with large bodies wait that would stand in line for a model
// anyway. Their bodies stay with the clients meanwhile: what is read long before it is
// used takes memory, and has left the processor's caches when it is used. Who comes
// first is let in first. The zero value is a door at which nobody is.
type Door struct {
	mu     sync.Mutex
	inside int // places that are taken
	places int // how many there were when somebody came last
	line   []*Pass
}

// Pass is what somebody holds that has come through a door, with a place or without.
// A nil one is valid: there was no door.
type Pass struct {
	door   *Door
	holds  bool          // a place; under the door's mu
	turn   chan struct{} // closed when it gets a place; nil for who need not wait
	late   *time.Timer
	waited time.Duration
}

// Waiting counts those that wait at a door.
type Waiting interface {
	Enqueued()
	Dequeued()
}

// Enter takes one of the places, and waits for it where all are taken: not after gone
// is closed, and not for long. who counts it while it waits.
func (d *Door) Enter(places int, gone <-chan struct{}, who Waiting) *Pass {
	p := &Pass{door: d}
	d.mu.Lock()
	d.places = places
	d.fillLocked()                            // there may be more places than before
	if p.holds = d.inside < places; p.holds { // then nobody waits
		d.inside++
	} else {
		p.turn = make(chan struct{})
		d.line = append(d.line, p)
	}
	d.mu.Unlock()
	if p.turn != nil {
		who.Enqueued()
		p.wait(gone)
		who.Dequeued()
	}
	p.late = time.AfterFunc(arrival, p.Leave)
	return p
}

func (p *Pass) wait(gone <-chan struct{}) {
	begin := time.Now()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.turn:
	case <-gone:
		p.door.quit(p)
	case <-t.C:
		p.door.quit(p)
	}
	p.waited = time.Since(begin)
}

// quit ends the wait of p, which may have got its place meanwhile.
func (d *Door) quit(p *Pass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.line, p); i >= 0 {
		d.line = slices.Delete(d.line, i, i+1)
	}
}

// Waited returns how long it has waited.
func (p *Pass) Waited() time.Duration {
	if p == nil {
		return 0
	}
	return p.waited
}

// Arrived says that the body is there: the place is kept until Leave.
func (p *Pass) Arrived() {
	if p != nil {
		p.late.Stop()
	}
}

// Leave gives the place back, if there is one still, to who waits longest.
func (p *Pass) Leave() {
	if p == nil {
		return
	}
	d := p.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if !p.holds {
		return
	}
	p.holds = false
	d.inside--
	d.fillLocked()
}

// fillLocked gives the free places to those that wait longest.
func (d *Door) fillLocked() {
	for len(d.line) > 0 && d.inside < d.places {
		next := d.line[0]
		d.line = slices.Delete(d.line, 0, 1)
		next.holds = true
		d.inside++
		close(next.turn)
	}
}
