package tensor

import "math"

// FloatFP16 returns the value of an FP16 element, given its bits.
func FloatFP16(bits uint16) float32 {
	sign, exponent, fraction := uint32(bits>>15)<<31, int(bits>>10&31), uint32(bits&1023)
	switch exponent {
	case 31: // infinity, NaN
		return math.Float32frombits(sign | 255<<23 | fraction<<13)
	case 0: // zero, subnormal
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)/(1<<24)))
	}
	return math.Float32frombits(sign | uint32(exponent+112)<<23 | fraction<<13)
}

// FloatBF16 returns the value of a BF16 element, given its bits.
func FloatBF16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// Float16 is an FP16 element: the bits of a number of 16, five of them its exponent.
type Float16 uint16

// BFloat16 is a BF16 element: the upper half of the bits of a float32.
type BFloat16 uint16

// Float32 returns the number.
func (h Float16) Float32() float32 { return FloatFP16(uint16(h)) }

// Float32 returns the number.
func (h BFloat16) Float32() float32 { return FloatBF16(uint16(h)) }

// NewFloat16 returns the FP16 element nearest to a number, of two that are as near
// the even one; infinity for what is too large.
func NewFloat16(f float32) Float16 {
	bits := math.Float32bits(f)
	sign, exponent, fraction := Float16(bits>>16)&0x8000, int(bits>>23&255), bits&(1<<23-1)
	switch e := exponent - 112; {
	case exponent == 255 && fraction != 0: // NaN stays one, whatever is cut off
		return sign | 0x7e00 | Float16(fraction>>13)
	case e >= 31:
		return sign | 0x7c00
	case e < -10:
		return sign
	case e <= 0: // subnormal
		return sign | Float16(nearest(fraction|1<<23, uint(14-e)))
	default: // a carry out of the fraction is one more of the exponent, up to infinity
		return sign | Float16(nearest(uint32(e)<<23|fraction, 13))
	}
}

// NewBFloat16 returns the BF16 element nearest to a number, of two that are as near
// the even one.
func NewBFloat16(f float32) BFloat16 {
	bits := math.Float32bits(f)
	if f != f { // NaN stays one, whatever is cut off
		return BFloat16(bits>>16) | 1<<6
	}
	return BFloat16(nearest(bits, 16))
}

// nearest shifts the lower bits out of n and rounds, to the even one of two.
func nearest(n uint32, shift uint) uint32 {
	kept, rest, half := n>>shift, n&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > half || rest == half && kept&1 == 1 {
		kept++
	}
	return kept
}
