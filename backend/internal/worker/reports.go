package worker

import (
	"math"
	"slices"

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
	b := f.find(h.ID)
	if b != nil && b.Instance.Number != h.Instance {
		b = nil
	}
	return wire.DecodeTimes(body, func(r *wire.Report) {
		if b != nil {
			f.reported(b, r)
		}
	})
}

// reported keeps a report with its batch. Of what is not counted by it, the batch itself
// and the traces of its requests, the last word on the whole batch says when it computed,
// else that on a request.
func (f *batchFrames) reported(b *batch, r *wire.Report) {
	one := backend.Report{Failed: r.Flags&wire.ReportFailed != 0, Size: int(min(r.Size, math.MaxInt32))}
	if r.Flags&wire.ReportBatch == 0 {
		request := f.work.lock().batches.Request(r.Handle)
		if request != nil {
			one.Request = request.Request
		}
		f.work.unlock()
		if one.Request == nil || !slices.Contains(b.Batch.Requests, one.Request) {
			return // it has been answered
		}
	}
	for i := range one.Times {
		one.Times[i] = int64(min(r.Times[i], math.MaxInt64)) - steadyAhead
	}
	whole := slices.ContainsFunc(b.Batch.Reports, func(r backend.Report) bool { return r.Request == nil })
	b.Batch.Reports = append(b.Batch.Reports, one)
	if !one.Failed && (one.Request == nil || !whole) {
		b.Batch.InputEnd = moment(r.Times[1], b.Batch.InputEnd)
		b.Batch.OutputStart = moment(r.Times[2], b.Batch.InputEnd)
	}
}

// activity takes ACTIVITY.
func (c *callFrames) activity(body []byte) error {
	at, trace, name, err := wire.DecodeActivity(body)
	if err == nil {
		c.host.Activity(string(trace), string(name), moment(at, 1))
	}
	return err
}
