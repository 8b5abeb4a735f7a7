package header

import (
	"errors"
	"strconv"
	"time"
)

// maxTimeout is more than anybody waits.
const maxTimeout = 100 * 365 * 24 * time.Hour

var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

var errTimeout = errors.New("expected up to eight digits and a unit")

// ParseTimeout reads grpc-timeout.
func ParseTimeout(s string) (time.Duration, error) {
	if len(s) < 2 || len(s) > 9 {
		return 0, errTimeout
	}
	unit := timeoutUnits[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if err != nil || unit == 0 {
		return 0, errTimeout
	}
	if n > uint64(maxTimeout/unit) {
		return maxTimeout, nil
	}
	return time.Duration(n) * unit, nil
}
