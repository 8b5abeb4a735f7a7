package remote

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"

	"github.com/nesoserve/neso/client"
	"github.com/nesoserve/neso/tensor"
)

// shownElements is how many elements of an output are printed for people.
const shownElements = 1000

// appendElements calls separate before each of the first limit elements of o
// and appends the element as JSON. It returns how many there were.
func appendElements(b []byte, o *client.Output, limit int, separate func(b []byte, i int) []byte) ([]byte, int) {
	if o.Datatype == tensor.Bytes {
		n := 0
		for i, e := range tensor.Elements(o.Data) {
			if n = i + 1; i < limit {
				text, _ := json.Marshal(string(e)) // a string never fails
				b = append(separate(b, i), text...)
			}
		}
		return b, n
	}
	size := o.Datatype.Size()
	n := len(o.Data) / size
	for i := range min(n, limit) {
		b = appendNumber(separate(b, i), o.Datatype, o.Data[i*size:(i+1)*size])
	}
	return b, n
}

// appendNumber appends one little-endian element; what is no number in JSON
// (NaN, Infinity) is written as the protocol does, without quotes.
func appendNumber(b []byte, d tensor.Datatype, e []byte) []byte {
	var bits uint64
	for i, v := range e {
		bits |= uint64(v) << (8 * i)
	}
	switch d {
	case tensor.Bool:
		return strconv.AppendBool(b, bits != 0)
	case tensor.Int8:
		return strconv.AppendInt(b, int64(int8(bits)), 10)
	case tensor.Int16:
		return strconv.AppendInt(b, int64(int16(bits)), 10)
	case tensor.Int32:
		return strconv.AppendInt(b, int64(int32(bits)), 10)
	case tensor.Int64:
		return strconv.AppendInt(b, int64(bits), 10)
	case tensor.FP16:
		return appendFloat(b, float64(tensor.FloatFP16(uint16(bits))), 32)
	case tensor.BF16:
		return appendFloat(b, float64(tensor.FloatBF16(uint16(bits))), 32)
	case tensor.FP32:
		return appendFloat(b, float64(math.Float32frombits(binary.LittleEndian.Uint32(e))), 32)
	case tensor.FP64:
		return appendFloat(b, math.Float64frombits(bits), 64)
	case tensor.Invalid, tensor.Bytes: // not numbers
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
	}
	return strconv.AppendUint(b, bits, 10)
}

func appendFloat(b []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits)
}

// appendNested appends the elements as nested lists, at most limit of them.
func appendNested(b []byte, o *client.Output, limit int) []byte {
	// strides[k] elements lie between two openings of the bracket at depth k.
	strides := make([]int, len(o.Shape))
	n := 1
	for k := len(o.Shape) - 1; k >= 0; k-- {
		n *= int(o.Shape[k])
		strides[k] = n
	}
	if n == 0 {
		return append(b, "[]"...)
	}
	brackets := func(i int) (count int) {
		for _, s := range strides {
			if i%s == 0 {
				count++
			}
		}
		return count
	}
	last := 0
	b, total := appendElements(b, o, limit, func(b []byte, i int) []byte {
		last = i
		count := brackets(i)
		if i > 0 {
			b = appendRepeated(b, ']', count)
			b = append(b, ", "...)
		}
		return appendRepeated(b, '[', count)
	})
	if last+1 < total {
		b = append(b, ", ... "...)
		b = strconv.AppendInt(b, int64(total), 10)
		b = append(b, " elements"...)
	}
	return appendRepeated(b, ']', len(o.Shape))
}

func appendRepeated(b []byte, c byte, n int) []byte {
	for range n {
		b = append(b, c)
	}
	return b
}

// appendResponse appends an answer as one line of JSON in the protocol's form.
func appendResponse(b []byte, resp *client.Response) []byte {
	text := func(s string) []byte { t, _ := json.Marshal(s); return t }
	b = append(append(b, `{"model_name":`...), text(resp.Model)...)
	b = append(append(b, `,"model_version":`...), text(resp.Version)...)
	if resp.ID != "" {
		b = append(append(b, `,"id":`...), text(resp.ID)...)
	}
	if len(resp.Parameters) > 0 {
		if parameters, err := json.Marshal(resp.Parameters); err == nil { // strings, numbers and booleans
			b = append(append(b, `,"parameters":`...), parameters...)
		}
	}
	b = append(b, `,"outputs":[`...)
	for i := range resp.Outputs {
		o := &resp.Outputs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, `{"name":`...), text(o.Name)...)
		b = append(append(b, `,"datatype":"`...), o.Datatype.String()...)
		b = append(append(b, `","shape":`...), o.Shape.String()...)
		b = append(b, `,"data":[`...)
		b, _ = appendElements(b, o, math.MaxInt, func(b []byte, i int) []byte {
			if i > 0 {
				b = append(b, ',')
			}
			return b
		})
		b = append(b, "]}"...)
	}
	return append(b, "]}\n"...)
}
