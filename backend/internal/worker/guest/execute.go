package guest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// guestRequest is one request of a batch that runs.
type guestRequest struct {
	backend.Request
	handle    uint64
	cancelled atomic.Bool
	answer    *backend.Response
	ended     bool
}

// Respond implements backend.Responder. Only the goroutine of the batch calls
// it.
func (r *guestRequest) Respond(resp *backend.Response, final bool) error {
	if r.ended {
		resp.Release()
		return backend.Errorf(backend.Internal, "the request has already been answered")
	}
	if resp != nil {
		if r.answer != nil {
			resp.Release()
		} else {
			r.answer = resp
		}
	}
	r.ended = final
	return nil
}

// Cancelled implements backend.Responder.
func (r *guestRequest) Cancelled() bool { return r.cancelled.Load() }

// execute runs a batch and sends its answers in one frame.
func (g *Guest) execute(j *job) error {
	inst, ok := g.handler.Instance(j.h.Instance)
	if !ok {
		return fmt.Errorf("worker protocol: instance %d does not exist", j.h.Instance)
	}
	var batches []*backend.Batch
	var requests []*guestRequest
	var err error
	if j.h.Kind == wire.KindExecuteBatch {
		batches, requests, err = g.gathered(&inst, j)
	} else {
		batches, requests, err = g.single(&inst, j)
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	for _, r := range requests {
		g.running[r.handle] = r
	}
	g.mu.Unlock()
	for i, b := range batches {
		err := inst.run(b)
		of := requests
		if len(batches) > 1 {
			of = requests[i : i+1]
		}
		if inst.Whole && err == nil && of[0].answer != nil && of[0].answer.Err != nil {
			err = of[0].answer.Err // that of the one request is that of all
		}
		for _, r := range of {
			if r.answer == nil {
				if err == nil {
					err = errNoAnswer
				}
				r.answer = &backend.Response{Err: backend.AsError(err)}
			}
		}
	}
	g.mu.Lock()
	for _, r := range requests {
		delete(g.running, r.handle)
	}
	g.mu.Unlock()
	if j.h.Kind == wire.KindExecuteBatch && inst.Whole && requests[0].answer.Err == nil {
		return g.sendWhole(&inst, j, requests[0].answer)
	}
	return g.sendAnswers(&inst, j, requests)
}

var errNoAnswer = backend.Errorf(backend.Internal, "the model ended the batch without a response")

// run turns a panic of the model's code into an error.
func (i *Instance) run(b *backend.Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = backend.Errorf(backend.Internal, "backend panicked: %v", v)
		}
	}()
	return i.Execute(b)
}

// single makes a batch of each request.
func (g *Guest) single(inst *Instance, j *job) ([]*backend.Batch, []*guestRequest, error) {
	blocks, err := wire.DecodeExecute(j.body)
	if err != nil {
		return nil, nil, err
	}
	var batches []*backend.Batch
	var requests []*guestRequest
	for i := range blocks {
		block := &blocks[i]
		r := &guestRequest{handle: block.Handle}
		r.ID, r.BatchSize, r.Ctx, r.Requested, r.Responder = string(block.ID), int(block.BatchSize), context.Background(), inst.Tables.Outputs, r
		r.Correlation = backend.CorrelationID{Number: block.Correlation, Text: string(block.CorrelationText)}
		if block.OnlyRequested() {
			r.Requested = nil
			for _, k := range block.Requested {
				if k < len(inst.Tables.Outputs) {
					r.Requested = append(r.Requested, inst.Tables.Outputs[k])
				}
			}
		}
		for k := range block.Inputs {
			t, err := g.view(&block.Inputs[k], inst.Tables.Inputs, j.body)
			if err != nil {
				return nil, nil, err
			}
			r.Inputs = append(r.Inputs, t)
		}
		requests = append(requests, r)
		batches = append(batches, &backend.Batch{Requests: []*backend.Request{&r.Request}, Inputs: r.Inputs, Size: max(1, r.BatchSize)})
	}
	return batches, requests, nil
}

