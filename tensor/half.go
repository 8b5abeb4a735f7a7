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
