package worker

import (
	"log/slog"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/tensor"
)

// batchFrames takes the frames in which the worker answers its batches: RESPONSES
// (answer.go), RESULT_BATCH, DONE, NOT_BEGUN and FREE. Batches that end in another way
// are in settle.go.
type batchFrames struct {
	work  guard[work]
	views *views
	// keepStuck says that the answer to a batch that was abandoned may still come.
	keepStuck bool
	// many says that the process has several models, so that the logger names none.
	many    bool
	logger  func() *slog.Logger
	run     func(f func())  // on a goroutine that the connection waits for at its end
	closing <-chan struct{} // closed when the connection ends
	// followed says that a batch has ended that was started (backend.Batch.Ended): whoever
	// started it often starts the next one at once.
	followed bool
}

// result takes the outputs of a gathered batch, to be divided.
func (f *batchFrames) result(h wire.Header, body []byte, in *wire.Chunk) error {
	entries, flags, err := wire.DecodeResultBatch(body)
	if err != nil {
		return err
	}
	b := f.answering(h.ID)
	cur := wire.NewCursor(h.Kind, body)
	if b == nil && f.keepStuck {
		return f.lateResult(h, entries, &cur, in)
	}
	if b == nil || !b.Instance.Gather || b.Outputs != nil {
		cur.Fail("id", 16, "batch %d awaits no result", h.ID)
		return cur.Err()
	}
	b.Batch.OutputStart = backend.Now()
	outputs := make([]tensor.Tensor, 0, len(entries))
	from := returned{inputs: b.Batch.Inputs, copies: b.Copies}
	for i := range entries {
		if outputs, err = f.output(outputs, &entries[i], &cur, in, b.Instance, &from); err != nil {
			for k := range outputs {
				outputs[k].Release()
			}
			return err
		}
	}
	b.Outputs = outputs
	if flags&wire.FlagHeld != 0 {
		f.work.lock().shared.holdBatch(b)
		f.work.unlock()
	}
	if flags&wire.FlagEnds != 0 {
		f.finish(h.ID, nil)
	}
	return nil
}

// find returns the batch of a number, nil when the worker does not have it.
func (f *batchFrames) find(id uint64) *batch {
	defer f.work.unlock()
	return f.work.lock().batches.Find(id)
}

// answering returns the batch of a number to which an answer has come.
func (f *batchFrames) answering(id uint64) *batch {
	defer f.work.unlock()
	return f.work.lock().batches.Answering(id)
}

// lateResult takes the outputs of an abandoned batch.
func (f *batchFrames) lateResult(h wire.Header, entries []wire.Entry, cur *wire.Cursor, in *wire.Chunk) error {
	for i := range entries {
		t, err := f.views.tensor("", &entries[i], cur, in, &returned{gone: true})
		if err != nil {
			return err
		}
		t.Release()
	}
	f.returnAbandoned(h.ID)
	return nil
}

// done takes the end of a batch, or its failure.
func (f *batchFrames) done(h wire.Header, body []byte) error {
	message, traceback, err := wire.DecodeDone(body)
	if err != nil {
		return err
	}
	var failure error
	if len(message) > 0 {
		name := f.instanceName(h.Instance)
		failure = backend.Errorf(backend.Internal, "Failed to process the request(s) for model '%s', message: %s", name, message)
		if b := f.find(h.ID); b != nil {
			b.Batch.Ran = true
			if b.Batch.OutputStart == 0 {
				b.Batch.OutputStart = backend.Now()
			}
		}
		var attrs []any
		if f.many {
			attrs = append(attrs, slog.String("instance", name))
		}
		attrs = append(attrs, slog.String("error", string(message)))
		if len(traceback) > 0 { // none where the program of a bound callable has logged it
			attrs = append(attrs, logging.Block("traceback", string(traceback)))
		}
		f.logger().Error("failed to execute a batch", attrs...)
	}
	f.finish(h.ID, failure)
	return nil
}

// instanceName is an instance's name, "" where it is gone.
func (f *batchFrames) instanceName(number uint32) string {
	w := f.work.lock()
	defer f.work.unlock()
	if inst := w.instances[number]; inst != nil {
		return inst.Name
	}
	return ""
}

// notBegun takes NOT_BEGUN: the worker has not run a batch, which the server had
// recalled.
func (f *batchFrames) notBegun(h wire.Header) error {
	w := f.work.lock()
	b := w.batches.Find(h.ID)
	if b == nil {
		f.work.unlock()
		f.returnAbandoned(h.ID)
		return nil
	}
	fault := &wire.ProtocolError{Kind: h.Kind, Field: "id", Offset: 16}
	switch {
	case b.Instance.Number != h.Instance || !b.Instance.pipeline.Recalled(h.ID):
		fault.Detail = "the batch was not recalled"
	case !w.batches.Untouched(b):
		fault.Detail = "the batch was answered"
	default:
		started, copies := b.Started, w.notBegun(b)
		f.work.unlock()
		releaseBuffers(copies)
		if started {
			over(b)
		}
		return nil
	}
	f.work.unlock()
	return fault
}

// freed takes FREE: the worker can take another batch although this one has not ended,
// because its model answers later.
func (f *batchFrames) freed(h wire.Header) {
	f.work.lock().batches.Frees(h.ID)
	f.work.unlock()
}
