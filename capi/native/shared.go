//go:build cgo

package native

// #include "loader.h"
import "C"

import (
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/capi/object"
)

// Entry is a function of a library: where its address is to be put.
type Entry struct {
	Name     string
	To       *unsafe.Pointer
	Required bool // the others are nil where the library lacks them
}

// Link opens the library in a file as backends are opened, all symbols at once, none
// shown to others, and looks up functions of it. The error is the loader's, and says
// what to do about it where that is known, or names the first function that is required
// and lacks.
func Link(path string, list []Entry) (dl unsafe.Pointer, err error) {
	file := object.NewText(path)
	defer object.FreeText(file)
	var why said
	if dl = C.neso_open((*C.char)(at(file)), why.room(), C.size_t(len(why))); dl == nil {
		return nil, backend.Errorf(backend.NotFound, "unable to load shared library: %s%s", why.text(), hint(why.text()))
	}
	for _, f := range list {
		name := object.NewText(f.Name)
		*f.To = C.neso_symbol(dl, (*C.char)(at(name)), why.room(), C.size_t(len(why)))
		object.FreeText(name)
		if *f.To == nil && f.Required {
			C.neso_close(dl) // nothing of it has been called
			return nil, backend.Errorf(backend.NotFound, "unable to find required entrypoint '%s' in shared library: %s", f.Name, why.text())
		}
	}
	return dl, nil
}

// Preload opens the library of the server, which is this one, by other names by which
// a library asks for it.
func Preload(names []string) {
	for _, name := range names {
		c := object.NewText(name)
		C.neso_known((*C.char)(at(c)))
		object.FreeText(c)
	}
}

// Catch has the process die of what C does wrong as a program of C does, and say whose
// fault it was if that is known.
func Catch() { C.neso_catch() }

// said is room for what the loader says.
type said [2048]byte

func (s *said) room() *C.char { return (*C.char)(unsafe.Pointer(&s[0])) }

func (s *said) text() string { return C.GoString(s.room()) }
