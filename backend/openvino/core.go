package openvino

import (
	"runtime"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
)

// newCore makes what reads and compiles models.
func (a *api) newCore() (uintptr, error) {
	core := new(uintptr)
	if err := a.call(fnCoreCreate, uintptr(unsafe.Pointer(core))); err != nil {
		return 0, err
	}
	// A mapped file would end the server when somebody shortens it.
	key, no, all := library.CString("ENABLE_MMAP"), library.CString("NO"), library.CString("")
	// a version without mappings
	_ = a.call(fnCoreSetProperty, *core, uintptr(unsafe.Pointer(all)), uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(no)))
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

// property is an entry of the library's list of settings.
type property struct{ key, value *byte }

// compile makes a model ready to run on a device.
func (a *api) compile(core, model uintptr, device string, settings [][2]string) (uintptr, error) {
	compiled, name := new(uintptr), library.CString(device)
	list := make([]property, len(settings)+1)
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(compiled)
	pins.Pin(name)
	pins.Pin(&list[0])
	for i, s := range settings {
		list[i] = property{library.CString(s[0]), library.CString(s[1])}
		pins.Pin(list[i].key)
		pins.Pin(list[i].value)
	}
	if a.compileWith != 0 {
		err := a.invoke(a.compileWith, core, model, uintptr(unsafe.Pointer(name)), uintptr(len(settings)), uintptr(unsafe.Pointer(&list[0])),
			uintptr(unsafe.Pointer(compiled)))
		return *compiled, err
	}
	args := []uintptr{core, model, uintptr(unsafe.Pointer(name)), uintptr(2 * len(settings)), uintptr(unsafe.Pointer(compiled))}
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		args = append(args, 0, 0, 0) // there what is behind the dots lies on the stack
	}
	for _, p := range list[:len(settings)] {
		args = append(args, uintptr(unsafe.Pointer(p.key)), uintptr(unsafe.Pointer(p.value)))
	}
	err := a.call(fnCompile, args...)
	return *compiled, err
}
