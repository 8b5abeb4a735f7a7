package memory

// Text is a piece of memory that grows while something of unknown or only
// declared length arrives. It holds what has been written, rounded up to a few
// pages, whatever room it has been given: growing leaves nothing behind for the
// collector, where the system can do that, and copies nothing on Linux. The zero
// value is empty. It is not safe for concurrent use.
type Text struct {
	b      []byte
	mapped bool
}

// leastText is the least room in bytes.
const leastText = 1 << 20

// Grow makes room for n bytes in all and returns it: its first bytes are those
// of the room before, which is not to be used any more. It may be larger than n.
func (t *Text) Grow(n int) []byte {
	if n <= len(t.b) {
		return t.b
	}
	n = max(n, 2*len(t.b), leastText)
	n = (n + leastText - 1) &^ (leastText - 1)
	if t.mapped {
		if b := remap(t.b, n); b != nil {
			t.b = b
			return b
		}
	}
	b := untouched(n)
	mapped := b != nil
	if mapped {
		bySmallPages(b)
	} else {
		b = make([]byte, n)
	}
	copy(b, t.b)
	t.Free()
	t.b, t.mapped = b, mapped
	return b
}

// Room returns how much room there is in bytes, 0 before the first Grow.
func (t *Text) Room() int { return len(t.b) }

// Free gives the memory back. It may be called again.
func (t *Text) Free() {
	if t.mapped {
		unmap(t.b)
	}
	t.b, t.mapped = nil, false
}
