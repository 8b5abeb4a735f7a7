package flow

const (
	// Default is the size of a window that nobody has set, in bytes.
	Default = 1<<16 - 1
	// Max is how large a window may be.
	Max = 1<<31 - 1
)

// Window is what one side may still send, in bytes. It may be less than nothing
// after a change of the settings.
type Window struct{ left int64 }

// Of returns a window of n bytes.
func Of(n int64) Window { return Window{n} }

// Left returns how many bytes may be sent.
func (w *Window) Left() int64 { return w.left }

// Spend notes that n bytes are sent. It reports false where they were not granted.
func (w *Window) Spend(n int64) bool {
	w.left -= n
	return w.left >= 0
}

// Grant lets n bytes more be sent, or fewer if n is negative. It reports false for
// a window that has become larger than there may be.
func (w *Window) Grant(n int64) bool {
	w.left += n
	return w.left <= Max
}

// Inbound is the window of what comes in, as the receiver keeps it.
type Inbound struct {
	Window
	extra int64 // of what was granted: beyond the usual, for a large message
	owed  int64 // used up, and not granted again yet
}

// InboundOf returns a window of n bytes.
func InboundOf(n int64) Inbound { return Inbound{Window: Of(n)} }

// Extend makes room for n bytes that are known to come, and returns how much is to
// be granted for that.
func (w *Inbound) Extend(n int64) (grant int64) {
	grant = max(0, n-w.left)
	w.left += grant
	w.extra += grant
	return grant
}

// Used notes that n bytes have been used up, and returns how much is to be granted
// again. What was granted by Extend is not; the rest is once it is enough, so that
// few updates are sent.
func (w *Inbound) Used(n, enough int64) (grant int64) {
	own := min(w.extra, n)
	w.extra -= own
	if w.owed += n - own; w.owed < enough {
		return 0
	}
	grant, w.owed = w.owed, 0
	w.left += grant
	return grant
}
