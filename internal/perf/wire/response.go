package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/tensor"
)

// The fields of inference.ModelInferResponse and ModelStreamInferResponse.
const (
	streamError, streamResponse = 1, 2

	responseParameters, responseOutputs, responseRaw = 4, 5, 6
)

// each calls yield with the fields of a message that have a length; it ends at the
// first fault.
func each(b []byte, yield func(field protowire.Number, value []byte)) {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, b); n < 0 {
				return
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return
		}
		yield(field, value)
		b = b[n:]
	}
}

// StreamResponse takes an inference.ModelStreamInferResponse apart: the response in
// it, the error it tells, and whether the response says that it is the last.
func StreamResponse(m []byte) (response []byte, text string, final bool) {
	each(m, func(field protowire.Number, value []byte) {
		switch field {
		case streamError:
			text = string(value)
		case streamResponse:
			response = value
		default:
		}
	})
	each(response, func(field protowire.Number, value []byte) {
		if field != responseParameters {
			return
		}
		named := false
		each(value, func(field protowire.Number, value []byte) {
			switch {
			case field == mapKey:
				named = string(value) == "triton_final_response"
			case field == mapValue && named:
				final = len(value) == 2 && value[1] == 1
			}
		})
	})
	return response, text, final
}

// Empty reports whether a response has no output.
func Empty(response []byte) bool {
	empty := true
	each(response, func(field protowire.Number, _ []byte) { empty = empty && field != responseOutputs })
	return empty
}

// Outputs returns the outputs of an inference.ModelInferResponse with raw contents.
func Outputs(response []byte) ([]data.Tensor, error) {
	var out []data.Tensor
	var raw [][]byte
	each(response, func(field protowire.Number, value []byte) {
		switch field {
		case responseOutputs:
			out = append(out, output(value))
		case responseRaw:
			raw = append(raw, value)
		default:
		}
	})
	if len(raw) != len(out) {
		return nil, fmt.Errorf("%d outputs with %d contents", len(out), len(raw))
	}
	for i := range out {
		out[i].Bytes = raw[i]
	}
	return out, nil
}

func output(m []byte) (t data.Tensor) {
	each(m, func(field protowire.Number, value []byte) {
		switch field {
		case inputName:
			t.Name = string(value)
		case inputDatatype:
			t.Datatype = tensor.LookupDatatype(string(value))
		case inputShape:
			for len(value) > 0 {
				d, n := protowire.ConsumeVarint(value)
				if n < 0 {
					return
				}
				t.Shape = append(t.Shape, int64(d))
				value = value[n:]
			}
		default:
		}
	})
	return t
}

// AppendResponse appends what Outputs reads of an inference.ModelInferResponse.
func AppendResponse(b []byte, outputs []tensor.Tensor) []byte {
	for _, o := range outputs {
		b = appendMessage(b, responseOutputs, describe(o.Name, o.Datatype, o.Shape))
	}
	for _, o := range outputs {
		b = appendMessage(b, responseRaw, o.Data)
	}
	return b
}
