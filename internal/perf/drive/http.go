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
	begun := Now()
	fresh, err := c.open()
	if err != nil {
		return err
	}
	err = c.exchange(r, a)
	if f, ok := err.(*Failure); ok && f.Broken { //nolint:errorlint // made here, never wrapped
		c.drop()
		if !fresh && a.First == 0 && c.wasIdle(f, begun) {
			return c.Do(r, a)
		}
	}
	c.used = Now()
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
	for err == nil && h.status >= 100 && h.status < 200 { // it announces another one
		h, err = c.head()
	}
	if err != nil {
		return err
	}
	a.Header = h.header
	keep := 0
	switch {
	case h.status != 200:
		keep = maxError
	case a.Keep, c.events:
		keep = maxAnswer
	}
	if h.chunked {
		err = c.chunks(a, keep)
	} else {
		err = c.part(a, h.length, keep)
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

// maxError bounds what is kept of an answer that is an error, in bytes.
const maxError = 64 << 10

// part reads n bytes of a body and keeps keep bytes of the whole of it at most. More
// of an answer that is wanted is a failure.
func (c *httpConn) part(a *Answer, n, keep int) error {
	room := keep - len(a.Body)
	if keep == maxAnswer && n > room {
		return tooLong()
	}
	kept := min(n, room)
	if err := c.take(kept, &a.Body); err != nil {
		return err
	}
	return c.take(n-kept, nil)
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
	switch {
	case h.status < 200:
	case h.status == 204, h.status == 304:
		h.length, h.chunked = 0, false
	case h.length < 0 && !h.chunked:
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

// chunks reads a body in chunks; of events each counts when its line has come.
func (c *httpConn) chunks(a *Answer, keep int) error {
	counted := 0
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(line, ";", 2)[0]), 16, 40)
		if err != nil {
			return malformed("a chunk of the size %q", line)
		}
		if size == 0 {
			return c.trailers()
		}
		if err := c.part(a, int(size), keep); err != nil {
			return err
		}
		if line, err = c.line(); err != nil {
			return err
		}
		if line != "" {
			return malformed("%.32q behind a chunk", line)
		}
		if c.events {
			counted = countEvents(a, counted)
		}
	}
}

// trailers reads what stands behind the last chunk, up to an empty line.
func (c *httpConn) trailers() error {
	for size := 0; size < maxHead; {
		line, err := c.line()
		if err != nil || line == "" {
			return err
		}
		size += len(line)
	}
	return malformed("trailers without end")
}

// countEvents counts the events in the lines of a.Body from the byte from on, and
// returns where the first line begins that is not whole yet.
func countEvents(a *Answer, from int) int {
	for {
		n := bytes.IndexByte(a.Body[from:], '\n')
		if n < 0 {
			return from
		}
		line := a.Body[from : from+n]
		from += n + 1
		if text, ok := bytes.CutPrefix(line, []byte("data:")); ok && !bytes.Equal(bytes.TrimSpace(text), []byte("[DONE]")) {
			a.response(Now())
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
