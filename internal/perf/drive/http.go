package drive

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// maxHead bounds what is read of an answer's headers, in bytes.
const maxHead = 256 << 10

// httpConn speaks HTTP/1.1.
type httpConn struct {
	stream
	events bool
}

// HTTP returns a connection that speaks HTTP/1.1 and dials with the first request.
// With events each "data:" line of the answer is a response.
func HTTP(d *Dialer, events bool) Conn {
	return &httpConn{stream: stream{dialer: d, protocol: "http/1.1"}, events: events}
}

func (c *httpConn) Do(r *Request, a *Answer) error {
	a.reset()
	fresh, err := c.open()
	if err != nil {
		return err
	}
	err = c.exchange(r, a)
	if f, ok := err.(*Failure); ok && f.Broken { //nolint:errorlint // made here, never wrapped
		c.drop()
		// A connection that the server has closed while it was idle is no failure.
		if !fresh && a.First == 0 && f.Kind == "connection closed by the server" {
			return c.Do(r, a)
		}
	}
	return err
}

func (c *httpConn) exchange(r *Request, a *Answer) error {
	c.out = r.AppendHead(c.out[:0], r.ID, r.Start, r.End)
	tail := r.Tail
	if len(c.out)+len(tail) <= scratch {
		c.out, tail = append(c.out, tail...), nil
	}
	if err := c.write(c.out); err != nil {
		return err
	}
	if len(tail) > 0 {
		if err := c.write(tail); err != nil {
			return err
		}
	}
	a.Sent = Now()
	if c.r == c.w {
		if err := c.fill(1); err != nil {
			return err
		}
	}
	a.First = Now()
	h, err := c.head()
	if err != nil {
		return err
	}
	a.Header = h.header
	var keep *[]byte
	if a.Keep || h.status != 200 || c.events {
		keep = &a.Body
	}
	if h.chunked {
		err = c.chunks(a, keep)
	} else {
		err = c.take(h.length, keep)
	}
	if err != nil {
		return err
	}
	a.Last = Now()
	if a.Responses == 0 {
		a.response(a.Last)
	}
	if h.last {
		c.drop()
	}
	if h.status != 200 {
		return &Failure{Kind: "HTTP " + strconv.Itoa(h.status), Text: errorText(a.Body)}
	}
	return nil
}

// head is what is needed of an answer's headers.
type head struct {
	status, length, header int
	chunked, last          bool
}

var (
	headEnd  = []byte("\r\n\r\n")
	lineEnd  = []byte("\r\n")
	protocol = []byte("HTTP/1.")
)

// head reads status and headers.
func (c *httpConn) head() (h head, err error) {
	var end int
	for {
		if end = bytes.Index(c.buffered(), headEnd); end >= 0 {
			break
		}
		if n := min(len(protocol), len(c.buffered())); !bytes.Equal(c.buffered()[:n], protocol[:n]) || len(c.buffered()) > maxHead {
			return h, malformed("expected HTTP/1.1, got %q", c.buffered()[:min(32, len(c.buffered()))])
		}
		if err := c.fill(4096); err != nil {
			return h, err
		}
	}
	text := c.buffered()[:end+2]
	c.r += end + len(headEnd)
	if len(text) < 14 || !bytes.Equal(text[:len(protocol)], protocol) {
		return h, malformed("expected HTTP/1.1, got %q", text[:min(32, len(text))])
	}
	for _, digit := range text[9:12] {
		if digit < '0' || digit > '9' {
			return h, malformed("a status %q", text[9:12])
		}
		h.status = 10*h.status + int(digit-'0')
	}
	h.length, h.header, h.last = -1, -1, text[7] == '0'
	for text = text[bytes.Index(text, lineEnd)+2:]; len(text) > 0; {
		n := bytes.Index(text, lineEnd)
		if err := h.line(text[:n]); err != nil {
			return h, err
		}
		text = text[n+2:]
	}
	if h.length < 0 && !h.chunked {
		return h, malformed("an answer without a length")
	}
	return h, nil
}

// line reads one header.
func (h *head) line(text []byte) error {
	name, value, ok := bytes.Cut(text, []byte(":"))
	if !ok {
		return malformed("a header %q", text)
	}
	value = bytes.TrimSpace(value)
	switch {
	case equal(name, "content-length"):
		n, ok := decimal(value)
		if !ok {
			return malformed("a length %q", value)
		}
		h.length = n
	case equal(name, "inference-header-content-length"):
		n, ok := decimal(value)
		if !ok {
			return malformed("a length of JSON %q", value)
		}
		h.header = n
	case equal(name, "transfer-encoding"):
		h.chunked = equal(value, "chunked")
	case equal(name, "connection"):
		h.last = h.last || equal(value, "close")
	}
	return nil
}

// equal compares without regard to case; word is in lower case.
func equal(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i := range b {
		if b[i]|0x20 != word[i]|0x20 {
			return false
		}
	}
	return true
}

func decimal(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 15 {
		return 0, false
	}
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = 10*n + int(d-'0')
	}
	return n, true
}

// chunks reads a body in chunks; of events each counts when it comes.
func (c *httpConn) chunks(a *Answer, keep *[]byte) error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(line, ";", 2)[0]), 16, 40)
		if err != nil {
			return malformed("a chunk of the size %q", line)
		}
		from := len(a.Body)
		if err := c.take(int(size), keep); err != nil {
			return err
		}
		if _, err := c.line(); err != nil { // behind each chunk, and behind the trailers, of which there are none
			return err
		}
		if size == 0 {
			return nil
		}
		if c.events {
			now := Now()
			for range bytes.Count(a.Body[from:], []byte("data:")) - bytes.Count(a.Body[from:], []byte("data: [DONE]")) {
				a.response(now)
			}
		}
	}
}

func (c *httpConn) line() (string, error) {
	for {
		if end := bytes.Index(c.buffered(), lineEnd); end >= 0 {
			line := string(c.buffered()[:end])
			c.r += end + 2
			return line, nil
		}
		if len(c.buffered()) > maxHead {
			return "", malformed("a line without end")
		}
		if err := c.fill(512); err != nil {
			return "", err
		}
	}
}

// errorText is what an answer says is wrong.
func errorText(body []byte) string {
	var answer struct {
		Error json.RawMessage `json:"error"`
	}
	var text string
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer.Error, &text) != nil {
		text = string(body[:min(len(body), 300)])
		if len(answer.Error) > 0 {
			text = string(answer.Error)
		}
	}
	return strings.TrimSpace(text)
}
