package header

import (
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// Request is what the headers of a call say.
type Request struct {
	Path, Method, ContentType, Timeout, Encoding string
	Fields                                       []hpack.HeaderField // metadata of the client
	Size                                         int                 // in bytes, as HTTP/2 counts them
	Length                                       int64               // of the body, or -1
	Malformed                                    string              // what no request may have
	pseudo                                       uint8               // which pseudo-headers have come
	regular                                      bool                // another header has come
}

// Begin forgets what another block has said.
func (r *Request) Begin() { *r = Request{Fields: r.Fields[:0], Length: -1} }

// Take takes one header. What is beyond so many bytes in all is not kept.
func (r *Request) Take(f hpack.HeaderField, most int) {
	r.check(f)
	if r.Size += len(f.Name) + len(f.Value) + 32; r.Size > most {
		return // it is refused; the table has to be kept
	}
	switch f.Name {
	case ":path":
		r.Path = f.Value
	case ":method":
		r.Method = f.Value
	case ":scheme", "te":
	case "grpc-timeout":
		r.Timeout = f.Value
	case "grpc-encoding":
		r.Encoding = f.Value
	case "grpc-message", "grpc-status", "grpc-message-type", "grpc-status-details-bin":
	case "content-type":
		r.ContentType = f.Value
		r.Fields = append(r.Fields, f)
	default:
		r.Fields = append(r.Fields, f)
	}
}

// Complete says that these were the headers of a call; else they may be trailers.
func (r *Request) Complete() {
	if r.Malformed == "" && r.pseudo&pseudoNeeded != pseudoNeeded {
		r.Malformed = "a pseudo-header is missing"
	}
}

// Trails reports whether they may stand behind the messages of a call.
func (r *Request) Trails() bool { return r.pseudo == 0 && r.Malformed == "" }

// Pseudo-headers of a request, as bits of Request.pseudo.
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
func (r *Request) check(f hpack.HeaderField) {
	if strings.HasPrefix(f.Name, ":") {
		bit := pseudoHeaders[f.Name]
		switch {
		case bit == 0:
			r.Malformed = "an unknown pseudo-header"
		case r.regular:
			r.Malformed = "a pseudo-header behind other headers"
		case r.pseudo&bit != 0:
			r.Malformed = "a pseudo-header comes twice"
		case f.Value == "" && bit != pseudoAuthority:
			r.Malformed = "an empty pseudo-header"
		}
		r.pseudo |= bit
		return
	}
	r.regular = true
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		r.Malformed = "a header of another version of HTTP"
	case "te":
		if f.Value != "trailers" {
			r.Malformed = "te is not trailers"
		}
	case "content-length":
		n, err := strconv.ParseUint(f.Value, 10, 63)
		if err != nil || r.Length >= 0 && r.Length != int64(n) {
			r.Malformed = "a wrong content-length"
		}
		r.Length = int64(n)
	default:
		if !plainName(f.Name) {
			r.Malformed = "a header's name that cannot be"
		}
	}
	if strings.ContainsAny(f.Value, "\x00\r\n") {
		r.Malformed = "a header's value that cannot be"
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
