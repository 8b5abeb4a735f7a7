package worker

import (
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
)

// steadyAhead is what the system's steady clock is ahead of backend.Now.
var steadyAhead = steady() - backend.Now()

// moment turns a time that a worker has reported into one of backend.Now, not before
// begin and not after now.
func moment(reported uint64, begin, now int64) int64 {
	return min(max(int64(min(reported, math.MaxInt64))-steadyAhead, begin), now)
}

// times takes TIMES: what the model says of a batch that has not ended.
func (f *batchFrames) times(h wire.Header, body []byte) error {
	now := backend.Now()
	return wire.DecodeTimes(body, func(r wire.Report) {
		if r.Flags&wire.ReportResponse != 0 {
			f.responded(h, r)
			return
		}
		one := backend.Report{Failed: r.Flags&wire.ReportFailed != 0, Size: int(min(r.Size, math.MaxInt32))}
		for i := range one.Times {
			one.Times[i] = int64(min(r.Times[i], math.MaxInt64)) - steadyAhead
		}
		f.reported(h, r, one, now)
	})
}

// mostReports are how many reports of a batch count: a library has one a batch, or one for
// each part in which it computes it.
const mostReports = 256

// reported keeps a report: the last one of a request with the request, as long as that has
// no final response, those of a batch with the batch. Whoever reads them does so after the
// reader, which is the caller, has given the response or the batch away. Of what is not
// counted by them, the batch itself and the traces of its requests, the last word on the
// whole batch says when it computed, else that on a request.
func (f *batchFrames) reported(h wire.Header, r wire.Report, one backend.Report, now int64) {
	w := f.work.lock()
	defer f.work.unlock()
	if r.Flags&wire.ReportBatch == 0 {
		request := w.batches.Request(r.Handle)
		if request == nil || request.Instance.Number != h.Instance {
			return // it has been answered
		}
		kept := one // on the heap: what is said of batches is not
		request.Request.Report = &kept
	}
	b := w.batches.Find(h.ID)
	if b == nil || b.Instance.Number != h.Instance || b.Expired() {
		return
	}
	whole := len(b.Batch.Reports) > 0
	if r.Flags&wire.ReportBatch != 0 && len(b.Batch.Reports) < mostReports {
		b.Batch.Reports = append(b.Batch.Reports, one)
	}
	if !one.Failed && (r.Flags&wire.ReportBatch != 0 || !whole) {
		b.Batch.InputEnd = moment(r.Times[1], b.Batch.InputEnd, now)
		b.Batch.OutputStart = moment(r.Times[2], b.Batch.InputEnd, now)
	}
}

// responded counts what an instance says of a response.
func (f *batchFrames) responded(h wire.Header, r wire.Report) {
	i := f.work.lock().instances[h.Instance]
	f.work.unlock()
	if i == nil || i.Responded == nil {
		return
	}
	one := backend.ResponseReport{
		Index: int(min(r.Size, math.MaxInt32)), Took: between(r.Times[0], r.Times[2]), Output: between(r.Times[1], r.Times[2]),
		Failed: r.Flags&wire.ReportFailed != 0, Empty: r.Flags&wire.ReportEmpty != 0, Cancelled: r.Flags&wire.ReportCancelled != 0,
	}
	i.Responded(one)
}

// between is how long after a moment another one was, which is not before it.
func between(from, to uint64) int64 { return int64(min(to-from, math.MaxInt64)) }

// activity takes ACTIVITY.
func (c *callFrames) activity(body []byte) error {
	at, trace, name, err := wire.DecodeActivity(body)
	if err == nil {
		c.host.Activity(string(trace), string(name), moment(at, 1, backend.Now()))
	}
	return err
}
