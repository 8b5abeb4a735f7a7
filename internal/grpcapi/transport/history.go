package transport

// history knows the newest streams of the client: which of them it has opened,
// and of which it has said that nothing more comes. What comes all the same is
// a fault then. Of older ones, and of those that the server has cut off while
// the client may still have been sending, it is ignored.
type history struct {
	newest       uint32
	opened, over uint64 // one bit for each stream id, the lowest for the newest
}

// open notes a new stream.
func (h *history) open(id uint32) {
	shift := (id - h.newest + 1) / 2 // of which 64 and more leave nothing
	h.opened, h.over, h.newest = h.opened<<shift|1, h.over<<shift, id
}

// end notes that the client has said its last on a stream.
func (h *history) end(id uint32) { h.over |= h.bit(id) }

func (h *history) bit(id uint32) uint64 {
	if id > h.newest {
		return 0
	}
	return 1 << ((h.newest - id) / 2)
}

// late judges a frame of a stream that is not open.
func (h *history) late(id uint32) error {
	bit := h.bit(id)
	switch {
	case id > h.newest || id%2 == 0 || bit != 0 && h.opened&bit == 0:
		return fault(codeProtocol, "a frame of a stream that was never open")
	case h.over&bit != 0:
		return fault(codeStreamClosed, "a frame of a stream that the client has ended")
	}
	return nil
}
