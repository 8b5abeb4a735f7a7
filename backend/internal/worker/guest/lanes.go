package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// Laned is a Handler whose calls need not all wait for each other.
type Laned interface {
	// Lane says for what a call waits: calls of one lane run one at a time, in their
	// order, but those that are beside each other together. It is called by one goroutine.
	Lane(kind wire.Kind, instance uint32, body json.RawMessage) (lane uint32, beside bool)
}

// lanes run the calls of a Laned, each on a goroutine of its own.
type lanes struct {
	guest   *Guest
	handler Laned
	running sync.WaitGroup

	mu sync.Mutex
	by map[uint32]*callLane
}

// callLane is a lane that has calls.
type callLane struct {
	waiting []laneJob
	alone   bool // a call runs beside which none may
	beside  int  // calls that run beside each other
}

type laneJob struct {
	job
	beside bool
}

// put has a call run when its turn comes.
func (l *lanes) put(j job) {
	number, beside := l.handler.Lane(j.h.Kind, j.h.Instance, j.body)
	j.in.Retain()
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.by[number]
	if lane == nil {
		lane = &callLane{}
		l.by[number] = lane
	}
	lane.waiting = append(lane.waiting, laneJob{j, beside})
	l.beginLocked(number, lane)
}

// beginLocked begins the calls whose turn it is, and forgets a lane that has none.
func (l *lanes) beginLocked(number uint32, lane *callLane) {
	for len(lane.waiting) > 0 {
		j := lane.waiting[0]
		if lane.alone || !j.beside && lane.beside > 0 {
			return
		}
		lane.waiting[0] = laneJob{}
		lane.waiting = lane.waiting[1:]
		if lane.alone = !j.beside; j.beside {
			lane.beside++
		}
		l.running.Go(func() {
			l.run(&j.job)
			l.mu.Lock()
			defer l.mu.Unlock()
			if lane.alone = false; j.beside {
				lane.beside--
			}
			l.beginLocked(number, lane)
		})
	}
	if !lane.alone && lane.beside == 0 {
		delete(l.by, number)
	}
}

func (l *lanes) run(j *job) {
	err := l.guest.call(j)
	j.in.Release()
	if err != nil { // as in work
		fmt.Fprintln(os.Stderr, err)
		l.guest.fail()
	}
}
