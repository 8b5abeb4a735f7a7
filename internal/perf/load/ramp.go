package load

import (
	"fmt"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/schedule"
	"github.com/nesoserve/neso/internal/perf/wire"
)

// Ramped sends each request once, over a connection of its own; more join when those
// that joined last have had period responses. One that ends with fewer has failed.
func Ramped(p Plan, r *schedule.Ramp, period int) *Load {
	check := p.Check
	p.Check = func(w *wire.Prepared, a *drive.Answer) error {
		if a.Responses < period {
			return &drive.Failure{
				Kind: "request period not reached",
				Text: fmt.Sprintf("the last response was number %d, and --request-period is %d: no request may have fewer", a.Responses, period),
			}
		}
		if check == nil {
			return nil
		}
		return check(w, a)
	}
	l := newLoad(p)
	l.join(r, 0, r.Begin())
	go l.finish()
	return l
}

// join begins requests from the number first on.
func (l *Load) join(r *schedule.Ramp, first, n int) {
	for i := range n {
		l.group.Go(func() { l.ramped(r, first+i) })
	}
}

func (l *Load) ramped(r *schedule.Ramp, number int) {
	w := l.worker()
	defer w.conn.Close()
	w.answer.OnResponse = func(n int) {
		l.mu.Lock()
		first := r.Sent()
		joined := r.Response(number, n)
		l.mu.Unlock()
		if !l.stopped.Load() {
			l.join(r, first, joined)
		}
	}
	w.next(number, l.turn.Add(1)-1)
	w.send(number, 0)
	w.endSequence()
}
