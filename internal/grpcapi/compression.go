package grpcapi

import (
	"bufio"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"google.golang.org/grpc/encoding"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/grpcapi/transport"
	"github.com/nesoserve/neso/internal/setting"
)

const (
	nameGzip    = "gzip"
	nameDeflate = "deflate"
)

// A compressed message may expand to freeExpansion bytes, or to maxExpansion
// times what it had on the wire, whichever is more: a small message must not
// make the server hold gigabytes before anything has been admitted.
const (
	freeExpansion = 64 << 20
	maxExpansion  = 64
)

// compressors are those of this server, never of the process: what else the
// program links has none of these bounds.
var compressors = map[string]encoding.Compressor{
	nameGzip: &compressor{
		name:      nameGzip,
		newWriter: func(w io.Writer) resetWriter { z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed); return z },
		newReader: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		reset:     func(z, r io.Reader) error { return z.(*gzip.Reader).Reset(r) },
	},
	nameDeflate: &compressor{
		name:      nameDeflate,
		newWriter: func(w io.Writer) resetWriter { return zlib.NewWriter(w) },
		newReader: func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
		reset:     func(z, r io.Reader) error { return z.(zlib.Resetter).Reset(r, nil) },
	},
}

type resetWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

// compressor is one encoding. Its readers and writers hold large tables, so
// they are kept.
type compressor struct {
	name      string
	newWriter func(io.Writer) resetWriter
	newReader func(io.Reader) (io.Reader, error)
	reset     func(z, r io.Reader) error
	writers   sync.Pool
	readers   sync.Pool
}

func (c *compressor) Name() string { return c.name }

// Compress returns a writer that compresses into w.
func (c *compressor) Compress(w io.Writer) (io.WriteCloser, error) {
	z, ok := c.writers.Get().(resetWriter)
	if ok {
		z.Reset(w)
	} else {
		z = c.newWriter(w)
	}
	return &compressing{resetWriter: z, c: c}, nil
}

type compressing struct {
	resetWriter
	c *compressor
}

func (w *compressing) Close() error {
	err := w.resetWriter.Close()
	w.Reset(io.Discard)
	w.c.writers.Put(w.resetWriter)
	return err
}

// Decompress returns a reader of what r holds, which fails when it expands too
// much.
func (c *compressor) Decompress(r io.Reader) (io.Reader, error) {
	d := &decompressing{c: c, in: counter{r: r}}
	d.buffered = bufio.NewReaderSize(&d.in, 4096)
	z, ok := c.readers.Get().(io.Reader)
	var err error
	if ok {
		err = c.reset(z, d.buffered)
	} else {
		z, err = c.newReader(d.buffered)
	}
	if err != nil {
		if ok {
			c.readers.Put(z)
		}
		return nil, err
	}
	d.z = z
	return d, nil
}

// counter counts what was read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

type decompressing struct {
	c        *compressor
	in       counter
	buffered *bufio.Reader
	z        io.Reader
	out      int64
}

func (d *decompressing) Read(p []byte) (int, error) {
	n, err := d.z.Read(p)
	d.out += int64(n)
	if d.out > max(freeExpansion, maxExpansion*d.in.n) {
		return 0, backend.Errorf(backend.InvalidArg, "message expands to more than %d bytes and %d times its compressed size",
			int64(freeExpansion), maxExpansion)
	}
	return n, err
}

// Close keeps the reader for the next message.
func (d *decompressing) Close() error {
	d.c.readers.Put(d.z)
	d.z = nil
	return nil
}

// compression sets how an inference response is compressed: as the server is
// configured, where the client can read it. To answer as it was asked is not
// the peer's habit.
func (s *Server) compression(stream transport.Stream) {
	if len(s.encodings) == 0 {
		return
	}
	accepted := stream.Accepts()
	for _, name := range s.encodings {
		if slices.Contains(accepted, name) {
			stream.SetSendCompress(name)
			return
		}
	}
}

// encodingsOf returns the encodings of a compression level in order of
// preference: low is fast, the others are small. The error is in these words.
func encodingsOf(level string, words setting.Words) ([]string, error) {
	switch level {
	case "", "none":
		return nil, nil
	case "low":
		return []string{nameGzip, nameDeflate}, nil
	case "medium", "high":
		return []string{nameDeflate, nameGzip}, nil
	}
	return nil, backend.Errorf(backend.InvalidArg, "invalid argument for %s: '%s', expected none, low, medium or high",
		words.Name("grpc-infer-response-compression-level"), level)
}
