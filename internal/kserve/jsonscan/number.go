package jsonscan

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// Decimal is a JSON number as it was written: ±mantissa·10^exp.
type Decimal struct {
	mantissa   uint64 // exact while digits ≤ 19
	exp        int
	digits     int // significant digits, leading zeros not counted
	start, end int // where it stands in the text
	neg        bool
	integer    bool // neither fraction nor exponent
	nan, inf   bool
}

// expLimit keeps the exponent from overflowing; anything beyond is 0 or too big.
const expLimit = 1 << 20

// Decimal reads a number, NaN or Infinity. It accepts what Triton's parser
// does: JSON's grammar plus NaN, Inf, Infinity and their negatives.
func (s *Scanner) Decimal(d *Decimal) bool {
	b, i := s.B, s.I
	*d = Decimal{start: i, integer: true}
	if i < len(b) && b[i] == '-' {
		d.neg = true
		i++
	}
	if i >= len(b) {
		return s.Fail(FaultValue, i)
	}
	var m uint64
	first := i
	switch c := b[i]; {
	case c == '0':
		i++
	case c >= '1' && c <= '9':
		m, i = digits(b, i, 0)
		d.digits = i - first
	case c == 'N' || c == 'I':
		s.I = i
		return s.special(d)
	default:
		return s.Fail(FaultValue, i)
	}
	if i < len(b) && b[i] == '.' {
		d.integer = false
		i++
		point := i
		if i >= len(b) || b[i]-'0' > 9 {
			return s.Fail(FaultFraction, i)
		}
		m, i = digits(b, i, m)
		d.exp = point - i
		if d.digits > 0 {
			d.digits += i - point
		} else if d.digits = i - point; d.digits > 19 {
			// Only here can leading zeros make the count misleading.
			for k := point; k < i && b[k] == '0'; k++ {
				d.digits--
			}
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		d.integer = false
		i++
		negative := false
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			negative = b[i] == '-'
			i++
		}
		if i >= len(b) || b[i]-'0' > 9 {
			return s.Fail(FaultExponent, i)
		}
		e := 0
		for ; i < len(b) && b[i]-'0' <= 9; i++ {
			if e < expLimit {
				e = e*10 + int(b[i]-'0')
			}
		}
		if negative {
			e = -e
		}
		d.exp += e
	}
	d.mantissa, d.end = m, i
	s.I = i
	return true
}

// digits adds the run of digits at i to m, eight at a time where it can.
func digits(b []byte, i int, m uint64) (uint64, int) {
	for i+8 <= len(b) {
		v := binary.LittleEndian.Uint64(b[i:])
		v -= 0x3030303030303030
		if ((v+0x7676767676767676)|v)&0x8080808080808080 != 0 {
			break
		}
		v = v*10 + v>>8
		const mask = 0x000000FF000000FF
		v = ((v&mask)*(100+1000000<<32) + (v>>16&mask)*(1+10000<<32)) >> 32
		m = m*100000000 + v
		i += 8
	}
	for ; i < len(b); i++ {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		m = m*10 + uint64(c)
	}
	return m, i
}

// special reads NaN, Inf or Infinity.
func (s *Scanner) special(d *Decimal) bool {
	d.integer = false
	if s.B[s.I] == 'N' {
		d.nan = true
		if !s.Word("NaN") {
			return false
		}
	} else {
		d.inf = true
		if !s.Word("Inf") {
			return false
		}
		if s.I < len(s.B) && s.B[s.I] == 'i' && !s.Word("inity") {
			return false
		}
	}
	d.end = s.I
	return true
}

// Unsigned returns the number as a uint64, if it is one.
func (d *Decimal) Unsigned(b []byte) (uint64, bool) {
	if !d.integer || d.neg && d.mantissa != 0 || d.nan || d.inf {
		return 0, false
	}
	if d.digits <= 19 {
		return d.mantissa, true
	}
	if d.digits > 20 {
		return 0, false
	}
	u, err := strconv.ParseUint(View(b[d.start:d.end]), 10, 64)
	return u, err == nil
}

// Signed returns the number as an int64, if it is one.
func (d *Decimal) Signed() (int64, bool) {
	switch {
	case !d.integer || d.digits > 19:
		return 0, false
	case !d.neg && d.mantissa <= math.MaxInt64:
		return int64(d.mantissa), true
	case d.neg && d.mantissa <= 1<<63:
		return int64(-d.mantissa), true
	}
	return 0, false
}

