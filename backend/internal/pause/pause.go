// Package pause owns the wait of backends that take their time, which ends with
// who waits.
package pause

import "time"

// For waits for d; it returns false when a or b is closed first, or is closed
// already. b may be nil.
func For(d time.Duration, a, b <-chan struct{}) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-a:
		case <-b:
		}
		return false
	}
	select {
	case <-a:
	case <-b:
	default:
		return true
	}
	return false
}
