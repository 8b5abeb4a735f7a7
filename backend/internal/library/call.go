//go:build !nopurego && (linux || darwin || windows)

package library

import "github.com/ebitengine/purego"

func supported() error { return nil }

// Call calls the function with at most 32 arguments of pointer or integer
// type, and returns its result in the same form. A uintptr made from an
// unsafe.Pointer in the argument list keeps what it points to alive and in
// place until the call returns; what C keeps longer must be pinned, or lie
// outside Go's heap.
//
//go:uintptrescapes
func (f Function) Call(args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(uintptr(f), args...)
	return r
}

// CallWith is Call with arguments that lie in memory of the caller's, so that
// nothing is allocated. What they point to is the caller's to keep alive and in
// place.
func (f Function) CallWith(args []uintptr) uintptr {
	r, _, _ := purego.SyscallN(uintptr(f), args...)
	return r
}

// Callback returns a C function that calls fn, a function of pointer-sized
// arguments with at most one such result. It is never freed, and there is room
// for some two thousand in a process: make one per use in the code, not per
// object.
func Callback(fn any) uintptr { return purego.NewCallback(fn) }

// Bind makes a Go function, to which fn points, call a C function: for arguments that are
// no pointers or integers. It costs far more than Call.
func Bind(fn any, f Function) { purego.RegisterFunc(fn, uintptr(f)) }
