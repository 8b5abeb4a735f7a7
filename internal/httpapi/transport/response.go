package transport

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// frontRoom is left free before a buffered body for the head, so that both go
	// out in one piece.
	frontRoom = 512
	// joined is up to what size a body is copied behind its head: a second piece
	// costs the system about as much as copying that.
	joined = 16 << 10
	// keptOutput is how large an output buffer is kept for others.
	keptOutput = 64 << 10
)

// outputs are buffers of at least frontRoom bytes.
var outputs = sync.Pool{New: func() any {
	b := make([]byte, frontRoom, 4<<10)
	return &b
}}

// response is the writer of a hot request's answer.
type response struct {
	x      *exchange
	header http.Header
	status int
	begun  bool // the head has been sent
	ended  bool // it said that the connection ends
	failed bool
	out    *[]byte // frontRoom, then the body as far as it has been written
	sent   int     // of the body, in bytes
	length int     // of the body, as declared
	front  []byte  // where heads are made
	fields []field // of the header, while a head is made
	pieces net.Buffers
}

// field is a name in a header with its values.
type field struct {
	name   string
	values []string
}

func (r *response) reset() {
	clear(r.header)
	r.status, r.begun, r.ended, r.failed, r.sent, r.length = 0, false, false, false, 0, noLength
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements http.ResponseWriter. A large body goes out at once if its
// length has been declared; else it is kept until the handler returns.
func (r *response) Write(b []byte) (int, error) {
	if !r.begun && (len(b) <= joined || r.declared() == noLength) {
		if r.out == nil {
			r.out = outputs.Get().(*[]byte)
		}
		*r.out = append(*r.out, b...)
		return len(b), nil
	}
	return len(b), r.WriteParts(b, nil)
}

// WriteParts writes several pieces of the body together.
func (r *response) WriteParts(first []byte, more [][]byte) error {
	if !r.begun && r.declared() == noLength {
		for _, b := range append([][]byte{first}, more...) {
			_, _ = r.Write(b) // into memory
		}
		return nil
	}
	r.pieces = r.pieces[:0]
	if !r.begun {
		r.pieces = append(r.pieces, r.begin(r.declared()))
		if r.out != nil {
			r.pieces = append(r.pieces, (*r.out)[frontRoom:])
		}
	}
	r.pieces = append(r.pieces, first)
	r.pieces = append(r.pieces, more...)
	return r.send()
}

// send writes r.pieces, the first of which is the head if the body has not begun.
func (r *response) send() error {
	all := r.pieces // WriteTo eats its receiver
	n, err := r.pieces.WriteTo(r.x.c.Conn)
	clear(all)
	r.pieces = all
	r.sent += int(n)
	r.failed = r.failed || err != nil
	return err
}

// declared returns the Content-Length that the handler has set.
func (r *response) declared() int {
	if v := r.header["Content-Length"]; len(v) == 1 {
		if n, err := strconv.Atoi(v[0]); err == nil && n >= 0 {
			return n
		}
	}
	return noLength
}

// begin makes the head. What the client still sends of the request is read
// before, as net/http does it.
func (r *response) begin(length int) []byte {
	r.begun = true
	r.ended = !r.x.body.settle() || r.x.c.lastOne()
	if r.status == 0 {
		r.status = http.StatusOK
	}
	b := append(r.front[:0], "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(r.status)...)
	b = append(b, "\r\n"...)
	dated := false
	r.fields = r.fields[:0]
	for name, values := range r.header {
		switch name {
		case "Content-Length":
			continue
		case "Connection":
			r.ended = r.ended || slices.Contains(values, "close")
			continue
		case "Date":
			dated = values != nil
		}
		r.fields = append(r.fields, field{name, values})
	}
	// Equal answers have equal heads, as from net/http.
	slices.SortFunc(r.fields, func(x, y field) int { return strings.Compare(x.name, y.name) })
	for _, f := range r.fields {
		for _, v := range f.values {
			b = appendField(b, f.name, v)
		}
	}
	if !dated {
		b = appendField(b, "Date", time.Now().UTC().Format(http.TimeFormat))
	}
	if r.ended {
		b = appendField(b, "Connection", "close")
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	b = append(b, "\r\n\r\n"...)
	r.front = b
	r.length = length
	r.sent = -len(b)
	return b
}

// appendField appends a field. As in net/http, a value cannot end it.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		value = strings.NewReplacer("\r", " ", "\n", " ").Replace(value)
	}
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// finish sends what has not been sent. It reports whether the connection can go
// on.
func (r *response) finish() bool {
	if !r.begun {
		r.flush()
	}
	if r.out != nil {
		if cap(*r.out) <= keptOutput {
			*r.out = (*r.out)[:frontRoom]
			outputs.Put(r.out)
		}
		r.out = nil
	}
	return !r.ended && !r.failed && r.sent == r.length
}

// flush sends a buffered answer.
func (r *response) flush() {
	if r.out == nil {
		r.out = outputs.Get().(*[]byte)
	}
	out := *r.out
	length := r.declared()
	if length == noLength {
		length = len(out) - frontRoom
	}
	head := r.begin(length)
	if len(head) > frontRoom {
		r.pieces = append(r.pieces[:0], head, out[frontRoom:])
		_ = r.send() // it is noted
		return
	}
	start := frontRoom - len(head)
	copy(out[start:], head)
	n, err := r.x.c.transmit(out[start:])
	r.sent += n
	r.failed = err != nil
}

// SetReadDeadline bounds the arrival of the body, as http.ResponseController has
// it. There is no bound to take away once it is there: net/http's would end the
// connection, those here are looked at again.
func (r *response) SetReadDeadline(t time.Time) error {
	if r.x.body.left > 0 || !t.IsZero() {
		r.x.body.timed = true
		r.x.c.armAt(t)
	}
	return nil
}

// SetWriteDeadline bounds the sending of the answer, as http.ResponseController
// has it.
func (r *response) SetWriteDeadline(t time.Time) error { return r.x.c.SetWriteDeadline(t) }
