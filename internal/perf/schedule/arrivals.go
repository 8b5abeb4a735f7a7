// Package schedule owns the decisions of the load generator that need no clock and
// no goroutine: when a request is due, which load comes next, how load grows, and
// which request of which sequence is next. Open arrivals.go first, then search.go.
package schedule

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Arrivals says when requests are due.
type Arrivals interface {
	// Next returns when the next request is due, counted from the start of the load.
	Next() time.Duration
}

type constant struct {
	rate float64
	n    float64
}

// Constant has a request due every 1/rate seconds, the first at once. Each time is
// computed from the start, so that rounding does not add up.
func Constant(rate float64) Arrivals { return &constant{rate: rate} }

func (c *constant) Next() time.Duration {
	due := time.Duration(c.n / c.rate * float64(time.Second))
	c.n++
	return due
}

type poisson struct {
	rate, at float64
	random   *rand.Rand
}

// Poisson has gaps of an exponential distribution with the mean 1/rate seconds.
func Poisson(rate float64, random *rand.Rand) Arrivals { return &poisson{rate: rate, random: random} }

func (p *poisson) Next() time.Duration {
	due := time.Duration(p.at * float64(time.Second))
	p.at += p.random.ExpFloat64() / p.rate
	return due
}

type intervals struct {
	gaps []time.Duration
	i    int
	at   time.Duration
}

// Intervals has the gaps between requests, from the first on again after the last.
func Intervals(gaps []time.Duration) Arrivals { return &intervals{gaps: gaps} }

func (v *intervals) Next() time.Duration {
	due := v.at
	v.at += v.gaps[v.i]
	v.i = (v.i + 1) % len(v.gaps)
	return due
}

type times struct {
	at []time.Duration
	i  int
}

// Times has each request due at its time, counted from the start; they rise. More
// requests than times are due with the last.
func Times(at []time.Duration) Arrivals { return &times{at: at} }

func (t *times) Next() time.Duration {
	due := t.at[min(t.i, len(t.at)-1)]
	t.i++
	return due
}

// Gaps reads microseconds, one number a line; empty lines do not count.
func Gaps(r io.Reader) ([]time.Duration, error) {
	var gaps []time.Duration
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		us, err := strconv.ParseInt(text, 10, 40)
		if err != nil || us < 0 {
			return nil, fmt.Errorf("line %d: expected microseconds as a whole number, got %q", n, text)
		}
		gaps = append(gaps, time.Duration(us)*time.Microsecond)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if total(gaps) == 0 {
		return nil, fmt.Errorf("no time passes between the requests: expected a number of microseconds in each line")
	}
	return gaps, nil
}

// MeanRate is how many requests a second gaps make.
func MeanRate(gaps []time.Duration) float64 { return float64(len(gaps)) / total(gaps).Seconds() }

// TimesRate is how many requests a second times make, each from 0 to the last.
func TimesRate(at []time.Duration) float64 {
	return float64(len(at)) / max(at[len(at)-1], time.Millisecond).Seconds()
}

func total(gaps []time.Duration) (t time.Duration) {
	for _, g := range gaps {
		t += g
	}
	return t
}
