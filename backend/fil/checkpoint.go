package fil

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// checkCheckpoint sees that a checkpoint of treelite 4 is whole: the library
// takes for a number whatever lies in memory where the file has ended. Others are
// left to it.
func checkCheckpoint(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return walkCheckpoint(f, info.Size())
}

// walkCheckpoint goes over the fields of a checkpoint without reading what is in
// its lists.
func walkCheckpoint(r io.ReaderAt, size int64) error {
	w := &checkpointWalk{r: r, size: size, tree: -1}
	if w.number(4) != 4 {
		return w.err
	}
	w.skip(8) // the rest of the version
	threshold, leaf := w.element(), w.element()
	trees := w.number(8)
	w.skip(4 + 1 + 1 + 4) // features, task, average, targets
	for _, element := range []uint64{4, 4, 4, 4, 1} {
		w.list(element) // classes, shape of a leaf, targets and classes of trees, postprocessor
	}
	w.skip(4 + 4)
	w.list(8) // base scores
	w.list(1) // attributes
	if w.optional() {
		return nil // of a later version
	}
	for n := uint64(0); n < trees && w.err == nil; n++ {
		w.tree, w.trees = int64(n), trees
		w.skip(4 + 1)
		for _, element := range []uint64{
			1, 4, 4, 4, 1, leaf, threshold, 1, 1, // nodes: kind, children, feature, default, value, threshold, comparison, side
			leaf, 8, 8, 4, 8, 8, // lists of leaves and of categories, with where those of a node begin and end
			8, 1, 8, 1, 8, 1, // statistics
		} {
			w.list(element)
		}
		ofTree := w.optional()
		if ofNodes := w.optional(); ofTree || ofNodes {
			return nil
		}
	}
	return w.err
}

// checkpointWalk is a place in a checkpoint. After an error it stays there.
type checkpointWalk struct {
	r        io.ReaderAt
	at, size int64
	tree     int64 // that is gone over; -1 in the head
	trees    uint64
	err      error
	buf      [8]byte
}

// skip goes over bytes.
func (w *checkpointWalk) skip(n uint64) {
	switch {
	case w.err != nil:
	case n > uint64(w.size-w.at):
		where := "its head"
		if w.tree >= 0 {
			where = fmt.Sprintf("tree %d of %d", w.tree, w.trees)
		}
		w.err = fmt.Errorf("it ends at offset %d within %s, where %d bytes from offset %d on are missing: the file is not whole", w.size, where,
			n-uint64(w.size-w.at), w.at)
	default:
		w.at += int64(n)
	}
}

// number reads an unsigned number of so many bytes; 0 after an error.
func (w *checkpointWalk) number(bytes int) uint64 {
	from := w.at
	if w.skip(uint64(bytes)); w.err != nil {
		return 0
	}
	w.buf = [8]byte{}
	if _, err := w.r.ReadAt(w.buf[:bytes], from); err != nil {
		w.err = err
	}
	return binary.LittleEndian.Uint64(w.buf[:])
}

// element reads a datatype and returns the bytes of its elements.
func (w *checkpointWalk) element() uint64 {
	if w.number(1) == 3 { // of 64 bits, the others have 32
		return 8
	}
	return 4
}

// list goes over a list of elements of so many bytes, with their number in front.
func (w *checkpointWalk) list(element uint64) {
	n := w.number(8)
	if n > uint64(w.size)/element {
		n = uint64(w.size) / element
		w.skip(n*element + 1) // more than there is
		return
	}
	w.skip(n * element)
}

// optional reads how many fields of a later version follow.
func (w *checkpointWalk) optional() bool { return w.number(4) != 0 }
