package model

import (
	"fmt"
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

// CheckResponse drops outputs that the model does not have or, but with ExtraOutputs of
// its backend, the client did not ask for, and undoes reshapes. Outputs whose bytes do
// not fit their own datatype and shape make an error of the response; those that are not
// as configured, or missing, only with StrictOutputs: otherwise they are counted, and
// logged once each.
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
				hint = "without " + m.words.Name("strict-outputs") + " and the model's parameter " + paramStrict +
					" other datatypes and shapes, and missing outputs, pass, as with Triton"
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
}

// CountResponse counts a response of a decoupled model; an error only if the
// model was asked.
func (m *Model) CountResponse(r *infer.Request, resp *backend.Response, index int) {
	if !m.config.Decoupled || r.Cache.Hit || r.Cache.Joined || resp != nil && resp.Err != nil && r.Times.ComputeStart == 0 {
		return
	}
	m.stats.Response(r, resp, index)
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
	}
	failed := m.reported(r)
	if x, _ := r.Cache.Pending.(*pending); x != nil {
		m.settle(r, x)
	}
	if failed {
		m.stats.FinishFailed(r)
	} else {
		m.stats.Finish(r)
	}
	r.Times.Steps = nil
}

// reported has what the model itself says of a request count, the last of it, in place of
// what was measured. It says whether the model says that the request has failed.
func (m *Model) reported(r *infer.Request) (failed bool) {
	one, t := r.Report, &r.Times
	switch {
	case one == nil || t.ComputeStart == 0:
		return false
	case one.Failed:
		return true
	}
	queue := one.Times[0] - t.Queue
	if one.Times[0] > t.End || queue < 0 { // of no use
		queue, _, _, _ = t.Phases()
	}
	t.Steps = &[4]int64{queue}
	t.Steps[1], t.Steps[2], t.Steps[3] = one.Phases()
	return false
}

// oddities are all faults in the outputs of one response. A model's author sees
// them together, and need not try again to learn of the next one.
type oddities struct {
	outputs []string // that are not as configured
	texts   []string // about them
	broken  []string // about those that are no tensors at all
}

func (o *oddities) add(output, format string, args ...any) {
	o.outputs = append(o.outputs, output)
	o.texts = append(o.texts, fmt.Sprintf(format, args...))
}

func (o *oddities) breaks(format string, args ...any) {
	o.broken = append(o.broken, fmt.Sprintf(format, args...))
}

// mostOddities bounds what one message names.
const mostOddities = 32

