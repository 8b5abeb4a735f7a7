package worker

import (
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// steadyAhead is what the system's steady clock is ahead of backend.Now.
var steadyAhead = steady() - backend.Now()

// moment turns a time that a worker has reported into one of backend.Now, not before
// begin and not to come.
func moment(reported uint64, begin int64) int64 {
	return min(max(int64(min(reported, math.MaxInt64))-steadyAhead, begin), backend.Now())
}

// times takes TIMES: what the model says of a batch that has not ended.
func (f *batchFrames) times(h wire.Header, body []byte) error {
	start, end, err := wire.DecodeTimes(body)
	if err != nil {
		return err
	}
	if b := f.find(h.ID); b != nil && b.Instance.Number == h.Instance {
		b.Batch.InputEnd = moment(start, b.Batch.InputEnd)
		b.Batch.OutputStart = moment(end, b.Batch.InputEnd)
	}
	return nil
}

// activity takes ACTIVITY.
func (c *callFrames) activity(body []byte) error {
	at, trace, name, err := wire.DecodeActivity(body)
	if err == nil {
		c.host.Activity(string(trace), string(name), moment(at, 1))
	}
	return err
}
