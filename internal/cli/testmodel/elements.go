package testmodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nesoserve/neso/tensor"
)

// shown is how many elements of a tensor are printed.
const shown = 16

// printed prints the first elements of a tensor.
func printed(t *tensor.Tensor) string {
	head := *t
	total := 0
	if size := t.Datatype.Size(); size > 0 {
		total = len(t.Data) / size
		head.Data = t.Data[:min(total, shown)*size]
	}
	values := decode(&head)
	if t.Datatype == tensor.Bytes {
		total = len(values)
		values = values[:min(total, shown)]
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
		switch v := v.(type) {
		case string:
			words[i] = strconv.Quote(v)
		case float64:
			if t.Datatype == tensor.FP32 {
				words[i] = strconv.FormatFloat(v, 'g', -1, 32)
			}
		}
	}
	text := "[" + strings.Join(words, ", ") + "]"
	if total > len(values) {
		text += fmt.Sprintf(" and %d more", total-len(values))
	}
	return text
}

// decode returns the elements of a tensor: float64, int64, uint64, bool or
// string.
func decode(t *tensor.Tensor) []any {
	var all []any
	if t.Datatype == tensor.Bytes {
		for _, e := range tensor.Elements(t.Data) {
			if utf8.Valid(e) {
				all = append(all, string(e))
			} else {
				all = append(all, fmt.Sprintf("%x", e))
			}
		}
		return all
	}
	size := t.Datatype.Size()
	for i := 0; size > 0 && i+size <= len(t.Data); i += size {
		all = append(all, decodeOne(t.Datatype, t.Data[i:i+size]))
	}
	return all
}

func decodeOne(d tensor.Datatype, b []byte) any {
	le := binary.LittleEndian
	switch d {
	case tensor.Bool:
		return b[0] != 0
	case tensor.Uint8:
		return uint64(b[0])
	case tensor.Uint16:
		return uint64(le.Uint16(b))
	case tensor.Uint32:
		return uint64(le.Uint32(b))
	case tensor.Uint64:
		return le.Uint64(b)
	case tensor.Int8:
		return int64(int8(b[0]))
	case tensor.Int16:
		return int64(int16(le.Uint16(b)))
	case tensor.Int32:
		return int64(int32(le.Uint32(b)))
	case tensor.Int64:
		return int64(le.Uint64(b))
	case tensor.FP16:
		return float64(tensor.FloatFP16(le.Uint16(b)))
	case tensor.BF16:
		return float64(tensor.FloatBF16(le.Uint16(b)))
	case tensor.FP32:
		return float64(math.Float32frombits(le.Uint32(b)))
	default:
		return math.Float64frombits(le.Uint64(b))
	}
}
