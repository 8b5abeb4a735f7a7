package tensor

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// BytesError describes malformed BYTES data.
type BytesError struct {
	Element int  // index of the element at fault
	Offset  int  // byte offset of that element's length
	Want    int  // bytes needed there
	Have    int  // bytes left
	Prefix  bool // the four-byte length itself is cut off
}

func (e *BytesError) Error() string {
	if e.Prefix {
		return fmt.Sprintf("incomplete string length indicator at offset %d (element %d), expecting 4 bytes but only %d bytes available",
			e.Offset, e.Element, e.Have)
	}
	return fmt.Sprintf("incomplete string data at offset %d (element %d), expecting string of length %d but only %d bytes available", e.Offset,
		e.Element, e.Want, e.Have)
}

// CountBytes returns the number of elements in BYTES data, or a *BytesError.
func CountBytes(data []byte) (int, error) {
	n := 0
	for off := 0; off < len(data); n++ {
		left := len(data) - off
		if left < 4 {
			return n, &BytesError{Element: n, Offset: off, Want: 4, Have: left, Prefix: true}
		}
		size := binary.LittleEndian.Uint32(data[off:])
		if uint64(size) > uint64(left-4) {
			return n, &BytesError{Element: n, Offset: off, Want: int(size), Have: left - 4}
		}
		off += 4 + int(size)
	}
	return n, nil
}

// Elements ranges over the elements of BYTES data as views into it. It stops
// at malformed data; check with CountBytes first.
func Elements(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for i := 0; len(data) >= 4; i++ {
			size := binary.LittleEndian.Uint32(data)
			if uint64(size) > uint64(len(data)-4) {
				return
			}
			if !yield(i, data[4:4+int(size):4+int(size)]) {
				return
			}
			data = data[4+int(size):]
		}
	}
}

// AppendElement appends one element in BYTES form to dst.
func AppendElement[T ~string | ~[]byte](dst []byte, element T) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(element)))
	return append(dst, element...)
}

// SplitBytes returns how many bytes the first n elements of data take up. It
// fails with a *BytesError when data holds fewer or is malformed.
func SplitBytes(data []byte, n int) (int, error) {
	off := 0
	for i := range n {
		left := len(data) - off
		if left < 4 {
			return 0, &BytesError{Element: i, Offset: off, Want: 4, Have: left, Prefix: true}
		}
		size := binary.LittleEndian.Uint32(data[off:])
		if uint64(size) > uint64(left-4) {
			return 0, &BytesError{Element: i, Offset: off, Want: int(size), Have: left - 4}
		}
		off += 4 + int(size)
	}
	return off, nil
}
