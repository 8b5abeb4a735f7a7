package data

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/nesoserve/neso/tensor"
)

// appendValue appends the elements of a decoded JSON value, lists row by row.
func appendValue(b []byte, value any, d tensor.Datatype) ([]byte, error) {
	if list, ok := value.([]any); ok {
		for _, v := range list {
			var err error
			if b, err = appendValue(b, v, d); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	if d == tensor.Bytes {
		if s, ok := value.(string); ok {
			return tensor.AppendElement(b, s), nil
		}
		text, err := json.Marshal(value)
		return tensor.AppendElement(b, text), err
	}
	if d == tensor.Bool {
		switch v := value.(type) {
		case bool:
			return append(b, map[bool]byte{true: 1}[v]), nil
		case json.Number:
			return append(b, map[bool]byte{true: 1}[v.String() != "0"]), nil
		}
		return nil, fmt.Errorf("%v is no BOOL", value)
	}
	var text string
	switch v := value.(type) {
	case json.Number:
		text = v.String()
	case string: // NaN, Infinity
		text = v
	default:
		return nil, fmt.Errorf("%v is no %v", value, d)
	}
	e := make([]byte, d.Size())
	var err error
	switch d {
	case tensor.FP16, tensor.BF16, tensor.FP32, tensor.FP64:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		putFloat(e, d, f)
	case tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64:
		var n int64
		n, err = strconv.ParseInt(text, 10, 8*len(e))
		putBits(e, uint64(n))
	default:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 8*len(e))
		putBits(e, n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no %v", text, d)
	}
	return append(b, e...), nil
}

func putBits(e []byte, v uint64) {
	for k := range e {
		e[k] = byte(v >> (8 * k))
	}
}

func putFloat(e []byte, d tensor.Datatype, f float64) {
	switch d {
	case tensor.FP64:
		binary.LittleEndian.PutUint64(e, math.Float64bits(f))
	case tensor.FP32:
		binary.LittleEndian.PutUint32(e, math.Float32bits(float32(f)))
	case tensor.BF16:
		bits := math.Float32bits(float32(f))
		if f == f { // to the nearest, ties to even
			bits += 0x7fff + bits>>16&1
		}
		binary.LittleEndian.PutUint16(e, uint16(bits>>16))
	default:
		binary.LittleEndian.PutUint16(e, half(f))
	}
}

// half rounds to the nearest FP16, ties to even.
func half(f float64) uint16 {
	sign := uint16(math.Float64bits(f) >> 48 & 0x8000)
	a := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return sign | 0x7e00
	case a >= 65520:
		return sign | 0x7c00
	case a < 1.0/16384: // subnormal: multiples of 2^-24
		return sign | uint16(math.RoundToEven(a*(1<<24)))
	}
	fraction, exponent := math.Frexp(a) // a = fraction * 2^exponent, fraction in [0.5, 1)
	mantissa := uint16(math.RoundToEven(fraction * 2048))
	return sign | uint16(exponent+13)<<10 + mantissa
}

// FromJSON returns the elements of a JSON list in the protocol's bytes.
func FromJSON(raw []byte, d tensor.Datatype) ([]byte, error) { return readContent(raw, d) }
