package plot

import (
	"math"
	"strconv"
	"strings"
)

// scale says where values stand between 0 and 1.
type scale struct {
	low, high float64
	log       bool
	ticks     []float64
}

// about is how many ticks an axis has, more or less.
const about = 6

// newScale makes a scale for values from low to high, which it may widen.
func newScale(low, high float64, log bool) scale {
	if log {
		return logScale(low, high)
	}
	if !finite(low) || !finite(high) || high < low {
		low, high = 0, 1
	}
	if high == low {
		low, high = low-math.Max(math.Abs(low)/2, 0.5), high+math.Max(math.Abs(high)/2, 0.5)
	}
	step := nice((high - low) / about)
	s := scale{low: math.Floor(low/step+1e-9) * step, high: math.Ceil(high/step-1e-9) * step}
	for i := 0; i <= 2*about+2; i++ {
		v := s.low + float64(i)*step
		if v > s.high+step/2 {
			break
		}
		s.ticks = append(s.ticks, v)
	}
	return s
}

// nice is the least of 1, 2, 2.5 and 5 times a power of ten that is at least f.
func nice(f float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(f)))
	if power == 0 || !finite(power) {
		return math.Max(f, math.SmallestNonzeroFloat64)
	}
	for _, m := range []float64{1, 2, 2.5, 5} {
		if f <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

func logScale(low, high float64) scale {
	if !finite(low) || !finite(high) || low <= 0 || high < low {
		low, high = 1, 10
	}
	if high/low < 1.5 {
		low, high = low/1.5, high*1.5
	}
	s := scale{low: low, high: high, log: true}
	every := []float64{1, 2, 5}
	if math.Log10(high/low) > 3 {
		every = []float64{1}
	}
	for power := math.Floor(math.Log10(low)); power <= math.Ceil(math.Log10(high)) && len(s.ticks) < 40; power++ {
		for _, m := range every {
			if v := m * math.Pow(10, power); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				s.ticks = append(s.ticks, v)
			}
		}
	}
	return s
}

// at is where v stands: 0 at the low end, 1 at the high one.
func (s *scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log(math.Max(v, low)), math.Log(low), math.Log(high)
	}
	return math.Min(1, math.Max(0, (v-low)/(high-low)))
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// say writes a value as short as an axis wants it.
func say(v float64) string {
	a := math.Abs(v)
	unit := ""
	switch {
	case a >= 1e9:
		v, unit = v/1e9, "G"
	case a >= 1e6:
		v, unit = v/1e6, "M"
	case a >= 1e4:
		v, unit = v/1e3, "k"
	}
	text := strconv.FormatFloat(v, 'f', 3, 64)
	if a < 0.001 && a > 0 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + unit
}
