package onnxruntime

import (
	"maps"
	"runtime"
	"slices"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
)

// cArray is an array of C strings. It is pinned, since its elements point into
// Go's heap and C reads through them.
type cArray struct {
	table  []*byte
	pinner *runtime.Pinner
}

func newCArray(strings []string) cArray {
	a := cArray{table: make([]*byte, len(strings)), pinner: &runtime.Pinner{}}
	for i, s := range strings {
		a.table[i] = library.CString(s)
		a.pinner.Pin(a.table[i])
	}
	if len(a.table) > 0 {
		a.pinner.Pin(&a.table[0])
	}
	return a
}

func (a *cArray) free() {
	if a.pinner != nil {
		a.pinner.Unpin()
	}
}

// address of the i-th string.
func (a *cArray) address(i int) uintptr { return uintptr(unsafe.Pointer(a.table[i])) }

// cStrings returns keys and values as two arrays in one order.
func cStrings(m map[string]string) (keys, values cArray) {
	names := slices.Sorted(maps.Keys(m))
	var texts []string
	for _, name := range names {
		texts = append(texts, m[name])
	}
	return newCArray(names), newCArray(texts)
}
