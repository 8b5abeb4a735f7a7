package drive

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// maxHead bounds what is read of an answer's headers, in bytes.
const maxHead = 256 << 10

// httpConn speaks HTTP/1.1.
type httpConn struct {
	stream
	events bool
	failed *Failure // what an event of the answer says
	known  []byte   // the headers of the last answer, and what they said
	said   head
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
	if c.over(a, err, fresh, begun) {
		return c.Do(r, a)
	}
	return err
}

func (c *httpConn) exchange(r *Request, a *Answer) error {
	c.failed = nil
	c.out = r.AppendHead(c.out[:0], r.ID, r.Start, r.End)
	tail := r.Tail
	if len(c.out)+len(tail) <= scratch {
		c.out, tail = append(c.out, tail...), nil
	}
	last := c.out
	if len(tail) > 0 {
		if err := c.write(c.out); err != nil {
			return err
		}
		last = tail
	}
	var err error
	if a.Sent, err = c.turn(last); err != nil {
		return err
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
	switch {
	case h.chunked:
		err = c.chunks(a, keep)
	case h.length < 0:
		err = c.rest(a, keep)
	default:
		if err = c.part(a, h.length, keep); err == nil && c.events {
			c.countEvents(a, 0, 0)
		}
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
	if c.failed != nil {
		return c.failed
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

// head reads status and headers. Most are those of the answer before, to the byte: a
// date changes once a second.
func (c *httpConn) head() (h head, err error) {
	if n := len(c.known); n > 0 && bytes.HasPrefix(c.buffered(), c.known) {
		c.r += n
		return c.said, nil
	}
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
	c.known = append(c.known[:0], c.buffered()[:end+len(headEnd)]...)
	c.r += end + len(headEnd)
	if h, err = readHead(text); err != nil {
		c.known = c.known[:0]
	}
	c.said = h
	return h, err
}

// readHead reads status and headers, each with its end.
func readHead(text []byte) (h head, err error) {
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
	case h.length < 0 && !h.chunked && !h.last: // else the end of the connection is its end
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
	var at place
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
		if err := c.arrived(a, &at); err != nil {
			return err
		}
	}
}

// rest reads a body that ends with the connection.
func (c *httpConn) rest(a *Answer, keep int) error {
	var at place
	for {
		if err := c.part(a, len(c.buffered()), keep); err != nil {
			return err
		}
		if err := c.arrived(a, &at); err != nil {
			return err
		}
		if err := c.fill(4096); err != nil {
			if f, ok := errors.AsType[*Failure](err); ok && f.Kind == kindClosed {
				return nil
			}
			return err
		}
	}
}

// place is how far events have been counted in what is kept of an answer, and how far
// it has been looked through.
type place struct{ counted, seen int }

// arrived counts the events in what has come.
func (c *httpConn) arrived(a *Answer, at *place) error {
	if !c.events {
		return nil
	}
	if at.counted = c.countEvents(a, at.counted, at.seen); len(a.Body)-at.counted > maxEvent {
		return malformed("an event of more than %d bytes", maxEvent)
	}
	if !a.Keep { // an event is forgotten once it has been counted
		a.Body = a.Body[:copy(a.Body, a.Body[at.counted:])]
		at.counted = 0
	}
	at.seen = len(a.Body)
	return nil
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

// maxEvent bounds an event, in bytes.
const maxEvent = 16 << 20

// countEvents counts the events in the lines of a.Body from the byte from on, of which
// no line ends before seen, and returns where the first line begins that is not whole
// yet. An event that tells an error fails the request.
func (c *httpConn) countEvents(a *Answer, from, seen int) int {
	for {
		n := bytes.IndexByte(a.Body[seen:], '\n')
		if n < 0 {
			return from
		}
		line := a.Body[from : seen+n]
		seen += n + 1
		from = seen
		text, ok := bytes.CutPrefix(line, []byte("data:"))
		switch text = bytes.TrimSpace(text); {
		case !ok:
		case bytes.Equal(text, []byte("[DONE]")):
			if a.Times { // the peer's export has it
				a.At = append(a.At, Now())
			}
		default:
			if c.failed == nil && bytes.Contains(text, []byte(`"error"`)) {
				c.failed = eventError(text)
			}
			a.response(Now())
		}
	}
}

// eventError is the failure that an event tells, nil if it tells none.
func eventError(text []byte) *Failure {
	var event struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &event) != nil || len(event.Error) == 0 || string(event.Error) == "null" {
		return nil
	}
	return &Failure{Kind: "error in the stream", Text: errorText(text)}
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