// listed joins texts to one line.
func listed(texts []string) string {
	if more := len(texts) - mostOddities; more > 0 {
		return strings.Join(texts[:mostOddities], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(texts, "; ")
}

func (o *io) checkResponse(r *infer.Request, resp *backend.Response) *backend.Error {
	kept := resp.Outputs[:0]
	var odd oddities
	for i := range resp.Outputs {
		t := resp.Outputs[i]
		out := o.output(t.Name, i)
		if out == nil || !wants(r, o, t.Name) || o.strict && has(kept, t.Name) {
			t.Release()
			continue
		}
		o.checkOutput(r, &t, out, &odd)
		kept = append(kept, t)
	}
	clear(resp.Outputs[len(kept):])
	resp.Outputs = kept
	o.checkMissing(r, kept, &odd)
	switch {
	case o.strict && len(odd.texts)+len(odd.broken) > 0:
		return backend.Errorf(backend.Internal, "%s", listed(append(odd.texts, odd.broken...)))
	case len(odd.texts) > 0:
		o.odd(odd.outputs, listed(odd.texts))
	}
	if len(odd.broken) > 0 {
		return backend.Errorf(backend.Internal, "%s", listed(odd.broken))
	}
	return nil
}

// checkMissing finds outputs that were asked for and are not there.
func (o *io) checkMissing(r *infer.Request, kept []tensor.Tensor, odd *oddities) {
	needed := asked(r)
	if o.loose || o.config.Decoupled || len(kept) >= len(needed) {
		return
	}
	for _, name := range needed[:len(needed)-r.Spare] {
		if !has(kept, name) && o.countOdd(name) {
			out := o.config.Output(name)
			odd.add(name, "model '%s' returned no output '%s', expected one of datatype %s and shape %s", o.config.Name, name, out.Datatype,
				o.pattern(r, out))
		}
	}
}

// countOdd counts an output that is not as configured and reports whether that is to
// be told: as an error, or the first time in the log.
func (o *io) countOdd(output string) bool {
	return o.strict || o.stats != nil && o.stats.OddOutput(output)
}

// output returns an output's configuration, or nil; guess is where it may be.
func (o *io) output(name string, guess int) *modelconfig.Output {
	if guess < len(o.config.Outputs) && o.config.Outputs[guess].Name == name {
		return &o.config.Outputs[guess]
	}
	return o.config.Output(name)
}

// wants reports whether an output that the model has goes to the client: the request asked
// for it, or it is an extra one and none that the server has asked for.
func wants(r *infer.Request, o *io, name string) bool {
	return o.asks(r, name) || o.extras && !slices.Contains(r.Requested, name)
}

// asks reports whether the request asked for an output that the model has.
func (o *io) asks(r *infer.Request, name string) bool {
	return o.wantsAll(r) || slices.Contains(asked(r), name)
}

// asked returns the outputs that go to the client.
func asked(r *infer.Request) []string { return r.Requested[:len(r.Requested)-r.Hidden] }

// wantsAll reports whether the request named no outputs, which means all.
func (o *io) wantsAll(r *infer.Request) bool {
	return len(r.Requested) == len(o.requested) && len(o.requested) > 0 && &r.Requested[0] == &o.requested[0]
}

func hasAll(outputs []tensor.Tensor, names []string) bool {
	for _, name := range names {
		if !has(outputs, name) {
			return false
		}
	}
	return true
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

func (o *io) checkOutput(r *infer.Request, t *tensor.Tensor, out *modelconfig.Output, odd *oddities) {
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
	malformed := t.Shape.HasWildcard()
	retyped, reshaped := t.Datatype != out.Datatype && t.Datatype.Valid(), !fits && !o.loose && !malformed
	if (retyped || reshaped) && o.countOdd(t.Name) {
		switch {
		case !reshaped:
			odd.add(t.Name, "output '%s' of model '%s' has datatype %s, expected %s", t.Name, o.config.Name, t.Datatype, out.Datatype)
		case !retyped:
			odd.add(t.Name, "output '%s' of model '%s' has shape %s, expected %s", t.Name, o.config.Name, t.Shape, o.pattern(r, out))
		default:
			odd.add(t.Name, "output '%s' of model '%s' has datatype %s and shape %s, expected %s and %s", t.Name, o.config.Name, t.Datatype, t.Shape,
				out.Datatype, o.pattern(r, out))
		}
	}
	if o.broken(r, t, out, malformed, odd) {
		return
	}
	if out.HasReshape {
		o.undo(t, out, batching, fits)
	}
}

// broken finds a tensor whose bytes do not fit its own datatype and shape.
func (o *io) broken(r *infer.Request, t *tensor.Tensor, out *modelconfig.Output, malformed bool, odd *oddities) bool {
	if !t.Datatype.Valid() {
		odd.breaks("output '%s' of model '%s' has datatype %s, expected %s", t.Name, o.config.Name, t.Datatype, out.Datatype)
		return true
	}
	if malformed {
		odd.breaks("output '%s' of model '%s' has shape %s, expected %s", t.Name, o.config.Name, t.Shape, o.pattern(r, out))
		return true
	}
	size, err := tensor.ByteSize(t.Datatype, t.Shape)
	if err != nil {
		odd.breaks("output '%s' of model '%s' has shape %s, which is too large", t.Name, o.config.Name, t.Shape)
		return true
	}
	if t.Datatype != tensor.Bytes {
		if int64(t.Size()) != size {
			odd.breaks("output '%s' of model '%s' has %d bytes, expected %d for shape %s", t.Name, o.config.Name, len(t.Data), size, t.Shape)
			return true
		}
		return false
	}
	got, err := tensor.CountBytes(t.Data)
	if err != nil {
		odd.breaks("output '%s' of model '%s': %v", t.Name, o.config.Name, err)
		return true
	}
	if want := size / 4; int64(got) != want {
		odd.breaks("output '%s' of model '%s' has %d elements, expected %d for shape %s", t.Name, o.config.Name, got, want, t.Shape)
		return true
	}
	return false
}

// undo gives an output the configured shape in place of the reshaped one. One
// that does not fit gets it too where it has as many elements, as with the peer.
func (o *io) undo(t *tensor.Tensor, out *modelconfig.Output, batching, fits bool) {
	rank := len(out.Reshape)
	if batching {
		rank++
	}
	if len(t.Shape) < rank {
		return
	}
	shape := reshape(t.Shape, out.Reshape, out.Dims, batching)
	has, _ := t.Shape.Elements() // its bytes were counted
	if n, err := shape.Elements(); fits || err == nil && n == has {
		t.Shape = shape
	}
}
