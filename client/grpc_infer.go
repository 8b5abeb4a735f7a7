package client

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of inference.ModelInferRequest and the messages in it.
const (
	requestModel      = 1
	requestVersion    = 2
	requestID         = 3
	requestParameters = 4
	requestInputs     = 5
	requestOutputs    = 6
	requestRaw        = 7

	mapKey, mapValue = 1, 2

	choiceBool, choiceInt64, choiceString, choiceDouble, choiceUint64 = 1, 2, 3, 4, 5

	tensorName, tensorDatatype, tensorShape, tensorParameters, tensorContents = 1, 2, 3, 4, 5

	wantedParameters = 2
)

func (g *overGRPC) infer(ctx context.Context, q *Request) (*Response, error) {
	m, err := encodeProto(q)
	if err != nil {
		return nil, err
	}
	b, err := g.invoke(ctx, "ModelInfer", m, q.Header)
	if err != nil {
		return nil, err
	}
	r, err := decodeProto(b, q.OutputRegions)
	if err != nil {
		return nil, fmt.Errorf("the answer of %s: %w", g.c.URL, err)
	}
	r.Final = true
	return r, nil
}

// inlined is how many bytes of a tensor are copied rather than sent from where they
// lie.
const inlined = 1 << 10

// encodeProto returns an inference.ModelInferRequest, in which large tensors are the
// memory of their inputs.
func encodeProto(q *Request) (mem.BufferSlice, error) {
	parameters, err := q.parameters()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, sizeHint(q))
	b = appendText(b, requestModel, q.Model)
	b = appendText(b, requestVersion, q.Version)
	b = appendText(b, requestID, q.ID)
	b = appendParameters(b, requestParameters, parameters)
	for i := range q.Inputs {
		in := &q.Inputs[i]
		b = appendBlock(b, requestInputs, func(b []byte) []byte { return appendInput(b, in) })
	}
	for _, name := range q.Outputs {
		if _, other := q.Classes[name]; !other {
			b = appendWanted(b, name, nil)
		}
	}
	for _, name := range sorted(q.Classes) {
		b = appendWanted(b, name, map[string]any{paramClasses: int64(q.Classes[name])})
	}
	for _, name := range sorted(q.OutputRegions) {
		region := q.OutputRegions[name]
		b = appendWanted(b, name, region.parameters())
	}
	return appendTensors(b, q)
}

// appendTensors puts the bytes of the inputs behind the head of a request.
func appendTensors(b []byte, q *Request) (mem.BufferSlice, error) {
	var all mem.BufferSlice
	for i := range q.Inputs {
		in := &q.Inputs[i]
		if in.Region != nil {
			continue
		}
		data, err := in.bytes()
		if err != nil {
			return nil, err
		}
		b = protowire.AppendVarint(protowire.AppendTag(b, requestRaw, protowire.BytesType), uint64(len(data)))
		if len(data) <= inlined {
			b = append(b, data...)
			continue
		}
		all = append(all, mem.SliceBuffer(b), mem.SliceBuffer(data))
		b = nil
	}
	if len(b) > 0 {
		all = append(all, mem.SliceBuffer(b))
	}
	return all, nil
}

func sizeHint(q *Request) int {
	n := 64 + len(q.Model) + len(q.ID) + 64*(len(q.Parameters)+len(q.Outputs)+len(q.Inputs))
	for i := range q.Inputs {
		if k := len(q.Inputs[i].Data); k <= inlined {
			n += k
		}
	}
	return n
}

func appendInput(b []byte, in *Input) []byte {
	b = appendText(b, tensorName, in.Name)
	b = appendText(b, tensorDatatype, in.Datatype.String())
	b = appendBlock(b, tensorShape, func(b []byte) []byte {
		for _, d := range in.Shape {
			b = protowire.AppendVarint(b, uint64(d))
		}
		return b
	})
	if in.Region != nil {
		b = appendParameters(b, tensorParameters, in.Region.parameters())
	}
	return b
}

func appendWanted(b []byte, name string, parameters map[string]any) []byte {
	return appendBlock(b, requestOutputs, func(b []byte) []byte {
		return appendParameters(appendText(b, tensorName, name), wantedParameters, parameters)
	})
}

// appendText leaves out what is empty, as is the way of the format.
func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// appendBlock appends a message, or packed numbers, behind its length.
func appendBlock(b []byte, field protowire.Number, content func(b []byte) []byte) []byte {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0) // a length of one byte, mostly
	at := len(b)
	b = content(b)
	n := len(b) - at
	if n < 1<<7 {
		b[at-1] = byte(n)
		return b
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	b = append(b, make([]byte, more)...)
	copy(b[at+more:], b[at:at+n])
	protowire.AppendVarint(b[:at-1], uint64(n))
	return b
}

func appendParameters(b []byte, field protowire.Number, all map[string]any) []byte {
	for name, value := range all {
		b = appendBlock(b, field, func(b []byte) []byte {
			b = protowire.AppendString(protowire.AppendTag(b, mapKey, protowire.BytesType), name)
			return appendBlock(b, mapValue, func(b []byte) []byte { return appendChoice(b, name, value) })
		})
	}
	return b
}

func appendChoice(b []byte, name string, value any) []byte {
	switch x := value.(type) {
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(b, choiceBool, protowire.VarintType), protowire.EncodeBool(x))
	case int64:
		return protowire.AppendVarint(protowire.AppendTag(b, choiceInt64, protowire.VarintType), uint64(x))
	case uint64:
		choice := protowire.Number(choiceInt64) // of a sequence the server takes its bits, of others it has no other
		if name == paramPriority || x > math.MaxInt64 && name != paramSequenceID {
			choice = choiceUint64
		}
		return protowire.AppendVarint(protowire.AppendTag(b, choice, protowire.VarintType), x)
	case float64:
		return protowire.AppendFixed64(protowire.AppendTag(b, choiceDouble, protowire.Fixed64Type), math.Float64bits(x))
	case string:
		return protowire.AppendString(protowire.AppendTag(b, choiceString, protowire.BytesType), x)
	}
	return b
}
