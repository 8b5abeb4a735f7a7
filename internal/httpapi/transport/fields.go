package transport

import (
	"bytes"
	"iter"
	"net/http"
	"net/textproto"
	"strings"
)

// fields yields the names and values of a head as the client wrote them, in its
// order.
func fields(head string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		_, lines, _ := strings.Cut(head, "\r\n")
		for line := range strings.SplitSeq(strings.TrimSuffix(lines, "\r\n\r\n"), "\r\n") {
			name, value, ok := strings.Cut(line, ":")
			if ok && !yield(name, strings.Trim(value, " \t")) {
				return
			}
		}
	}
}

type connKey struct{}

// Fields yields the fields of a request with the names as the client spells them
// and in its order, Host among them; as long as the handler runs. It is nil where
// only net/http, which keeps no spelling, has seen them: over TLS, in a head that is
// too long to be looked at here, and where a client has sent a request before the
// answer to the one before, on a connection that was left to net/http.
func Fields(r *http.Request) iter.Seq2[string, string] {
	ctx := r.Context()
	if x, _ := ctx.Value(exchangeKey{}).(*exchange); x != nil {
		return fields(x.head)
	}
	if c, _ := ctx.Value(connKey{}).(*conn); c != nil && c.text != "" && says(c.text, r.Header) {
		return fields(c.text)
	}
	return nil
}

// says reports whether a head says what net/http has read: then nothing but the
// spelling is taken from it.
func says(head string, h http.Header) bool {
	seen := make(map[string]int, len(h))
	for name, value := range fields(head) {
		key := textproto.CanonicalMIMEHeaderKey(name)
		switch key {
		case "Host", "Transfer-Encoding", "Trailer":
			continue // which net/http takes out
		}
		at := seen[key]
		if at >= len(h[key]) || h[key][at] != value {
			return false
		}
		seen[key]++
	}
	for key, values := range h {
		if seen[key] != len(values) && key != "Cache-Control" { // which it makes of Pragma
			return false
		}
	}
	return true
}

// spy listens to what net/http reads of a connection that it has for good, for the
// spelling of names in the head of a request. The connection does not know where a
// message begins; net/http has answered the last one, and a client that has waited
// for that sends the next one. What others have sent early is in a buffer of
// net/http's, and what is heard then is none of its head: see says.
type spy struct {
	on   bool
	head []byte // as far as it has come
}

// overhear hears what net/http reads.
func (c *conn) overhear(p []byte) {
	p = p[:min(len(p), mostHead-len(c.spy.head))] // what is longer is no head, or none that is kept
	if len(c.spy.head) > 0 || !bytes.Contains(p, endOfHead) {
		c.spy.head = append(c.spy.head, p...)
		p = c.spy.head
	}
	switch {
	case bytes.Contains(p, endOfHead):
		c.text = whole(p)
	case len(p) < mostHead:
		return
	}
	c.spy = spy{}
}

var endOfHead = []byte("\r\n\r\n")
