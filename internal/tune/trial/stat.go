package trial

import "math"

// Stat is a number that was measured several times.
type Stat struct {
	Mean      float64 `json:"mean"`
	Deviation float64 `json:"sd"`
	N         int     `json:"n"`
}

// StatOf returns the mean of values and how they are spread.
func StatOf(values []float64) Stat {
	s := Stat{N: len(values)}
	for _, v := range values {
		s.Mean += v / float64(len(values))
	}
	if len(values) < 2 {
		return s
	}
	for _, v := range values {
		s.Deviation += (v - s.Mean) * (v - s.Mean) / float64(len(values)-1)
	}
	s.Deviation = math.Sqrt(s.Deviation)
	return s
}

// Error is the standard error of the mean.
func (s Stat) Error() float64 { return s.Deviation / math.Sqrt(float64(max(s.N, 1))) }

// Relative is the standard error as a share of the mean.
func (s Stat) Relative() float64 {
	if s.Mean == 0 {
		return 0
	}
	return math.Abs(s.Error() / s.Mean)
}

// Spread is the deviation as a share of the mean.
func (s Stat) Spread() float64 {
	if s.Mean == 0 {
		return 0
	}
	return math.Abs(s.Deviation / s.Mean)
}

// Pool returns what several measurements, each in a server of its own, say together:
// what counts is how they differ. One stands for itself.
func Pool(all []Stat) Stat {
	if len(all) == 1 {
		return all[0]
	}
	means := make([]float64, len(all))
	for i, s := range all {
		means[i] = s.Mean
	}
	return StatOf(means)
}

// quantiles of Student's distribution at 97.5 %, for 1 to 30 degrees of freedom.
var quantiles = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
	2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// Beyond reports whether a mean is off a bound by more than chance explains, with 95 %.
func (s Stat) Beyond(bound float64) bool {
	if s.N < 2 {
		return false
	}
	return math.Abs(s.Mean-bound) > quantiles[min(s.N-1, len(quantiles))-1]*s.Error()
}

// Differ reports whether two means differ by more than chance explains, with 95 % (Welch's
// test). Numbers that were measured once say nothing.
func Differ(a, b Stat) bool {
	if a.N < 2 || b.N < 2 || a.Mean == b.Mean {
		return false
	}
	va, vb := a.Error()*a.Error(), b.Error()*b.Error()
	if va+vb == 0 {
		return true
	}
	freedom := (va + vb) * (va + vb) / (va*va/float64(a.N-1) + vb*vb/float64(b.N-1))
	quantile := quantiles[min(max(int(freedom), 1), len(quantiles))-1]
	return math.Abs(a.Mean-b.Mean) > quantile*math.Sqrt(va+vb)
}
