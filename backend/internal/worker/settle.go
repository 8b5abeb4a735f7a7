package worker

import (
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/stream"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// finish ends a batch. Requests without a final response get err, or are told
// that there was none.
func (f *batchFrames) finish(id uint64, err error) {
	w := f.work.lock()
	b := w.batches.Finished(id)
	if b != nil {
		w.limitEnded(b.Instance, id)
	}
	f.work.unlock()
	if b != nil {
		f.settle(b, err)
	} else {
		f.returnAbandoned(id)
	}
}

// request returns the request of a handle that is not finally answered, or nil.
func (f *batchFrames) request(handle uint64) *backend.Request {
	w := f.work.lock()
	defer f.work.unlock()
	if r := w.batches.Request(handle); r != nil {
		return r.Request
	}
	return nil
}

// settle answers the requests that a batch has left open, and ends it. A decoupled model
// may answer later, unless the batch has failed.
func (f *batchFrames) settle(b *batch, err error) {
	inst := b.Instance
	later := inst.Decoupled && !inst.Gather
	if later {
		for _, h := range b.Handles {
			if err != nil {
				f.respond(h, &backend.Response{Err: backend.AsError(err)}, 0, wire.ResponseFinal)
			} else if r := f.request(h); r != nil {
				r.Settle(false) // it would have said so by now
			}
		}
		err = nil
	}
	copies, open := f.work.lock().batches.Settle(b, later)
	f.work.unlock()
	releaseBuffers(copies)
	if open > 0 && err == nil && !inst.Gather {
		err = noAnswer(inst, open)
	}
	w := f.work.lock()
	b.Err = err
	started := b.Started
	w.ended(b)
	f.work.unlock()
	if started {
		f.followed = true
		over(b)
	}
}

// expire answers the requests of a batch that is not back in time. The inputs
// stay where they are: the worker may still read them.
func (f *batchFrames) expire(id uint64) {
	b := f.work.lock().batches.Expire(id)
	f.work.unlock()
	if b == nil {
		return
	}
	err := backend.Errorf(backend.Unavailable, "inference of model '%s' timed out after %v", b.Instance.Name, b.Instance.Timeout)
	f.logger().Error("inference timed out, its instance is blocked until it returns")
	for _, h := range b.Handles {
		r, ok := f.work.lock().batches.ExpireRequest(h)
		f.work.unlock()
		if !ok {
			continue
		}
		resp := &backend.Response{Err: err}
		switch {
		case r.Stream != nil:
			r.Stream.Push(stream.Item{Resp: resp, Final: true}, f.closing)
		case r.Sent:
			_ = r.Request.Respond(nil, true)
		default:
			_ = r.Request.Respond(resp, true) // a cancelled request needs nothing more
		}
	}
}

// late takes a response to a request that has been answered by its timeout. It returns
// the buffers that the worker no longer reads.
func (w *work) late(handle uint64, flags uint32) []*tensor.Buffer {
	r, ok := w.batches.Late(handle, flags)
	if ok && flags&wire.ResponseRetained != 0 {
		w.shared.hold(&r)
	}
	return r.Copies
}

// abandon ends a batch that the worker does not give back. What the worker may
// still read is kept until it does, or until it dies.
func (f *batchFrames) abandon(id uint64) {
	w := f.work.lock()
	b := w.batches.Abandon(id)
	if b != nil {
		w.limitEnded(b.Instance, id)
	}
	f.work.unlock()
	if b != nil {
		f.settle(b, ErrStuck)
	}
}

// returnAbandoned releases what was kept for an abandoned batch, which is back.
func (f *batchFrames) returnAbandoned(id uint64) {
	kept := f.work.lock().batches.Returned(id)
	f.work.unlock()
	releaseBuffers(kept)
}

// takeBack ends the batches that instances have been forbidden and have not begun.
func (f *batchFrames) takeBack(list []recall) {
	var copies []*tensor.Buffer
	var started []*batch
	w := f.work.lock()
	for _, r := range list {
		if i := r.instance; i.Board != nil {
			for _, b := range w.batches.Recalled(i.pipeline, i.begun(), r.last) {
				if b.Started {
					started = append(started, b)
				}
				copies = append(copies, w.notBegun(b)...)
			}
		}
	}
	f.work.unlock()
	releaseBuffers(copies)
	for _, b := range started {
		over(b)
	}
}

// fail answers everything that the worker has, which is gone.
func (f *batchFrames) fail(cause *backend.Error) {
	batches, kept := f.work.lock().batches.Close()
	f.work.unlock()
	for _, b := range batches {
		for i := range b.Outputs {
			b.Outputs[i].Release()
		}
		b.Outputs = nil
		f.settle(b, cause)
	}
	var left []uint64 // of decoupled models, after their batch
	for h := range f.work.lock().batches.Requests() {
		left = append(left, h)
	}
	f.work.unlock()
	for _, h := range left {
		f.respond(h, &backend.Response{Err: cause}, 0, wire.ResponseFinal)
	}
	releaseBuffers(kept)
}
