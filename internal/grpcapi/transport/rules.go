package transport

import (
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// Pseudo-headers of a request, as bits of head.pseudo.
const (
	pseudoMethod = 1 << iota
	pseudoScheme
	pseudoPath
	pseudoAuthority
)

const pseudoNeeded = pseudoMethod | pseudoScheme | pseudoPath

var pseudoHeaders = map[string]uint8{":method": pseudoMethod, ":scheme": pseudoScheme, ":path": pseudoPath, ":authority": pseudoAuthority}

// check notes what makes a request malformed by the rules of HTTP/2 (RFC 9113,
// sections 8.2 and 8.3). Such a stream is reset.
func (h *head) check(f hpack.HeaderField) {
	if strings.HasPrefix(f.Name, ":") {
		bit := pseudoHeaders[f.Name]
		switch {
		case bit == 0:
			h.malformed = "an unknown pseudo-header"
		case h.regular:
			h.malformed = "a pseudo-header behind other headers"
		case h.pseudo&bit != 0:
			h.malformed = "a pseudo-header comes twice"
		case f.Value == "" && bit != pseudoAuthority:
			h.malformed = "an empty pseudo-header"
		}
		h.pseudo |= bit
		return
	}
	h.regular = true
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		h.malformed = "a header of another version of HTTP"
	case "te":
		if f.Value != "trailers" {
			h.malformed = "te is not trailers"
		}
	case "content-length":
		n, err := strconv.ParseInt(f.Value, 10, 63)
		if err != nil || h.length >= 0 && h.length != n {
			h.malformed = "a wrong content-length"
		}
		h.length = n
	default:
		if !plainName(f.Name) {
			h.malformed = "a header's name that cannot be"
		}
	}
	if strings.ContainsAny(f.Value, "\x00\r\n") {
		h.malformed = "a header's value that cannot be"
	}
}

// plainName reports whether a header may have such a name.
func plainName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == ':' || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return s != ""
}

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
