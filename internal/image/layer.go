package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer is a tree that is written, as a compressed archive in a file.
type layer struct {
	file           string
	digest, diffID v1.Hash
	size           int64
}

// Layer writes a tree into a file of dir, and returns it as a layer. The same tree
// gives the same bytes: files stand in the order of their names, all of the time
// given.
func (t *Tree) Layer(dir string, at time.Time) (l v1.Layer, err error) {
	f, err := os.CreateTemp(dir, "layer-*.tar.gz")
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	outer, inner := sha256.New(), sha256.New()
	size := &counter{}
	buffered := bufio.NewWriterSize(io.MultiWriter(f, outer, size), 1<<20)
	// The compression is the same on every machine for one Go version,
	// which go.mod names.
	zipped := gzip.NewWriter(buffered)
	if err := t.archive(io.MultiWriter(zipped, inner), at); err != nil {
		return nil, err
	}
	if err := errors.Join(zipped.Close(), buffered.Flush()); err != nil {
		return nil, err
	}
	return &layer{file: filepath.Clean(f.Name()), digest: sum(outer), diffID: sum(inner), size: size.n}, nil
}

// archive writes the tree in the tar format.
func (t *Tree) archive(w io.Writer, at time.Time) error {
	out := tar.NewWriter(w)
	buffer := make([]byte, 1<<20)
	for _, name := range t.names() {
		e := t.entries[name]
		h := &tar.Header{
			Name: name, Mode: int64(e.mode.Perm()), ModTime: at.UTC().Truncate(time.Second), Typeflag: tar.TypeReg, Size: e.size,
			Format: tar.FormatPAX,
		}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		switch {
		case e.mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
		case e.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := e.copyTo(out, buffer); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return out.Close()
}

// copyTo writes the content of a file, whose size is the one that was announced.
func (e *entry) copyTo(w io.Writer, buffer []byte) error {
	r, err := e.open()
	if err != nil {
		return err
	}
	defer r.Close()
	n, err := io.CopyBuffer(w, io.LimitReader(r, e.size+1), buffer)
	if errors.Is(err, tar.ErrWriteTooLong) || err == nil && n != e.size {
		return errChanged
	}
	return err
}

// counter counts what is written.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// Digest implements v1.Layer.
func (l *layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID implements v1.Layer.
func (l *layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Size implements v1.Layer.
func (l *layer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer.
func (l *layer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

// Compressed implements v1.Layer.
func (l *layer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Uncompressed implements v1.Layer.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	f, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &unzipped{Reader: r, file: f}, nil
}

// unzipped closes the file below, too.
type unzipped struct {
	*gzip.Reader
	file *os.File
}

func (u *unzipped) Close() error { return errors.Join(u.Reader.Close(), u.file.Close()) }
