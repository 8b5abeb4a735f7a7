package tensor

import (
	"math"
	"testing"
)

func TestHalves(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0: 0, 0x8000: math.Copysign(0, -1), 1: 1.0 / (1 << 24), 0x03ff: 1023.0 / (1 << 24), 0x0400: 1.0 / (1 << 14),
		0x3555: 0.333251953125, 0xc000: -2, 0x7bff: 65504, 0x7c00: math.Inf(1), 0xfc00: math.Inf(-1),
	} {
		if got := float64(FloatFP16(bits)); got != want || math.Signbit(got) != math.Signbit(want) {
			t.Errorf("FloatFP16(%#x) = %v, want %v", bits, got, want)
		}
	}
	if got := FloatFP16(0x7e00); got == got {
		t.Errorf("FloatFP16(0x7e00) = %v, want NaN", got)
	}
	for bits, want := range map[uint16]float32{0x3fc0: 1.5, 0xbf80: -1, 0: 0} {
		if got := FloatBF16(bits); got != want {
			t.Errorf("FloatBF16(%#x) = %v, want %v", bits, got, want)
		}
	}
}
