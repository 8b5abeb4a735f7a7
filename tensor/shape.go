package tensor

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Shape is a list of dimensions, outermost first, in row-major order. In a
// configuration -1 stands for a dimension of any size; in a request every
// dimension is zero or more. An empty Shape is a scalar.
type Shape []int64

// ErrOverflow says that a shape's element or byte count does not fit an int64.
var ErrOverflow = errors.New("count exceeds maximum size of 9223372036854775807")

// ErrWildcard says that a shape has a negative dimension where all must be known.
var ErrWildcard = errors.New("shape has a dimension that is not specified")

// Elements returns the product of the dimensions, 1 for a scalar. It fails
// with ErrWildcard on a negative dimension and with ErrOverflow when the
// product exceeds an int64; a zero dimension makes the product 0 whatever the
// others are.
func (s Shape) Elements() (int64, error) {
	n, zero, overflow := uint64(1), false, false
	for _, d := range s {
		if d < 0 {
			return 0, ErrWildcard
		}
		if d == 0 {
			zero = true
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			overflow = true
			lo = 1
		}
		n = lo
	}
	switch {
	case zero:
		return 0, nil
	case overflow:
		return 0, ErrOverflow
	}
	return int64(n), nil
}

// ByteSize returns the number of bytes of a fixed-size tensor. For Bytes it
// returns the least possible size: four bytes an element.
func ByteSize(d Datatype, s Shape) (int64, error) {
	n, err := s.Elements()
	if err != nil {
		return 0, err
	}
	size := int64(d.Size())
	if d == Bytes {
		size = 4
	}
	if size != 0 && n > math.MaxInt64/size {
		return 0, ErrOverflow
	}
	return n * size, nil
}

// HasWildcard reports whether a dimension is -1.
func (s Shape) HasWildcard() bool {
	for _, d := range s {
		if d < 0 {
			return true
		}
	}
	return false
}

// Matches reports whether s (fully known) fits the pattern p, in which -1
// matches any size.
func (s Shape) Matches(p Shape) bool {
	if len(s) != len(p) {
		return false
	}
	for i, d := range p {
		if d != -1 && d != s[i] {
			return false
		}
	}
	return true
}

// Equal reports whether two shapes have the same dimensions.
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// Clone returns a copy that shares no memory with s.
func (s Shape) Clone() Shape { return slices.Clone(s) }

// AppendText appends the shape as "[2,-1,16]", the form used in error texts.
func (s Shape) AppendText(b []byte) ([]byte, error) {
	b = append(b, '[')
	for i, d := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	return append(b, ']'), nil
}

// String returns the shape as "[2,-1,16]".
func (s Shape) String() string {
	b, _ := s.AppendText(make([]byte, 0, 32))
	return string(b)
}
