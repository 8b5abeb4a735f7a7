package modelfile

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// External checks where the tensors of an ONNX file lie that are not in it: the
// file names them, and a library reads them with the server's rights. A path that
// leads out of the file's directory, by itself or by a link, is INVALID_ARG. What is
// no ONNX file is nil: the library knows better what it is. So is a path to
// nothing.
func External(cfg *backend.Config, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // the library says so
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	places, err := externalPlaces(f, info.Size())
	if errors.Is(err, errTooMany) {
		return backend.Errorf(backend.InvalidArg, "'%s' of model '%s' names more files of external data than %d, or a path of more than %d bytes",
			filepath.Base(path), cfg.Name, maxPlaces, maxPlace)
	}
	for _, place := range places {
		if why := leaves(path, place); why != "" {
			return backend.Errorf(backend.InvalidArg, "'%s' of model '%s' has external data in '%s', which %s: write it beside the model",
				filepath.Base(path), cfg.Name, place, why)
		}
	}
	return nil
}

// leaves says why a path of external data is not in the directory of the file that
// names it, "" for one that is. Where the file itself is a link, as in a cache of
// downloads, its data may lie beside that or beside what it leads to.
func leaves(file, place string) string {
	if strings.HasPrefix(place, inMemory) {
		return "means an address in memory"
	}
	local := filepath.FromSlash(place)
	if filepath.IsAbs(local) || strings.HasPrefix(place, "/") {
		return "is absolute"
	}
	if !filepath.IsLocal(local) {
		return "leads out of its directory"
	}
	dir := filepath.Dir(file)
	target, err := filepath.EvalSymlinks(filepath.Join(dir, local))
	if err != nil {
		return "" // nothing is there, which the library says
	}
	for _, beside := range []string{dir, resolvedDir(file)} {
		if real, err := filepath.EvalSymlinks(beside); err == nil {
			if rel, err := filepath.Rel(real, target); err == nil && filepath.IsLocal(rel) {
				return ""
			}
		}
	}
	return "is a link out of its directory"
}

func resolvedDir(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		real = file
	}
	return filepath.Dir(real)
}

// inMemory is how ONNX Runtime marks what it has put into a model itself.
const inMemory = "*/_ORT_MEM_ADDR_/*"

const (
	maxPlaces = 100_000
	maxPlace  = 4096
	// maxNesting bounds graphs in attributes of nodes of graphs.
	maxNesting = 200
)

var (
	errTooMany = errors.New("too many external tensors")
	errNotOnnx = errors.New("not the protobuf of a model")
)

// message is a kind of message in an ONNX file that external data may be below.
type message uint8

const (
	ofModel message = iota + 1
	ofGraph
	ofNode
	ofAttribute
	ofSparse
	ofFunction
	ofTensor
	ofEntry
)

// below are the fields that lead to external data. All others are passed over, the
// weights among them.
var below = map[message]map[uint64]message{
	ofModel:     {7: ofGraph, 25: ofFunction},
	ofGraph:     {1: ofNode, 5: ofTensor, 15: ofSparse},
	ofNode:      {5: ofAttribute},
	ofAttribute: {5: ofTensor, 6: ofGraph, 10: ofTensor, 11: ofGraph, 22: ofSparse, 23: ofSparse},
	ofSparse:    {1: ofTensor, 2: ofTensor},
	ofFunction:  {7: ofNode, 11: ofAttribute},
	ofTensor:    {13: ofEntry},
}

// walk goes through a file once, from its beginning to its end.
type walk struct {
	f      io.ReadSeeker
	r      *bufio.Reader
	at     int64
	places map[string]struct{}
}

// externalPlaces returns the files that an ONNX file of that size names.
func externalPlaces(f io.ReadSeeker, size int64) ([]string, error) {
	w := &walk{f: f, r: bufio.NewReaderSize(f, 64<<10), places: map[string]struct{}{}}
	err := w.message(ofModel, size, 0)
	var places []string
	for place := range w.places {
		places = append(places, place)
	}
	return places, err
}

// message reads one up to its end.
func (w *walk) message(kind message, end int64, depth int) error {
	if depth > maxNesting {
		return errNotOnnx
	}
	var key, value string
	for w.at < end {
		tag, err := w.varint(end)
		if err != nil {
			return err
		}
		switch tag & 7 {
		case 0:
			if _, err := w.varint(end); err != nil {
				return err
			}
		case 1:
			err = w.skip(8, end)
		case 5:
			err = w.skip(4, end)
		case 2:
			n, bad := w.varint(end)
			if bad != nil || n > uint64(end-w.at) {
				return errNotOnnx
			}
			field, length := tag>>3, int64(n)
			switch child, ok := below[kind][field]; {
			case ok:
				err = w.message(child, w.at+length, depth+1)
			case kind == ofEntry && field == 1:
				key, err = w.text(length)
			case kind == ofEntry && field == 2:
				value, err = w.text(length)
			default:
				err = w.skip(length, end)
			}
		default:
			return errNotOnnx
		}
		if err != nil {
			return err
		}
	}
	if key == "location" {
		if len(value) > maxPlace || len(w.places) >= maxPlaces {
			return errTooMany
		}
		w.places[value] = struct{}{}
	}
	return nil
}

func (w *walk) varint(end int64) (v uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		if w.at >= end {
			return 0, errNotOnnx
		}
		b, err := w.r.ReadByte()
		if err != nil {
			return 0, errNotOnnx
		}
		w.at++
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errNotOnnx
}

// text reads a short one; of a longer one the beginning, which is too long all the
// same.
func (w *walk) text(n int64) (string, error) {
	b := make([]byte, min(n, maxPlace+1))
	if _, err := io.ReadFull(w.r, b); err != nil {
		return "", errNotOnnx
	}
	w.at += int64(len(b))
	return string(b), w.skip(n-int64(len(b)), w.at+n-int64(len(b)))
}

// skip passes over n bytes, of which large parts are not read.
func (w *walk) skip(n, end int64) error {
	if n > end-w.at {
		return errNotOnnx
	}
	w.at += n
	if n <= int64(w.r.Buffered()) {
		_, err := w.r.Discard(int(n))
		return err
	}
	if _, err := w.f.Seek(w.at, io.SeekStart); err != nil {
		return err
	}
	w.r.Reset(w.f)
	return nil
}
