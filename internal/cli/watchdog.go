package cli

import (
	"fmt"
	"strconv"
	"time"
)

// mostSeconds is a hundred years: far from where durations overflow.
const mostSeconds = 100 * 365 * 24 * 3600

// floatSecondsVar takes seconds, fractions included.
func floatSecondsVar(p func(*serveOptions) *time.Duration) func(*serveOptions, string) error {
	return func(o *serveOptions, s string) error {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0 && v <= mostSeconds) { // NaN is neither
			return fmt.Errorf("expected a number of seconds, got %q", s)
		}
		*p(o) = time.Duration(v * float64(time.Second))
		return nil
	}
}

// setWatchInterval takes seconds; 0 is never, where the field's 0 is the default.
func setWatchInterval(o *serveOptions, s string) error {
	v, err := parseInt(s)
	if err == nil && (v < 0 || v > mostSeconds) {
		err = fmt.Errorf("expected a number of seconds, got %q", s)
	}
	o.server.WatchInterval = time.Duration(v) * time.Second
	if v == 0 {
		o.server.WatchInterval = -1
	}
	return err
}