// gathered makes one batch of joined inputs, whose requests have their rows of
// them where that can be said.
func (g *Guest) gathered(inst *Instance, j *job) ([]*backend.Batch, []*guestRequest, error) {
	block, err := wire.DecodeExecuteBatch(j.body)
	if err != nil {
		return nil, nil, err
	}
	b := &backend.Batch{Size: int(block.Total)}
	for i := range block.Inputs {
		t, err := g.view(&block.Inputs[i], inst.Tables.Inputs, j.body)
		if err != nil {
			return nil, nil, err
		}
		b.Inputs = append(b.Inputs, t)
	}
	if len(block.Handles) == 0 {
		return nil, nil, fmt.Errorf("worker protocol: a batch without requests")
	}
	var requests []*guestRequest
	for i, handle := range block.Handles {
		r := &guestRequest{handle: handle}
		r.BatchSize, r.Ctx, r.Requested, r.Responder = int(block.Rows[i]), context.Background(), inst.Tables.Outputs, r
		requests = append(requests, r)
		if !inst.Whole {
			b.Requests = append(b.Requests, &r.Request)
		}
	}
	if inst.Whole {
		all := requests[0]
		all.BatchSize, all.Inputs = int(block.Total), b.Inputs
		b.Requests = []*backend.Request{&all.Request}
		return []*backend.Batch{b}, requests, nil
	}
	divide(b)
	return []*backend.Batch{b}, requests, nil
}

// divide gives each request its rows of the joined inputs, unless one of them
// is not made of rows.
func divide(b *backend.Batch) {
	for i := range b.Inputs {
		if t := &b.Inputs[i]; len(t.Shape) == 0 || t.Shape[0] != int64(b.Size) {
			return
		}
	}
	for i := range b.Inputs {
		rest := b.Inputs[i].Data
		row, _ := b.Inputs[i].Shape[1:].Elements()
		for _, r := range b.Requests {
			part := b.Inputs[i]
			part.Shape = part.Shape.Clone()
			part.Shape[0] = int64(r.BatchSize)
			size := int(row) * r.BatchSize * part.Datatype.Size()
			if part.Datatype == tensor.Bytes {
				size, _ = tensor.SplitBytes(rest, int(row)*r.BatchSize)
			}
			part.Data, rest = rest[:size:size], rest[size:]
			r.Inputs = append(r.Inputs, part)
		}
	}
}

// sendAnswers sends one response for each request. Outputs that find no memory
// become errors.
func (g *Guest) sendAnswers(inst *Instance, j *job, requests []*guestRequest) error {
	all := make([]wire.Outgoing, len(requests))
	for i, r := range requests {
		o := &all[i]
		o.Handle, o.Flags, o.Parameters = r.handle, wire.ResponseFinal, r.answer.Parameters
		if o.Err = r.answer.Err; o.Err == nil {
			o.Outputs = r.answer.Outputs
			o.Indices, o.Places, o.Err = g.locate(inst, r.answer.Outputs)
			if o.Err != nil {
				o.Outputs, o.Indices, o.Places = nil, nil, nil
			}
		}
	}
	g.mu.Lock()
	var err error
	g.out, err = g.enc.AppendResponses(g.out, wire.KindResponses, j.h.Instance, j.h.ID, wire.FlagEnds, all)
	err = g.sendLocked(err)
	g.mu.Unlock()
	for _, r := range requests {
		r.answer.Release()
	}
	return err
}

// sendWhole sends the outputs of a batch as they are.
func (g *Guest) sendWhole(inst *Instance, j *job, answer *backend.Response) error {
	indices, places, failed := g.locate(inst, answer.Outputs)
	g.mu.Lock()
	var err error
	if failed != nil {
		g.out, err = wire.AppendDone(g.out, j.h.Instance, j.h.ID, failed.Message, "")
	} else {
		g.out, err = g.enc.AppendResultBatch(g.out, j.h.Instance, j.h.ID, wire.FlagEnds, answer.Outputs, indices, places)
	}
	err = g.sendLocked(err)
	g.mu.Unlock()
	answer.Release()
	return err
}

// locate says where outputs lie for the server: small ones in the frame, others in
// output memory, into which they are copied.
func (g *Guest) locate(inst *Instance, outputs []tensor.Tensor) (indices []int, places []wire.Place, failed *backend.Error) {
	indices, places = make([]int, len(outputs)), make([]wire.Place, len(outputs))
	for i := range outputs {
		t := &outputs[i]
		indices[i], places[i] = inst.Tables.Output(t.Name), wire.Place{Segment: wire.InlineSegment}
		if len(t.Data) <= inst.InlineLimit {
			continue
		}
		at, data, err := g.memory.allocate(len(t.Data))
		if err != nil {
			for _, p := range places[:i] {
				if p.Segment != wire.InlineSegment {
					g.memory.release(wire.Block{Segment: p.Segment, Offset: p.Offset})
				}
			}
			return nil, nil, backend.Errorf(backend.Unavailable, "output '%s': %v", t.Name, err)
		}
		copy(data, t.Data)
		places[i] = at
	}
	return indices, places, nil
}
