package openvino

import (
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
)

// newCore makes what reads and compiles models. Each version has its own:
// operators that one adds are not seen by others.
func (a *api) newCore() (uintptr, error) {
	core := new(uintptr)
	if err := a.call(fnCoreCreate, uintptr(unsafe.Pointer(core))); err != nil {
		return 0, err
	}
	return *core, nil
}

// devices names what the library can run on here.
func (a *api) devices(core uintptr) ([]string, error) {
	list := new([2]uintptr)
	if err := a.call(fnCoreDevices, core, uintptr(unsafe.Pointer(list))); err != nil {
		return nil, err
	}
	defer a.functions[fnDevicesFree].Call(uintptr(unsafe.Pointer(list)))
	var names []string
	for _, at := range unsafe.Slice((*uintptr)(library.Pointer(list[0])), int(list[1])) {
		names = append(names, library.GoString(at))
	}
	return names, nil
}
