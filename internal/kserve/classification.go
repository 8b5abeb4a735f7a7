package kserve

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// maxClassified bounds the elements of an output that is to be classified: the
// answer is many times larger than the tensor.
const maxClassified = 1_000_000

// Classify replaces an output by its top n classes: a BYTES tensor of
// "value:index" or "value:index:label", values descending, per batch item when
// the model batches. It releases the memory of the original.
func Classify(t *tensor.Tensor, n uint64, batches bool, labels []string) *backend.Error {
	switch t.Datatype {
	case tensor.Bytes, tensor.FP16, tensor.BF16, tensor.Bool, tensor.Invalid:
		return Invalid("class result not available for output due to unsupported type '" + t.Datatype.String() + "'")
	default:
	}
	total := len(t.Data) / t.Datatype.Size()
	if total > maxClassified {
		return Invalid("classification output tensor too large")
	}
	items, shape := 1, tensor.Shape{}
	if batches && len(t.Shape) > 0 {
		items = int(min(t.Shape[0], int64(total)))
		shape = append(shape, t.Shape[0])
	}
	each := 0
	if items > 0 {
		each = total / items
	}
	top := int(min(n, uint64(each)))
	var out []byte
	order := make([]int, each)
	for item := range items {
		data := t.Data[item*each*t.Datatype.Size():]
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return compareElements(t.Datatype, data, b, a) })
		for _, i := range order[:top] {
			at := len(out)
			out = append(out, 0, 0, 0, 0)
			out = appendElement(out, t.Datatype, data, i)
			out = append(out, ':')
			out = strconv.AppendInt(out, int64(i), 10)
			if i < len(labels) {
				out = append(out, ':')
				out = append(out, labels[i]...)
			}
			binary.LittleEndian.PutUint32(out[at:], uint32(len(out)-at-4))
		}
	}
	t.Release()
	t.Datatype, t.Shape, t.Data = tensor.Bytes, append(shape, int64(top)), out
	return nil
}

// compareElements orders two elements; NaN comes below everything.
func compareElements(d tensor.Datatype, data []byte, i, j int) int {
	switch d {
	case tensor.FP32, tensor.FP64:
		return cmp.Compare(floatElement(d, data, i), floatElement(d, data, j))
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return cmp.Compare(uintElement(d, data, i), uintElement(d, data, j))
	default:
		return cmp.Compare(intElement(d, data, i), intElement(d, data, j))
	}
}

// appendElement prints an element as C++ does: floats with six decimals.
func appendElement(b []byte, d tensor.Datatype, data []byte, i int) []byte {
	switch d {
	case tensor.FP32, tensor.FP64:
		f := floatElement(d, data, i)
		switch {
		case f != f:
			return append(b, "nan"...)
		case math.IsInf(f, 1):
			return append(b, "inf"...)
		case math.IsInf(f, -1):
			return append(b, "-inf"...)
		}
		return strconv.AppendFloat(b, f, 'f', 6, 64)
	case tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64:
		return strconv.AppendUint(b, uintElement(d, data, i), 10)
	default:
		return strconv.AppendInt(b, intElement(d, data, i), 10)
	}
}

func floatElement(d tensor.Datatype, data []byte, i int) float64 {
	if d == tensor.FP32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
}

func uintElement(d tensor.Datatype, data []byte, i int) uint64 {
	switch d.Size() {
	case 1:
		return uint64(data[i])
	case 2:
		return uint64(binary.LittleEndian.Uint16(data[2*i:]))
	case 4:
		return uint64(binary.LittleEndian.Uint32(data[4*i:]))
	default:
		return binary.LittleEndian.Uint64(data[8*i:])
	}
}

func intElement(d tensor.Datatype, data []byte, i int) int64 {
	u := uintElement(d, data, i)
	shift := 64 - 8*d.Size()
	return int64(u<<shift) >> shift
}
