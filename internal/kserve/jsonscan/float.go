package jsonscan

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// AppendFloat appends an FP32 value as the double it widens to: the shortest
// text that reads back as that double.
//
// A widened value has 24 bits, so f·10^p is exact in 128 bits for the exponents
// that occur in practice, and so is the distance to the next double. That makes
// it twice as fast as the general way. Where two shortest texts are equally near it
// takes the upper one, as the peer does.
func AppendFloat(b []byte, f float32) []byte {
	exp := int(math.Float32bits(f)>>23&0xff) - 127 // 2^exp ≤ |f| < 2^(exp+1)
	frac := uint64(math.Float32bits(f) & (1<<23 - 1))
	if exp < -19 || exp > 49 || frac == 0 || exp >= 0 && exp < 23 && frac<<exp&(1<<23-1) == 0 || exp >= 23 {
		return AppendDouble(b, float64(f))
	}
	// scaled / 2^shift is |f|·10^p, with 17 or 18 digits before the point.
	p := 16 - exp*1233>>12
	shift := uint(53 - exp)
	half := pow10wide[p] // half the distance to the next double, same scale
	hi, lo := bits.Mul64((1<<23|frac)<<30, half.lo)
	hi += (1<<23 | frac) << 30 * half.hi
	n := hi<<(64-shift) | lo>>shift
	if shift >= 64 {
		n = hi >> (shift - 64)
	}
	// n is |f|·10^p rounded down. Drop digits as long as what is left still
	// reads back as f: the nearest number with one digit less must lie within
	// half a unit of f. At first the divisors are constant, which is faster.
	var best uint64
	dropped := 1
	if best = (n + 5) / 10; !near(best*10, shift, hi, lo, half) {
		dropped = 0
		if best = n; bitSet(hi, lo, shift-1) {
			best++
		}
	} else if next := (n + 50) / 100; near(next*100, shift, hi, lo, half) {
		best, dropped = next, 2
		for unit := uint64(1000); ; unit *= 10 {
			next := (n + unit/2) / unit
			if !near(next*unit, shift, hi, lo, half) {
				break
			}
			best = next
			dropped++
		}
	}
	word := math.Float32bits(f)
	return appendFixed(b, int(word>>31), uint64(math.Float32frombits(word&^(1<<31))), best, p-dropped)
}

// near reports whether |candidate·2^shift - (hi, lo)| ≤ half.
func near(candidate uint64, shift uint, hi, lo uint64, half wide) bool {
	var ch, cl uint64
	if shift < 64 {
		ch, cl = candidate>>(64-shift), candidate<<shift
	} else {
		ch = candidate << (shift - 64)
	}
	dl, borrow := bits.Sub64(cl, lo, 0)
	dh, borrow := bits.Sub64(ch, hi, borrow)
	// Without branches: which of the two is greater nobody can predict.
	dl, carry := bits.Add64(dl^-borrow, borrow, 0)
	dh = (dh ^ -borrow) + carry
	_, borrow = bits.Sub64(half.lo, dl, 0)
	_, borrow = bits.Sub64(half.hi, dh, borrow)
	return borrow == 0
}

func bitSet(hi, lo uint64, i uint) bool {
	if i >= 64 {
		return hi>>(i-64)&1 != 0
	}
	return lo>>i&1 != 0
}

// appendFixed appends n·10^-places, of which whole is the part before the
// point, for 0 < places < 24 and whole < 2^24; minus is 1 for a negative number,
// else 0. It writes eight digits at a time, in part over what it wrote before,
// and the sign whether it counts or not: signs are hard to predict.
func appendFixed(b []byte, minus int, whole, n uint64, places int) []byte {
	const room = 48
	b = slices.Grow(b, room)
	at := len(b)
	b = b[:at+room]
	b[at] = '-'
	at += minus
	if whole < 10 {
		b[at] = byte('0' + whole)
		at++
	} else {
		at += len(strconv.AppendUint(b[at:at], whole, 10))
	}
	b[at] = '.'
	at++
	if whole > 0 {
		n -= whole * pow10u[places]
	}
	le := binary.LittleEndian
	text := b[at : at+32]
	high := n / 1e8
	low := eight(n - high*1e8)
	if places <= 8 {
		le.PutUint64(text, low>>(64-8*places))
		return b[:at+places]
	}
	top := high / 1e8
	middle := eight(high - top*1e8)
	if places <= 16 {
		le.PutUint64(text, middle>>(128-8*places))
	} else {
		le.PutUint64(text, eight(top)>>(192-8*places))
		le.PutUint64(text[places-16:], middle)
	}
	le.PutUint64(text[places-8:], low)
	return b[:at+places]
}

// eight returns the eight digits of n < 10^8, the first one in the lowest
// byte. It divides the halves, quarters and eighths of the number at once.
func eight(n uint64) uint64 {
	first := n / 10000
	halves := first | (n-first*10000)<<32
	hundreds := halves * 10486 >> 20 & 0x7f0000007f // of each half
	quarters := hundreds + (halves-hundreds*100)<<16
	tens := quarters * 103 >> 10 & 0x000f000f000f000f // of each quarter
	return tens + (quarters-tens*10)<<8 + 0x3030303030303030
}

type wide struct{ hi, lo uint64 }

// pow10wide holds 10^0 to 10^22.
var pow10wide = func() (t [23]wide) {
	t[0].lo = 1
	for i := 1; i < len(t); i++ {
		hi, lo := bits.Mul64(t[i-1].lo, 10)
		t[i] = wide{t[i-1].hi*10 + hi, lo}
	}
	return t
}()

// AppendDouble appends the shortest text that reads back as f, in the form of
// Triton's writer: always with a fraction or an exponent, exponents from 1e21
// upwards and below 1e-6, non-finite values as NaN, Infinity and -Infinity.
func AppendDouble(b []byte, f float64) []byte {
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
		if bytes.IndexByte(b[n:], '.') >= 0 {
			return b
		}
		return append(b, '.', '0')
	}
}

// appendExponent writes 1e-7, where strconv has 1e-07, and 1e21, where it has
// 1e+21.
func appendExponent(b []byte, f float64) []byte {
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	j := bytes.LastIndexByte(b, 'e') + 1
	k := j + 1
	if b[j] == '-' {
		j++
	}
	if b[k] == '0' {
		k++
	}
	return b[:j+copy(b[j:], b[k:])]
}
