// Package coding owns the content codings of replies: which one a client takes, and the
// compression.
package coding

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// Coding is a content coding of replies.
type Coding uint8

// The codings.
const (
	None Coding = iota
	Gzip
	Deflate
)

// Choose picks the coding with the highest weight among those we have;
// of equal ones the first. A wildcard says nothing.
func Choose(accept []string) Coding {
	best, weight := None, 0.0
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			name, param, _ := strings.Cut(part, ";")
			q := 1.0
			if v, ok := strings.CutPrefix(strings.TrimSpace(param), "q="); ok {
				var err error
				if q, err = strconv.ParseFloat(v, 64); err != nil {
					continue
				}
			}
			var c Coding
			switch strings.TrimSpace(name) {
			case "gzip":
				c = Gzip
			case "deflate":
				c = Deflate
			case "identity":
			default:
				continue
			}
			if q > weight {
				best, weight = c, q
			}
		}
	}
	return best
}

var (
	gzipWriters = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
		return w
	}}
	zlibWriters = sync.Pool{New: func() any {
		w, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed)
		return w
	}}
)

// Compress returns the parts, compressed. Writing into memory cannot fail.
func Compress(c Coding, parts ...[]byte) []byte {
	var out bytes.Buffer
	var w interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	pool := &gzipWriters
	if c == Deflate {
		pool = &zlibWriters
	}
	w = pool.Get().(interface {
		io.WriteCloser
		Reset(io.Writer)
	})
	w.Reset(&out)
	for _, p := range parts {
		_, _ = w.Write(p)
	}
	_ = w.Close()
	w.Reset(nil)
	pool.Put(w)
	return out.Bytes()
}
