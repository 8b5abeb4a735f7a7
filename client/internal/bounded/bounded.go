// Package bounded reads what a server sends and holds no more than was agreed, and
// compresses requests.
package bounded

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// trusted is how many bytes are allocated on the word of a server alone; beyond
// that memory grows with what has come.
const trusted = 16 << 20

// Lead returns how many bytes to leave free before a message so that what stands at
// an offset in it is aligned for any number, and can be read where it lies.
func Lead(offset int) int { return -offset & (alignment - 1) }

// alignment of what is large; Go aligns what it allocates of the sizes in question
// at least so.
const alignment = 64

// ReadAll reads r to its end. declared is the length that the server says, or -1. So
// many bytes as lead says are left free before what it returns, see Lead.
func ReadAll(r io.Reader, declared, limit int64, lead int) ([]byte, error) {
	if declared > limit {
		return nil, tooLong(limit)
	}
	limit = min(limit, math.MaxInt64-1-int64(lead)-1) // what is one more than it is a number, too
	size := int64(512)
	if declared >= 0 {
		size = min(declared, trusted)
	}
	b := make([]byte, lead, int64(lead)+size)[lead:]
	for {
		if len(b) == cap(b) {
			if declared == int64(len(b)) {
				return b, nil // read to its end, whatever the reader says next
			}
			grown := max(2*int64(cap(b)), 512)
			if declared >= 0 {
				grown = min(grown, declared)
			}
			b = append(make([]byte, lead, int64(lead)+min(grown, limit+1))[lead:], b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			return nil, tooLong(limit)
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func tooLong(limit int64) error { return fmt.Errorf("the answer is longer than %d bytes", limit) }

// The encodings of bodies.
const (
	Gzip    = "gzip"
	Deflate = "deflate"
)

// Known reports whether an encoding can be read and written; "" is none at all.
func Known(encoding string) bool { return encoding == "" || encoding == Gzip || encoding == Deflate }

var writers sync.Pool // of *gzip.Writer, which hold large tables

// Compress returns the parts, one behind the other, compressed.
func Compress(encoding string, parts [][]byte) ([]byte, error) {
	var out bytes.Buffer
	var z io.WriteCloser
	switch encoding {
	case Gzip:
		w, ok := writers.Get().(*gzip.Writer)
		if !ok {
			w, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed)
		}
		defer writers.Put(w)
		w.Reset(&out)
		z = w
	case Deflate:
		z, _ = zlib.NewWriterLevel(&out, zlib.BestSpeed)
	default:
		return nil, fmt.Errorf("unknown compression %q, expected %q or %q", encoding, Gzip, Deflate)
	}
	for _, p := range parts {
		if _, err := z.Write(p); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return out.Bytes(), err
}

// Expand returns a reader of what r holds in an encoding. It may expand to any
// length: ReadAll bounds it.
func Expand(encoding string, r io.Reader) (io.Reader, error) {
	switch encoding {
	case "", "identity":
		return r, nil
	case Gzip:
		return gzip.NewReader(r)
	case Deflate:
		return zlib.NewReader(r)
	}
	return nil, fmt.Errorf("the answer has the encoding %q, expected %q or %q", encoding, Gzip, Deflate)
}
