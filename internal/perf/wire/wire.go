// Package wire owns requests as bytes: each is encoded once, before the load
// begins, in the form that the protocol sends, and what differs from request to
// request (the sequence) is written into places kept free for it. Open wire.go
// first, then http.go and grpc.go.
package wire

import (
	"strconv"

	"github.com/nesoserve/neso/internal/perf/data"
)

// Output is an output that is asked for; with a Region it is written there.
type Output struct {
	Name   string
	Region string
	Offset int64
	Size   int64
}

// Parameter of every request: Value is a string, an int64 or a bool.
type Parameter struct {
	Name  string
	Value any
}

// Call is what all requests of a run have in common.
type Call struct {
	Model, Version string
	Host           string // of the URL
	Path           string // of a protocol that is not KServe's
	Headers        [][2]string
	Parameters     []Parameter
	Outputs        []Output
	Sequence       bool
	JSONInput      bool
	JSONOutput     bool
	// Enable asks a decoupled model for a response that says it is the last.
	EmptyFinal bool
}

// Prepared is an encoded request. Head is what differs from request to request and
// is copied before it is changed; Tail never changes.
type Prepared struct {
	Head, Tail []byte
	Step       *data.Step
	id         int // where the sequence's id stands in Head; 0 without a sequence
	start, end int
	text       bool // as decimal text, instead of a varint
	algorithm  string
	compressed []byte
}

// Patched reports whether requests differ from each other.
func (p *Prepared) Patched() bool { return p.id > 0 }

// Size is the number of bytes of a request.
func (p *Prepared) Size() int { return len(p.Head) + len(p.Tail) }

// idWidth is how wide a sequence's id is: 20 digits of text, or ten bytes of varint.
const (
	idText   = 20
	idVarint = 10
)

// AppendHead appends Head with the sequence in its place.
func (p *Prepared) AppendHead(to []byte, id uint64, start, end bool) []byte {
	at := len(to)
	to = append(to, p.Head...)
	if p.id == 0 {
		return to
	}
	head := to[at:]
	if p.text {
		var digits [idText]byte
		text := strconv.AppendUint(digits[:0], id, 10)
		field := head[p.id : p.id+idText]
		for i := range field {
			field[i] = ' '
		}
		copy(field[idText-len(text):], text)
		putWord(head[p.start:], start)
		putWord(head[p.end:], end)
		return to
	}
	for i := range idVarint - 1 { // longer than it must be, which the format allows
		head[p.id+i] = byte(id>>(7*i)) | 0x80
	}
	head[p.id+idVarint-1] = byte(id >> 63)
	head[p.start], head[p.end] = bit(start), bit(end)
	return to
}

func putWord(field []byte, v bool) {
	if v {
		copy(field, "true ")
	} else {
		copy(field, "false")
	}
}

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// Compressed is the whole request compressed by the algorithm that Compress was
// called with, nil if it was not.
func (p *Prepared) Compressed(algorithm string) []byte {
	if p.algorithm != algorithm {
		return nil
	}
	return p.compressed
}

// Compress keeps the whole request in compressed form. A request that belongs to a
// sequence differs each time and is not kept.
func (p *Prepared) Compress(algorithm string, compress func(algorithm string, b []byte) []byte) {
	if !p.Patched() {
		p.algorithm, p.compressed = algorithm, compress(algorithm, append(p.AppendHead(nil, 0, false, false), p.Tail...))
	}
}