var pow10 = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

var pow10u = func() (t [20]uint64) {
	t[0] = 1
	for i := 1; i < len(t); i++ {
		t[i] = t[i-1] * 10
	}
	return t
}()

// Float64 returns the number, correctly rounded. It fails with FaultTooBig.
func (s *Scanner) Float64(d *Decimal) (float64, bool) {
	var f float64
	switch {
	case d.nan:
		return math.NaN(), true
	case d.inf:
		f = math.Inf(1)
	case d.digits > 19:
		return s.slowFloat(d, 64)
	case d.mantissa == 0:
		if d.integer { // the integer -0 is 0
			return 0, true
		}
	case d.mantissa>>53 == 0 && d.exp >= -22 && d.exp <= 22:
		// Both operands are exact, so the one operation rounds correctly.
		if f = float64(d.mantissa); d.exp < 0 {
			f /= pow10[-d.exp]
		} else {
			f *= pow10[d.exp]
		}
	case d.exp >= -19 && d.exp < 0:
		f = divide(d.mantissa, -d.exp)
	case d.exp >= 0 && d.exp <= 19:
		hi, lo := bits.Mul64(d.mantissa, pow10u[d.exp])
		if lz := bits.LeadingZeros64(hi); hi == 0 {
			f = round(lo, false, 0)
		} else {
			f = round(hi<<lz|lo>>(64-lz), lo<<lz != 0, 64-lz)
		}
	default:
		return s.slowFloat(d, 64)
	}
	if d.neg {
		f = -f
	}
	return f, true
}

// divide returns m / 10^k, correctly rounded, for 1 ≤ k ≤ 19: a quotient of at
// least 63 bits, of which the remainder tells on which side the rest lies.
func divide(m uint64, k int) float64 {
	y := pow10u[k]
	ly, lm := bits.LeadingZeros64(y), bits.LeadingZeros64(m)
	y <<= ly
	m <<= lm
	var low uint64
	e := ly - lm - 64
	if m >= y {
		low = m << 63
		m >>= 1
		e++
	}
	q, r := bits.Div64(m, low, y)
	return round(q, r != 0, e)
}

// round returns q·2^e to the nearest float64, ties to even; sticky says that
// the true value lies a little above q. The result is a normal number.
func round(q uint64, sticky bool, e int) float64 {
	lz := bits.LeadingZeros64(q)
	q <<= lz
	e -= lz
	mant, rest := q>>11, q&(1<<11-1)
	if rest > 1<<10 || rest == 1<<10 && (sticky || mant&1 != 0) {
		mant++
	}
	// mant may have become 2^53, which the conversion handles.
	return math.Float64frombits(uint64(e+11+1023)<<52) * float64(mant)
}

// Float32 returns the number rounded once, to FP32; beyond its range that is
// an infinity. It fails with FaultTooBig.
func (s *Scanner) Float32(d *Decimal) (float32, bool) {
	const middle, mask = 1 << 28, 1<<29 - 1
	if d.digits <= 19 && d.mantissa != 0 && d.exp >= -22 && d.exp <= 0 && !d.nan && !d.inf {
		// This is at most two units off the exact double. Rounded to FP32 that is
		// right unless it comes that near to the middle between two values.
		f := float64(d.mantissa) / pow10[-d.exp]
		if low := math.Float64bits(f) & mask; low-(middle-2) > 4 {
			if d.neg {
				f = -f
			}
			return float32(f), true
		}
	}
	f, ok := s.Float64(d)
	if !ok {
		return 0, false
	}
	// Rounding twice is wrong only where the first step lands on the middle
	// between two FP32 values; among subnormal ones the middle lies elsewhere.
	if math.Float64bits(f)&mask == middle || f != 0 && math.Abs(f) < 0x1p-126 {
		g, _ := s.slowFloat(d, 32)
		return float32(g), true
	}
	return float32(f), true
}

// slowFloat is for the numbers that have no short way.
func (s *Scanner) slowFloat(d *Decimal, size int) (float64, bool) {
	f, err := strconv.ParseFloat(View(s.B[d.start:d.end]), size)
	if err != nil && size == 64 {
		return 0, s.Fail(FaultTooBig, d.start)
	}
	return f, true
}
