package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/tensor"
)

// The fields of inference.ModelInferRequest and the messages in it.
const (
	fieldModel      = 1
	fieldVersion    = 2
	fieldParameters = 4
	fieldInputs     = 5
	fieldOutputs    = 6
	fieldRaw        = 7

	mapKey, mapValue = 1, 2

	paramBool, paramInt64, paramString = 1, 2, 3

	inputName, inputDatatype, inputShape, inputParameters = 1, 2, 3, 4
	outputName, outputParameters                          = 1, 2
)

// GRPC encodes a step as an inference.ModelInferRequest, without gRPC's prefix.
func GRPC(c *Call, step *data.Step) *Prepared {
	p := &Prepared{Step: step}
	var b []byte
	if c.Sequence {
		b, p.id = appendPlace(b, "sequence_id", paramInt64, idVarint)
		b, p.start = appendPlace(b, "sequence_start", paramBool, 1)
		b, p.end = appendPlace(b, "sequence_end", paramBool, 1)
	}
	p.Head = b
	t := appendString(nil, fieldModel, c.Model)
	if c.Version != "" {
		t = appendString(t, fieldVersion, c.Version)
	}
	for _, v := range c.Parameters {
		t = appendMessage(t, fieldParameters, parameter(v.Name, v.Value))
	}
	if c.EmptyFinal {
		t = appendMessage(t, fieldParameters, parameter("triton_enable_empty_final_response", true))
	}
	for _, in := range step.Inputs {
		m := describe(in.Name, in.Datatype, in.Shape)
		if in.Region != "" {
			m = appendPlaceIn(m, inputParameters, in.Region, in.Offset, int64(len(in.Bytes)))
		}
		t = appendMessage(t, fieldInputs, m)
	}
	for _, o := range c.Outputs {
		m := appendString(nil, outputName, o.Name)
		if o.Region != "" {
			m = appendPlaceIn(m, outputParameters, o.Region, o.Offset, o.Size)
		}
		t = appendMessage(t, fieldOutputs, m)
	}
	for _, in := range step.Inputs {
		if in.Region == "" {
			t = appendMessage(t, fieldRaw, in.Bytes)
		}
	}
	p.Tail = t
	return p
}

// describe is the message of a tensor, without its parameters and contents.
func describe(name string, d tensor.Datatype, shape tensor.Shape) []byte {
	m := appendString(nil, inputName, name)
	m = appendString(m, inputDatatype, d.String())
	var dims []byte
	for _, n := range shape {
		dims = protowire.AppendVarint(dims, uint64(n))
	}
	return appendMessage(m, inputShape, dims)
}

// appendPlace appends a parameter whose value is kept free, and says where it is.
func appendPlace(b []byte, name string, kind protowire.Number, width int) ([]byte, int) {
	m := appendString(nil, mapKey, name)
	m = protowire.AppendTag(m, mapValue, protowire.BytesType)
	m = protowire.AppendVarint(m, uint64(1+width))
	m = protowire.AppendTag(m, kind, protowire.VarintType)
	m = append(m, make([]byte, width)...)
	b = appendMessage(b, fieldParameters, m)
	return b, len(b) - width
}

// appendPlaceIn appends the parameters that name a place in shared memory.
func appendPlaceIn(b []byte, field protowire.Number, region string, offset, size int64) []byte {
	b = appendMessage(b, field, parameter("shared_memory_region", region))
	b = appendMessage(b, field, parameter("shared_memory_byte_size", size))
	return appendMessage(b, field, parameter("shared_memory_offset", offset))
}

func parameter(name string, value any) []byte {
	var v []byte
	switch value := value.(type) {
	case bool:
		v = protowire.AppendVarint(protowire.AppendTag(nil, paramBool, protowire.VarintType), protowire.EncodeBool(value))
	case int64:
		v = protowire.AppendVarint(protowire.AppendTag(nil, paramInt64, protowire.VarintType), uint64(value))
	case string:
		v = appendString(nil, paramString, value)
	}
	return appendMessage(appendString(nil, mapKey, name), mapValue, v)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendMessage(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}
