package model

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// paramStrict is the parameter of a model configuration that overrides
// Options.StrictOutputs.
const paramStrict = "strict_outputs"

// strictOutputs says whether outputs that are not as configured are errors. Those
// of a backend that asks for it always are.
func strictOutputs(c *modelconfig.Config, o *Options) (bool, error) {
	strict := o.StrictOutputs
	if v, ok := c.Parameters[paramStrict]; ok {
		var err error
		if strict, err = strconv.ParseBool(strings.ToLower(v)); err != nil {
			return false, backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s' is '%s', expected true or false", paramStrict, c.Name, v)
		}
	}
	return strict || o.Backend != nil && o.Backend.Capabilities().StrictOutputs, nil
}

// CheckResponse drops outputs that the model does not have or the client did
// not ask for, and undoes reshapes. Outputs whose bytes do not fit their own
// datatype and shape make an error of the response; those that are not as
// configured, or missing, only with StrictOutputs: otherwise they are counted,
// and logged once each.
func (m *Model) CheckResponse(r *infer.Request, resp *backend.Response) {
	if r.Cache.Hit || r.Cache.Joined {
		return
	}
	if err := m.io.checkResponse(r, resp); err != nil {
		resp.Err = err
		hint := "its bytes do not fit its own datatype and shape"
		if m.io.strict {
			lenient := m.io
			lenient.strict, lenient.loose = false, true
			lenient.odd, lenient.stats = nil, nil
			if lenient.checkResponse(r, resp) == nil {
				hint = "without --strict-outputs and the model's parameter " + paramStrict + " other datatypes and shapes, and missing outputs, pass, as with Triton"
			}
		}
		m.logger.Error("response refused", "error", err.Message, "model", m.config.Name, "version", m.version, "request_id", r.ID, "hint", hint)
	}
	if x, _ := r.Cache.Pending.(*pending); x != nil && resp.Err == nil {
		m.keep(r, x, resp)
	}
	if resp.Err == nil && r.Responses() == 1 {
		m.stats.FirstResponse(backend.Now() - r.Times.Start)
	}
	if m.config.Decoupled && resp.Err == nil {
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
		if out == nil || !wants(r, o, t.Name) || o.strict && has(kept, t.Name) {
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
		if has(kept, name) || !o.tells(name) {
			continue
		}
		err := backend.Errorf(backend.Internal, "model '%s' returned no output '%s', expected one of datatype %s and shape %s",
			o.config.Name, name, o.config.Output(name).Datatype, o.pattern(r, o.config.Output(name)))
		if err = o.tell(name, err); err != nil {
			return err
		}
	}
	return nil
}

// tells counts an output that is not as configured and says whether that is to
// be told: as an error, or the first time in the log.
func (o *io) tells(output string) bool {
	return o.strict || o.stats != nil && o.stats.OddOutput(output)
}

// tell returns the error, or only logs it.
func (o *io) tell(output string, err *backend.Error) *backend.Error {
	if o.strict {
		return err
	}
	o.odd(output, err)
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
	fits = fits && dims.Matches(from)
	if t.Datatype != out.Datatype && (!t.Datatype.Valid() || o.tells(t.Name)) {
		err := backend.Errorf(backend.Internal, "output '%s' of model '%s' has datatype %s, expected %s", t.Name, o.config.Name, t.Datatype, out.Datatype)
		if !t.Datatype.Valid() || o.tell(t.Name, err) != nil {
			return err
		}
	}
	malformed := t.Shape.HasWildcard()
	if malformed || !fits && !o.loose && (o.strict || t.Datatype == out.Datatype) && o.tells(t.Name) {
		err := backend.Errorf(backend.Internal, "output '%s' of model '%s' has shape %s, expected %s", t.Name, o.config.Name, t.Shape, o.pattern(r, out))
		if malformed || o.tell(t.Name, err) != nil {
			return err
		}
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
	if out.HasReshape && fits {
		t.Shape = reshape(t.Shape, out.Reshape, out.Dims, batching)
	}
	return nil
}
