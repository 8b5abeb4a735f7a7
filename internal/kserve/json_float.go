package kserve

import (
	"math"
	"strconv"
)

// appendFloat appends an FP32 value as the double it widens to.
func appendFloat(b []byte, f float32) []byte { return appendDouble(b, float64(f)) }

// appendDouble appends the shortest text that reads back as f, in the form of
// Triton's writer: always with a fraction or an exponent, exponents from 1e21
// upwards and below 1e-6, non-finite values as NaN, Infinity and -Infinity.
func appendDouble(b []byte, f float64) []byte {
	if a := math.Abs(f); a < 1e15 {
		if i := int64(f); float64(i) == f && (i != 0 || !math.Signbit(f)) {
			return append(strconv.AppendInt(b, i, 10), '.', '0')
		}
	}
	return appendFraction(b, f)
}

func appendFraction(b []byte, f float64) []byte {
	switch a := math.Abs(f); {
	case f != f:
		return append(b, "NaN"...)
	case a > math.MaxFloat64:
		if f < 0 {
			b = append(b, '-')
		}
		return append(b, "Infinity"...)
	case a == 0:
		return append(b, "-0.0"...)
	case a >= 1e21 || a < 1e-6:
		return appendExponent(b, f)
	default:
		n := len(b)
		b = strconv.AppendFloat(b, f, 'f', -1, 64)
		for _, c := range b[n:] {
			if c == '.' {
				return b
			}
		}
		return append(b, '.', '0')
	}
}

// appendExponent writes 1e-7, where strconv has 1e-07, and 1e21, where it has
// 1e+21.
func appendExponent(b []byte, f float64) []byte {
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 'e' {
			continue
		}
		j := i + 1
		k := j + 1
		if b[j] == '-' {
			j++
		}
		if b[k] == '0' {
			k++
		}
		return b[:j+copy(b[j:], b[k:])]
	}
	return b
}
