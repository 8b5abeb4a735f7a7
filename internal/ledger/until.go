package ledger

import "time"

const (
	// slowRate is the least rate of the first slowBytes of a transfer, quickRate that
	// of the others, in bytes a second: what comes slowly must not become large.
	slowRate  = 16 << 10
	slowBytes = 16 << 20
	quickRate = 1 << 20
)

// Until returns when a transfer has to be over, or to have moved on. patience is
// how long it may stand still; it has begun at begin, and moved so many bytes by
// now. Its time grows with what has moved, at a rate that pays for little: 16 MiB
// get 17 minutes, 6 GiB less than two hours. What has moved fast is no right to
// stand still for longer than patience.
func Until(begin, now time.Time, patience time.Duration, moved int64) time.Time {
	earned := time.Duration(min(moved, slowBytes)/slowRate+max(0, moved-slowBytes)/quickRate) * time.Second
	end, still := begin.Add(patience+earned), now.Add(patience)
	if still.Before(end) {
		return still
	}
	return end
}
