package sequence

import (
	"encoding/binary"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// controls makes the control tensors of a model: further inputs that tell it
// where a request stands in its sequence. Their data is constant and shared by
// all requests, except for the correlation ID.
type controls []control

type control struct {
	kind    kind
	on, off tensor.Tensor // for a correlation ID both are the same, without data
}

type kind uint8

const (
	startControl kind = iota
	endControl
	readyControl
	correlationControl
)

// Wire names of the kinds.
var kinds = map[string]kind{
	"CONTROL_SEQUENCE_START": startControl, "CONTROL_SEQUENCE_END": endControl,
	"CONTROL_SEQUENCE_READY": readyControl, "CONTROL_SEQUENCE_CORRID": correlationControl,
}

func newControls(c *modelconfig.SequenceBatching, batching bool) controls {
	shape := tensor.Shape{1}
	if batching {
		shape = tensor.Shape{1, 1}
	}
	var all controls
	for _, in := range c.Controls {
		t := tensor.Tensor{Name: in.Input, Datatype: in.Datatype, Shape: shape}
		k := control{kind: kinds[in.Kind], on: t, off: t}
		k.on.Data, k.off.Data = in.True, in.False
		all = append(all, k)
	}
	return all
}

// check refuses a correlation ID that does not fit its control.
func (c controls) check(r *infer.Request, model string) *backend.Error {
	for i := range c {
		if c[i].kind != correlationControl || (c[i].on.Datatype == tensor.Bytes) == (r.Correlation.Text != "") {
			continue
		}
		has := tensor.Uint64
		if r.Correlation.Text != "" {
			has = tensor.Bytes
		}
		return backend.Errorf(backend.InvalidArg, "%ssequence batching control '%s' data-type is '%s', but model '%s' expects '%s'",
			r.LogPrefix(), c[i].on.Name, has, model, c[i].on.Datatype)
	}
	return nil
}

// add appends the control tensors to the inputs of a request.
func (c controls) add(inputs []tensor.Tensor, flags backend.Flags, present bool, id backend.CorrelationID) []tensor.Tensor {
	for i := range c {
		t := c[i].off
		switch c[i].kind {
		case startControl:
			if flags&backend.SequenceStart != 0 {
				t = c[i].on
			}
		case endControl:
			if flags&backend.SequenceEnd != 0 {
				t = c[i].on
			}
		case readyControl:
			if present {
				t = c[i].on
			}
		case correlationControl:
			t.Data = correlationData(t.Datatype, id)
		}
		inputs = append(inputs, t)
	}
	return inputs
}

// correlationData is an ID in the datatype of its control; 32 bits hold the low
// half of a number.
func correlationData(d tensor.Datatype, id backend.CorrelationID) []byte {
	switch d {
	case tensor.Bytes:
		return tensor.AppendElement(make([]byte, 0, 4+len(id.Text)), id.Text)
	case tensor.Int32, tensor.Uint32:
		return binary.LittleEndian.AppendUint32(make([]byte, 0, 4), uint32(id.Number))
	default:
		return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), id.Number)
	}
}

// Sample returns what a request that is a whole sequence gets beside its
// inputs, for warm-up: the control tensors and the first state.
func Sample(c *modelconfig.SequenceBatching, first []State, batching bool) []tensor.Tensor {
	all := newControls(c, batching)
	id := backend.CorrelationID{Number: 1}
	for i := range all {
		if all[i].kind == correlationControl && all[i].on.Datatype == tensor.Bytes {
			id = backend.CorrelationID{Text: "1"}
		}
	}
	return (&states{list: first}).first(all.add(nil, backend.SequenceStart|backend.SequenceEnd, true, id))
}
