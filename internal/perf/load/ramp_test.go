package load

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/internal/perf/drive"
	"github.com/nesoserve/neso/internal/perf/schedule"
)

// streams is a plan whose requests have n responses, one each 10 ms.
func streams(n int) Plan {
	p := plan(nil, 0)
	p.Keep = true
	p.Dial = func() drive.Conn {
		return drive.Local(func(ctx context.Context, _ *drive.Request, _ bool, yield func([]byte)) error {
			for range n {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(10 * time.Millisecond):
				}
				yield(nil)
			}
			return nil
		})
	}
	return p
}

// TestRamped: three more join when all that joined last have had two responses.
func TestRamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := streams(5)
		begun := drive.Now()
		l := Ramped(p, schedule.NewRamp(1, 7, 3, 2), 2)
		<-l.Done()
		l.Stop(time.Second)
		w := p.Recorder.Take()
		var starts []int64
		for _, r := range w.Records {
			starts = append(starts, (r.Start-begun)/1e6)
		}
		slices.Sort(starts)
		if want := []int64{0, 20, 20, 20, 40, 40, 40}; !slices.Equal(starts, want) || w.Responses != 35 {
			t.Errorf("requests begin at %v ms, want %v; %d responses", starts, want, w.Responses)
		}
	})
}

// TestRampedShort: a request that has fewer responses than the period is a failure, and
// ends the ramp.
func TestRampedShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := streams(5)
		l := Ramped(p, schedule.NewRamp(2, 6, 2, 9), 9)
		<-l.Done()
		w := p.Recorder.Take()
		if w.Count != 0 || len(w.Errors) != 1 || w.Errors[0].Count != 2 || w.Errors[0].Kind != "request period not reached" {
			t.Errorf("%d counted, %+v", w.Count, w.Errors)
		}
	})
}

// TestRampedStop: what streams without end is ended.
func TestRampedStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := streams(1 << 30)
		l := Ramped(p, schedule.NewRamp(1, 1000, 1, 3), 3)
		time.Sleep(time.Second)
		l.Stop(time.Second)
		if w := p.Recorder.Take(); w.Count != 0 || w.Failed() != 0 {
			t.Errorf("%d counted, %+v", w.Count, w.Errors)
		}
	})
}
