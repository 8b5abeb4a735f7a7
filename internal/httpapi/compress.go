package httpapi

import (
	"bufio"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/nesoserve/neso/backend"
)

// decoder undoes the compression of a body and gives itself back.
type decoder struct {
	io.Reader
	source *bufio.Reader
	// inflated counts what comes out; nil: what goes in is all there is.
	inflated interface{ count(n int64) error }
	gzip     *gzip.Reader
	zlib     io.ReadCloser
}

var decoders = sync.Pool{New: func() any { return &decoder{source: bufio.NewReaderSize(nil, 16<<10)} }}

// decompress returns a reader of the plain body. Which of the two compressions
// it is shows in the data, whatever the header says, as zlib does it.
func decompress(header []string, r io.Reader) (*decoder, error) {
	if len(header) == 0 || header[0] == "" || header[0] == "identity" {
		return &decoder{Reader: r}, nil
	}
	if header[0] != "gzip" && header[0] != "deflate" {
		return nil, errCoding
	}
	d := decoders.Get().(*decoder)
	d.source.Reset(r)
	head, err := d.source.Peek(2)
	switch {
	case len(head) == 0:
		err = backend.Errorf(backend.InvalidArg, "nothing to be decompressed")
	case len(head) < 2:
		err = broken(err)
	case head[0] == 0x1f && head[1] == 0x8b:
		if d.gzip == nil {
			d.gzip, err = gzip.NewReader(d.source)
		} else {
			err = d.gzip.Reset(d.source)
		}
		d.Reader = d.gzip
	case d.zlib == nil:
		d.zlib, err = zlib.NewReader(d.source)
		d.Reader = d.zlib
	default:
		err = d.zlib.(zlib.Resetter).Reset(d.source, nil)
		d.Reader = d.zlib
	}
	if err != nil {
		// The readers may be half set up.
		return nil, broken(err)
	}
	return d, nil
}

var errCoding = backend.Errorf(backend.Unsupported, "Unsupported compression type")

// broken explains an error of the data; others stay as they are.
func broken(err error) error {
	if refused(err) || isTimeout(err) {
		return err
	}
	return backend.Errorf(backend.InvalidArg, "failed to decompress the request body: %v", err)
}

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && err != io.EOF && d.source != nil { //nolint:errorlint // readers return it as it is
		err = broken(err)
	}
	if d.inflated != nil && n > 0 {
		if fault := d.inflated.count(int64(n)); fault != nil {
			return 0, fault
		}
	}
	return n, err
}

// Close gives the decoder back.
func (d *decoder) Close() {
	if d.source != nil {
		d.Reader, d.inflated = nil, nil
		d.source.Reset(nil)
		decoders.Put(d)
	}
}
