package fil

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// api is an open treelite library: its functions by index.
type api struct {
	path      string
	functions [fnCount]library.Function
}

// Indices of the functions.
const (
	fnGetLastError = iota
	fnLoadXGBoostLegacy
	fnLoadXGBoostJSON
	fnLoadXGBoostUBJSON
	fnLoadLightGBM
	fnDeserializeFile
	fnFreeModel
	fnQueryNumTree
	fnQueryNumFeature
	fnGetInputType
	fnGetOutputType
	fnGetHeaderField
	fnGetTreeField
	fnParseConfig
	fnDeleteConfig
	fnPredict
	fnCount
)

var symbols = [fnCount]string{
	fnGetLastError:      "TreeliteGetLastError",
	fnLoadXGBoostLegacy: "TreeliteLoadXGBoostModelLegacyBinary", fnLoadXGBoostJSON: "TreeliteLoadXGBoostModelJSON",
	fnLoadXGBoostUBJSON: "TreeliteLoadXGBoostModelUBJSON", fnLoadLightGBM: "TreeliteLoadLightGBMModel",
	fnDeserializeFile: "TreeliteDeserializeModelFromFile", fnFreeModel: "TreeliteFreeModel",
	fnQueryNumTree: "TreeliteQueryNumTree", fnQueryNumFeature: "TreeliteQueryNumFeature",
	fnGetInputType: "TreeliteGetInputType", fnGetOutputType: "TreeliteGetOutputType",
	fnGetHeaderField: "TreeliteGetHeaderField", fnGetTreeField: "TreeliteGetTreeField",
	fnParseConfig: "TreeliteGTILParseConfig", fnDeleteConfig: "TreeliteGTILDeleteConfig", fnPredict: "TreeliteGTILPredict",
}

func openAPI(lib *library.Library) (*api, error) {
	a := &api{path: lib.Path}
	for i, name := range symbols {
		f, err := lib.Symbol(name)
		if err != nil {
			return nil, backend.Errorf(backend.Unavailable,
				"treelite at %s has no function %s (found through %s): Neso needs treelite 4.3 or a later 4: pip install 'treelite>=4.3,<5'",
				lib.Path, name, lib.Source)
		}
		a.functions[i] = f
	}
	return a, nil
}

// call calls a function that returns a status, and returns what the library
// says of a failure. The message belongs to the thread.
//
//go:uintptrescapes
func (a *api) call(index int, args ...uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if int32(a.functions[index].CallWith(args)) != 0 {
		return a.lastError()
	}
	return nil
}

// libraryError is a text of the library's.
type libraryError struct{ text string }

func (e *libraryError) Error() string { return e.text }

func (a *api) lastError() error {
	text := library.GoString(a.functions[fnGetLastError].Call())
	if text == "" {
		text = "treelite failed and does not say why"
	}
	return &libraryError{text: tidy(text)}
}

// text returns a string that a function leaves.
func (a *api) text(index int, handle uintptr) (string, error) {
	out := new(uintptr)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(out)
	if err := a.call(index, handle, uintptr(unsafe.Pointer(out))); err != nil {
		return "", err
	}
	return library.GoString(*out), nil
}

// frame is a view of a field of a model, in the library's memory.
type frame struct {
	start    uintptr
	format   uintptr
	itemSize uintptr
	items    uintptr
}

// field returns a field of the header (tree < 0) or of a tree, which must have
// elements of the size. It is valid as long as the model.
func field[T any](a *api, handle uintptr, tree int, name string) ([]T, error) {
	f := new(frame)
	var pins runtime.Pinner
	defer pins.Unpin()
	c := library.CString(name)
	pins.Pin(f)
	pins.Pin(c)
	var err error
	if tree < 0 {
		err = a.call(fnGetHeaderField, handle, uintptr(unsafe.Pointer(c)), uintptr(unsafe.Pointer(f)))
	} else {
		err = a.call(fnGetTreeField, handle, uintptr(tree), uintptr(unsafe.Pointer(c)), uintptr(unsafe.Pointer(f)))
	}
	if err != nil {
		return nil, err
	}
	var zero T
	if f.items == 0 || f.start == 0 {
		return nil, nil
	}
	if f.itemSize != unsafe.Sizeof(zero) {
		return nil, fmt.Errorf("field %s has elements of %d bytes, expected %d: the library is too new", name, f.itemSize, unsafe.Sizeof(zero))
	}
	return unsafe.Slice((*T)(library.Pointer(f.start)), int(f.items)), nil
}
