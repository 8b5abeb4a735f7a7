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

// TestHalvesAreRounded: every element comes back, and a number between two becomes
// the nearer one, or the even one of two.
func TestHalvesAreRounded(t *testing.T) {
	for bits := range uint16(math.MaxUint16) {
		if f := FloatFP16(bits); f == f && NewFloat16(f) != Float16(bits) {
			t.Fatalf("%#x: got %#x", bits, NewFloat16(f))
		}
		if f := FloatBF16(bits); f == f && NewBFloat16(f) != BFloat16(bits) {
			t.Fatalf("%#x: got %#x as BF16", bits, NewBFloat16(f))
		}
		if bits&0x7fff >= 0x7bff { // the next one is infinity
			continue
		}
		low, high := float64(FloatFP16(bits)), float64(FloatFP16(bits+1))
		middle := (low + high) / 2
		for f, want := range map[float64]uint16{
			middle: bits + bits&1, middle + (low-middle)/64: bits, middle + (high-middle)/64: bits + 1,
		} {
			if got := NewFloat16(float32(f)); got != Float16(want) {
				t.Fatalf("%v between %#x and the next: got %#x, want %#x", f, bits, got, want)
			}
		}
	}
	for f, want := range map[float32]Float16{65519: 0x7bff, 65520: 0x7c00, -1e38: 0xfc00, 1e-8: 0, -1e-38: 0x8000} {
		if got := NewFloat16(f); got != want {
			t.Errorf("%v: got %#x, want %#x", f, got, want)
		}
	}
	nan := float32(math.NaN())
	if got, b := NewFloat16(nan).Float32(), NewBFloat16(nan).Float32(); got == got || b == b {
		t.Errorf("NaN: got %v, %v", got, b)
	}
	for f, want := range map[float32]BFloat16{1.00390625: 0x3f80, 1.01171875: 0x3f82, math.MaxFloat32: 0x7f80} {
		if got := NewBFloat16(f); got != want {
			t.Errorf("%v as BF16: got %#x, want %#x", f, got, want)
		}
	}
}

func TestHalvesAsValues(t *testing.T) {
	a, err := New("a", Shape{2}, []Float16{NewFloat16(1.5), NewFloat16(-2)})
	if err != nil || a.Datatype != FP16 {
		t.Fatal(a, err)
	}
	if got, err := Values[Float16](&a); err != nil || got[1].Float32() != -2 {
		t.Error(got, err)
	}
	if got, err := Values[float32](&a); err != nil || got[0] != 1.5 {
		t.Error(got, err)
	}
	if _, err := Values[BFloat16](&a); err == nil {
		t.Error("FP16 read as BF16")
	}
}
