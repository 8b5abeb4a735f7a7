package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/tensor"
)

// The fields of inference.ModelInferResponse and ModelStreamInferResponse.
const (
	responseModel      = 1
	responseVersion    = 2
	responseID         = 3
	responseParameters = 4
	responseOutputs    = 5
	responseRaw        = 6

	streamError, streamResponse = 1, 2
)

var errMessage = errors.New("it is no message of the protocol")

// fields calls each with the fields of a message: number is that of a varint or a
// fixed one, value what has a length.
func fields(b []byte, each func(field protowire.Number, kind protowire.Type, number uint64, value []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMessage
		}
		b = b[n:]
		var number uint64
		var value []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			number, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return errMessage
		}
		b = b[n:]
		if err := each(field, kind, number, value); err != nil {
			return err
		}
	}
	return nil
}

// decodeProto takes an inference.ModelInferResponse apart; outputs are parts of it.
func decodeProto(b []byte, regions map[string]Region) (*Response, error) {
	r := &Response{}
	var raw, contents [][]byte
	err := fields(b, func(field protowire.Number, kind protowire.Type, _ uint64, value []byte) (err error) {
		if kind != protowire.BytesType {
			return nil
		}
		switch field {
		case responseModel:
			r.Model = string(value)
		case responseVersion:
			r.Version = string(value)
		case responseID:
			r.ID = string(value)
		case responseParameters:
			if r.Parameters == nil {
				r.Parameters = map[string]any{}
			}
			err = decodeParameter(value, r.Parameters)
		case responseOutputs:
			var o Output
			var elements []byte
			o, elements, err = decodeOutput(value)
			r.Outputs, contents = append(r.Outputs, o), append(contents, elements)
		case responseRaw:
			raw = append(raw, slices.Clip(value))
		default:
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if final, ok := r.Parameters[paramFinal].(bool); ok {
		r.Final = final
	}
	if len(raw) > 0 && len(raw) != len(r.Outputs) {
		return nil, fmt.Errorf("%d outputs with %d contents", len(r.Outputs), len(raw))
	}
	for i := range r.Outputs {
		o := &r.Outputs[i]
		if region, ok := regions[o.Name]; ok && (len(raw) == 0 || len(raw[i]) == 0) {
			o.Region = &region
			continue
		}
		if len(raw) > 0 {
			o.Data = raw[i]
		} else if o.Data, err = fromContents(o, contents[i]); err != nil {
			return nil, err
		}
		if err := checkOutput(o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func decodeOutput(b []byte) (o Output, contents []byte, err error) {
	o.Shape = tensor.Shape{}
	err = fields(b, func(field protowire.Number, kind protowire.Type, number uint64, value []byte) (err error) {
		switch {
		case field == tensorName && kind == protowire.BytesType:
			o.Name = string(value)
		case field == tensorDatatype && kind == protowire.BytesType:
			if o.Datatype = tensor.LookupDatatype(string(value)); o.Datatype == tensor.Invalid {
				return fmt.Errorf("output %q: unknown datatype %.40q", o.Name, value)
			}
		case field == tensorShape && kind == protowire.VarintType:
			o.Shape = append(o.Shape, int64(number))
		case field == tensorShape && kind == protowire.BytesType:
			for len(value) > 0 {
				d, n := protowire.ConsumeVarint(value)
				if n < 0 {
					return errMessage
				}
				o.Shape, value = append(o.Shape, int64(d)), value[n:]
			}
		case field == tensorContents && kind == protowire.BytesType:
			contents = append(slices.Clip(contents), value...) // parts of one message are one
		}
		return nil
	})
	if err == nil && o.Datatype == tensor.Invalid {
		err = fmt.Errorf("output %q has no datatype", o.Name)
	}
	return o, contents, err
}

func decodeParameter(b []byte, into map[string]any) error {
	name, value := "", any(nil)
	err := fields(b, func(field protowire.Number, kind protowire.Type, _ uint64, content []byte) error {
		if kind != protowire.BytesType {
			return nil
		}
		if field == mapKey {
			name = string(content)
			return nil
		}
		if field != mapValue {
			return nil
		}
		return fields(content, func(field protowire.Number, kind protowire.Type, number uint64, content []byte) error {
			switch {
			case field == choiceBool && kind == protowire.VarintType:
				value = number != 0
			case field == choiceInt64 && kind == protowire.VarintType:
				value = int64(number)
			case field == choiceUint64 && kind == protowire.VarintType:
				value = number
			case field == choiceDouble && kind == protowire.Fixed64Type:
				value = math.Float64frombits(number)
			case field == choiceString && kind == protowire.BytesType:
				value = string(content)
			}
			return nil
		})
	})
	into[name] = value
	return err
}

// fromContents makes bytes of elements that a server gives one by one, as servers
// other than Triton may.
func fromContents(o *Output, b []byte) ([]byte, error) {
	c := &inferencepb.InferTensorContents{}
	if err := proto.Unmarshal(b, c); err != nil {
		return nil, errMessage
	}
	var data []byte
	for _, v := range c.GetBoolContents() {
		data = append(data, byte(protowire.EncodeBool(v)))
	}
	for _, v := range c.GetIntContents() {
		data = appendWord(data, o.Datatype, uint64(int64(v)))
	}
	for _, v := range c.GetInt64Contents() {
		data = appendWord(data, o.Datatype, uint64(v))
	}
	for _, v := range c.GetUintContents() {
		data = appendWord(data, o.Datatype, uint64(v))
	}
	for _, v := range c.GetUint64Contents() {
		data = appendWord(data, o.Datatype, v)
	}
	for _, v := range c.GetFp32Contents() {
		data = appendWord(data, o.Datatype, uint64(math.Float32bits(v)))
	}
	for _, v := range c.GetFp64Contents() {
		data = appendWord(data, o.Datatype, math.Float64bits(v))
	}
	for _, v := range c.GetBytesContents() {
		data = tensor.AppendElement(data, v)
	}
	return data, nil
}

// appendWord appends as many bytes of a number as an element of the datatype has.
func appendWord(b []byte, d tensor.Datatype, n uint64) []byte {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], n)
	return append(b, word[:d.Size()]...)
}

// decodeStreamed takes an inference.ModelStreamInferResponse apart: a response, or
// the *Error in its place.
func decodeStreamed(b []byte, regions map[string]Region) (*Response, error) {
	var text string
	var response []byte
	err := fields(b, func(field protowire.Number, kind protowire.Type, _ uint64, value []byte) error {
		switch {
		case kind != protowire.BytesType:
		case field == streamError:
			text = string(value)
		case field == streamResponse:
			response = value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	id, err := responseIDOf(response)
	if err != nil {
		return nil, err
	}
	if text != "" {
		return nil, &Error{Status: http.StatusOK, Message: text, RequestID: id, grpc: true}
	}
	return decodeProto(response, regions)
}

func responseIDOf(b []byte) (id string, err error) {
	err = fields(b, func(field protowire.Number, kind protowire.Type, _ uint64, value []byte) error {
		if field == responseID && kind == protowire.BytesType {
			id = string(value)
		}
		return nil
	})
	return id, err
}

// firstTensor returns where the bytes of the first tensor begin in a message of which
// b is the beginning, 0 if that cannot be seen there.
func firstTensor(b []byte, streamed bool) int {
	for at := 0; at < len(b); {
		field, kind, n := protowire.ConsumeTag(b[at:])
		if n < 0 || kind != protowire.BytesType {
			return 0
		}
		at += n
		size, n := protowire.ConsumeVarint(b[at:])
		if n < 0 {
			return 0
		}
		at += n
		switch {
		case streamed && field == streamResponse:
			return at + firstTensor(b[at:], false)
		case !streamed && field == responseRaw:
			return at
		case size > uint64(len(b)-at):
			return 0
		}
		at += int(size)
	}
	return 0
}
