package sequence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// TestRandomEvents plays random events and checks what must hold whatever
// happens: every accepted request runs or fails exactly once; those of a
// sequence run in order, one at a time, on one slot; nobody waits while there
// is a free slot; in the end nothing is left.
func TestRandomEvents(t *testing.T) {
	for seed := range uint64(300) {
		if got := random(seed); got != "" {
			t.Fatalf("seed %d: %s", seed, got)
		}
	}
}

func random(seed uint64) string {
	rnd := rand.New(rand.NewPCG(seed, 5))
	c := &modelconfig.SequenceBatching{MaxIdle: time.Duration(20+rnd.IntN(200)) * time.Microsecond}
	if rnd.IntN(2) == 0 {
		c.Oldest = &modelconfig.OldestStrategy{
			MaxCandidateSequences: rnd.IntN(6),
			MaxQueueDelay:         time.Duration(rnd.IntN(3)*20) * time.Microsecond,
		}
	} else if rnd.IntN(2) == 0 {
		c.Direct = &modelconfig.DirectStrategy{MaxQueueDelay: 30 * time.Microsecond, MinimumSlotUtilization: rnd.Float32()}
	}
	b := newBatcher(rnd.IntN(4), c, nil, 1+rnd.IntN(3), 1+rnd.IntN(2), 1+rnd.IntN(12))
	type fate struct {
		number int
		state  string
	}
	fates := map[*entry]*fate{} // entries that are queued or in flight
	var running []*batch
	inFlight, newest := map[*slot]bool{}, map[*sequence]int{}
	now, fault, accepted := int64(1), "", 0
	var leaving []int
	apply := func(fx *effects) {
		for e := fx.Failed; e != nil; e = e.next {
			if f := fates[e]; f == nil || f.state != "queued" {
				fault = fmt.Sprintf("failed without being queued: %+v", f)
			}
			delete(fates, e)
		}
		for x := fx.First; x != nil; x = x.Next {
			if len(x.Entries) == 0 || x.Entries[len(x.Entries)-1] == nil || len(x.Entries) > b.max {
				fault = fmt.Sprintf("a batch of %d with %d slots", len(x.Entries), b.max)
			}
			for i, e := range x.Entries {
				if e == nil {
					if !b.direct {
						fault = "a hole"
					}
					continue
				}
				f := fates[e]
				if f == nil || f.state != "queued" || inFlight[e.slot] || e.slot.instance.number != x.Instance || b.direct && e.slot.number != i {
					fault = fmt.Sprintf("run: %+v", f)
					return
				}
				if f.number < newest[e.seq] {
					fault = "out of order"
				}
				f.state, newest[e.seq] = "runs", f.number
				inFlight[e.slot] = true
			}
			running = append(running, x)
		}
		if b.backlog.head != nil && b.free.len() > 0 {
			fault = "a free slot beside a backlog"
		}
		waiting := 0
		for s := b.backlog.head; s != nil; s = s.next {
			waiting += s.len
		}
		if waiting != b.waiting || waiting > b.limit {
			fault = fmt.Sprintf("%d waiting, counted %d, at most %d", waiting, b.waiting, b.limit)
		}
	}
	for range 400 {
		now += int64(rnd.IntN(10)) * 1000
		if at := b.wake(); at > now && rnd.IntN(4) == 0 {
			now = at
		}
		var fx effects
		switch k := rnd.IntN(11); {
		case k == 10 && rnd.IntN(2) == 0: // an instance comes, with a number that is free
			i := slices.IndexFunc(b.instances, func(l *instance) bool { return len(l.slots) == 0 })
			if i < 0 {
				i = len(b.instances)
			}
			b.join(i)
		case k == 10: // one of several leaves
			i := rnd.IntN(len(b.instances))
			stays := func(l *instance) bool { return l.number != i && len(l.slots) > 0 && !l.leaves }
			if l := b.instances[i]; len(l.slots) > 0 && !l.leaves && slices.ContainsFunc(b.instances, stays) {
				b.leave(i)
				leaving = append(leaving, i)
			}
		case k < 5:
			e := b.entries.Take()
			e.request = makeRequest("r", map[string]string{})
			e.request.Timeout = uint64(rnd.IntN(2) * rnd.IntN(100))
			e.start, e.end = rnd.IntN(4) == 0, rnd.IntN(6) == 0
			why, _ := b.enqueue(now, key{CorrelationID: backend.CorrelationID{Number: uint64(1 + rnd.IntN(9))}}, e, &fx)
			if why != taken {
				b.release(e)
				break
			}
			if e.start && e.seq.slot != nil && e.seq.slot.instance.leaves && e.seq.len == 1 && e.seq.since == 0 && !e.seq.running {
				return "a sequence begins on an instance that leaves"
			}
			accepted++
			fates[e] = &fate{accepted, "queued"}
		case k < 6 && len(fates) > 0:
			for e := range fates { // any
				b.cancel(e, &fx)
				break
			}
		case k < 9 && len(running) > 0:
			i := rnd.IntN(len(running))
			x := running[i]
			running = slices.Delete(running, i, i+1)
			for _, e := range x.Entries {
				if e == nil {
					continue
				}
				e.execution.gone = e.cancelled || e.execution.gone || rnd.IntN(10) == 0
				inFlight[e.slot] = false
				delete(fates, e)
			}
			b.done(now, x, &fx)
		}
		b.step(now, &fx)
		if apply(&fx); fault != "" {
			return fault
		}
		leaving = slices.DeleteFunc(leaving, b.vacant)
		if at := b.wake(); at != 0 && at <= now {
			return fmt.Sprintf("wake-up at %d is not after %d", at, now)
		}
	}
	for e := b.drain(&effects{}); e != nil; e = e.next {
		delete(fates, e)
	}
	for _, x := range running {
		for _, e := range x.Entries {
			delete(fates, e)
		}
		var fx effects
		b.done(now, x, &fx)
		b.step(now, &fx)
		if fx.First != nil || fx.Failed != nil {
			return "something came after the end"
		}
	}
	if leaving = slices.DeleteFunc(leaving, b.vacant); len(leaving) > 0 {
		return fmt.Sprintf("%d instances have not left", len(leaving))
	}
	slots := 0
	for _, l := range b.instances {
		slots += len(l.slots)
	}
	if len(fates) > 0 || len(b.active) > 0 || b.waiting != 0 || b.free.len() != slots || b.idle.head != nil || accepted == 0 {
		return fmt.Sprintf("left: %d requests, %d sequences, %d waiting, %d of %d slots free", len(fates), len(b.active), b.waiting, b.free.len(),
			slots)
	}
	return ""
}
