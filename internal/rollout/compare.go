package rollout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/nesoserve/neso/tensor"
)

// Outcome is what has become of a copy of a request.
type Outcome uint8

// The outcomes.
const (
	Equal     Outcome = iota // both answers are the same, bit by bit
	Close                    // their numbers differ within the tolerance
	Different                // they differ beyond it, or in names, datatypes or shapes
	Failed                   // the version that was sent the copy failed, the other did not
	Skipped                  // there is nothing to compare with: the client's request failed or was cancelled
	Dropped                  // it was never sent: the queue was full, or there was no memory for it
	Outcomes
)

// String returns the label value.
func (o Outcome) String() string {
	return [...]string{"equal", "close", "different", "failed", "skipped", "dropped"}[o]
}

// Compare compares the outputs of two answers, a that of the client. Their order does
// not matter. difference says what the first one is, with no value of a string.
func Compare(a, b []tensor.Tensor, t Tolerance) (o Outcome, difference string) {
	if len(a) != len(b) {
		return Different, fmt.Sprintf("%d outputs and %d", len(a), len(b))
	}
	for i := range a {
		other := (*tensor.Tensor)(nil)
		for j := range b {
			if b[j].Name == a[i].Name {
				other = &b[j]
				break
			}
		}
		if other == nil {
			return Different, fmt.Sprintf("there is no output '%s'", clip(a[i].Name))
		}
		one, why := compare(&a[i], other, t)
		if one == Different {
			return one, fmt.Sprintf("output '%s': %s", clip(a[i].Name), why)
		}
		o = max(o, one)
	}
	return o, ""
}

func compare(a, b *tensor.Tensor, t Tolerance) (Outcome, string) {
	switch {
	case a.Datatype != b.Datatype:
		return Different, fmt.Sprintf("datatype %s and %s", a.Datatype, b.Datatype)
	case !sameShape(a.Shape, b.Shape):
		return Different, fmt.Sprintf("shape %s and %s", a.Shape, b.Shape)
	case a.OnDevice() || b.OnDevice():
		return Different, "one of them lies on a GPU"
	case bytes.Equal(a.Data, b.Data):
		return Equal, ""
	}
	size := a.Datatype.Size()
	if a.Datatype == tensor.Bytes || a.Datatype == tensor.Bool || size == 0 || len(a.Data) != len(b.Data) {
		return Different, "the values differ, and are no numbers"
	}
	for at := 0; at+size <= len(a.Data); at += size {
		x, y := a.Data[at:at+size], b.Data[at:at+size]
		if bytes.Equal(x, y) {
			continue
		}
		switch f, g := number(a.Datatype, x), number(a.Datatype, y); {
		case size == 8 && a.Datatype != tensor.FP64: // float64 has not all of their bits
			m, n := binary.LittleEndian.Uint64(x), binary.LittleEndian.Uint64(y)
			if float64(distance(a.Datatype, m, n)) <= t.Absolute+t.Relative*math.Abs(f) {
				continue
			}
			if a.Datatype == tensor.Int64 {
				return Different, fmt.Sprintf("element %d is %d and %d", at/size, int64(m), int64(n))
			}
			return Different, fmt.Sprintf("element %d is %d and %d", at/size, m, n)
		case !within(f, g, t):
			return Different, fmt.Sprintf("element %d is %v and %v", at/size, f, g)
		}
	}
	return Close, ""
}

// distance is by how much two integers of 64 bits differ.
func distance(d tensor.Datatype, m, n uint64) uint64 {
	if d == tensor.Int64 && int64(m) < int64(n) || d != tensor.Int64 && m < n {
		return n - m
	}
	return m - n
}

// within reports whether g is near enough to f. Two that are no numbers are, and so are
// two zeros.
func within(f, g float64, t Tolerance) bool {
	switch {
	case math.IsNaN(f) || math.IsNaN(g):
		return math.IsNaN(f) && math.IsNaN(g)
	case math.IsInf(f, 0) || math.IsInf(g, 0):
		return f == g
	}
	return math.Abs(f-g) <= t.Absolute+t.Relative*math.Abs(f)
}

// number reads one element. Integers beyond 2^53 lose their last bits.
func number(d tensor.Datatype, b []byte) float64 {
	switch d {
	case tensor.Int8:
		return float64(int8(b[0]))
	case tensor.Uint16:
		return float64(binary.LittleEndian.Uint16(b))
	case tensor.Int16:
		return float64(int16(binary.LittleEndian.Uint16(b)))
	case tensor.FP16:
		return float64(tensor.FloatFP16(binary.LittleEndian.Uint16(b)))
	case tensor.BF16:
		return float64(tensor.FloatBF16(binary.LittleEndian.Uint16(b)))
	case tensor.Uint32:
		return float64(binary.LittleEndian.Uint32(b))
	case tensor.Int32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case tensor.FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case tensor.Uint64:
		return float64(binary.LittleEndian.Uint64(b))
	case tensor.Int64:
		return float64(int64(binary.LittleEndian.Uint64(b)))
	case tensor.FP64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	default: // of one byte
		return float64(b[0])
	}
}

func sameShape(a, b tensor.Shape) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
