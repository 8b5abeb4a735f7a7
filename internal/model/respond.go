package model

import (
	"slices"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// CheckResponse drops outputs that the model does not have or the client did
// not ask for, undoes reshapes, and makes an error of a response that
// contradicts the configuration.
func (m *Model) CheckResponse(r *infer.Request, resp *backend.Response) {
	if r.Cache.Hit || r.Cache.Joined {
		return
	}
	if err := m.io.checkResponse(r, resp); err != nil {
		resp.Err = err
		hint := "its bytes do not fit its own datatype and shape"
		if lenient := (io{config: m.config, batching: m.io.batching, loose: true, unchecked: true, requested: m.io.requested}); lenient.checkResponse(r, resp) == nil {
			hint = "--unchecked-outputs lets other datatypes and shapes, and missing outputs, pass, as Triton does"
		}
		m.logger.Error("response refused", "error", err.Message, "model", m.config.Name, "version", m.version, "request_id", r.ID, "hint", hint)
	}
	if x, _ := r.Cache.Pending.(*pending); x != nil && resp.Err == nil {
		m.keep(r, x, resp)
	}
	if m.config.Decoupled && resp.Err == nil {
		if r.Responses() == 1 {
			m.stats.FirstResponse(backend.Now() - r.Times.Start)
		}
		m.stats.Response(r, r.Responses()-1, false, len(resp.Outputs) == 0)
	}
}

// Finish counts a request that ended.
func (m *Model) Finish(r *infer.Request) {
	if b := r.Batch; b != nil {
		r.Times.InputEnd, r.Times.OutputStart = b.InputEnd, b.OutputStart
	}
	if r.Times.ComputeStart != 0 {
		r.Times.ComputeEnd = r.Times.End
	}
	if m.config.Decoupled && r.Times.ComputeStart != 0 {
		r.Times.OutputStart = r.Times.End // the model may compute until its last response
		if err, _ := r.Failure(); err != nil {
			m.stats.Response(r, max(0, r.Responses()-1), true, false)
		}
	}
	if x, _ := r.Cache.Pending.(*pending); x != nil {
		m.settle(r, x)
	}
	m.stats.Finish(r)
	r.Times.Steps = nil
}

func (o *io) checkResponse(r *infer.Request, resp *backend.Response) *backend.Error {
	kept := resp.Outputs[:0]
	var err *backend.Error
	for i := range resp.Outputs {
		t := resp.Outputs[i]
		out := o.output(t.Name, i)
		if out == nil || !wants(r, o, t.Name) || has(kept, t.Name) {
			t.Release()
			continue
		}
		if err == nil {
			err = o.checkOutput(r, &t, out)
		}
		kept = append(kept, t)
	}
	clear(resp.Outputs[len(kept):])
	resp.Outputs = kept
	if err != nil || o.loose || o.config.Decoupled || len(kept) >= len(asked(r)) {
		return err
	}
	if len(kept) > 0 && o.wantsAll(r) {
		return nil // a model may leave out what nobody asked for by name
	}
	needed := asked(r)
	for _, name := range needed[:len(needed)-r.Spare] {
		if !has(kept, name) {
			return backend.Errorf(backend.Internal, "model '%s' returned no output '%s', expected one of datatype %s and shape %s",
				o.config.Name, name, o.config.Output(name).Datatype, o.pattern(r, o.config.Output(name)))
		}
	}
	return nil
}

// output returns an output's configuration, or nil; guess is where it may be.
func (o *io) output(name string, guess int) *modelconfig.Output {
	if guess < len(o.config.Outputs) && o.config.Outputs[guess].Name == name {
		return &o.config.Outputs[guess]
	}
	return o.config.Output(name)
}

// wants reports whether the request asked for an output the model has.
func wants(r *infer.Request, o *io, name string) bool {
	return o.wantsAll(r) || slices.Contains(asked(r), name)
}

// asked returns the outputs that go to the client.
func asked(r *infer.Request) []string { return r.Requested[:len(r.Requested)-r.Hidden] }

// wantsAll reports whether the request named no outputs, which means all.
func (o *io) wantsAll(r *infer.Request) bool {
	return len(r.Requested) == len(o.requested) && len(o.requested) > 0 && &r.Requested[0] == &o.requested[0]
}

func has(outputs []tensor.Tensor, name string) bool {
	for i := range outputs {
		if outputs[i].Name == name {
			return true
		}
	}
	return false
}

// pattern returns the shape an output should have as the backend sees it.
func (o *io) pattern(r *infer.Request, out *modelconfig.Output) tensor.Shape {
	dims := out.Dims
	if out.HasReshape {
		dims = out.Reshape
	}
	if !o.batching || out.ShapeTensor {
		return dims
	}
	batch := int64(r.BatchSize)
	if o.config.Decoupled { // a response may answer for a part of the batch
		batch = -1
	}
	return append(tensor.Shape{batch}, dims...)
}

func (o *io) checkOutput(r *infer.Request, t *tensor.Tensor, out *modelconfig.Output) *backend.Error {
	if t.Datatype != out.Datatype && !o.unchecked {
		return backend.Errorf(backend.Internal, "output '%s' of model '%s' has datatype %s, expected %s", t.Name, o.config.Name, t.Datatype, out.Datatype)
	}
	dims, from := t.Shape, out.Dims
	if out.HasReshape {
		from = out.Reshape
	}
	batching := o.batching && !out.ShapeTensor
	fits := true
	if batching {
		fits = len(dims) > 0 && (o.config.Decoupled || dims[0] == int64(r.BatchSize))
		if fits {
			dims = dims[1:]
		}
	}
	if !o.loose && (!fits || !dims.Matches(from)) || t.Shape.HasWildcard() {
		return backend.Errorf(backend.Internal, "output '%s' of model '%s' has shape %s, expected %s", t.Name, o.config.Name, t.Shape, o.pattern(r, out))
	}
	size, err := tensor.ByteSize(t.Datatype, t.Shape)
	if err != nil {
		return backend.Errorf(backend.Internal, "output '%s' of model '%s' has shape %s, which is too large", t.Name, o.config.Name, t.Shape)
	}
	if t.Datatype == tensor.Bytes {
		got, err := tensor.CountBytes(t.Data)
		if err != nil {
			return backend.Errorf(backend.Internal, "output '%s' of model '%s': %v", t.Name, o.config.Name, err)
		}
		if want := size / 4; int64(got) != want {
			return backend.Errorf(backend.Internal, "output '%s' of model '%s' has %d elements, expected %d for shape %s", t.Name, o.config.Name, got, want, t.Shape)
		}
	} else if int64(t.Size()) != size {
		return backend.Errorf(backend.Internal, "output '%s' of model '%s' has %d bytes, expected %d for shape %s", t.Name, o.config.Name, len(t.Data), size, t.Shape)
	}
	if out.HasReshape && fits && dims.Matches(from) {
		t.Shape = reshape(t.Shape, out.Reshape, out.Dims, batching)
	}
	return nil
}
