//go:build nopurego || !(linux || darwin || windows)

package library

func supported() error { return ErrUnsupported }

// Call panics: nothing can be opened in this build.
func (Function) Call(...uintptr) uintptr { panic(ErrUnsupported) }

// CallWith panics likewise.
func (Function) CallWith([]uintptr) uintptr { panic(ErrUnsupported) }

// Callback returns 0 in this build.
func Callback(any) uintptr { return 0 }

// Bind leaves the function nil.
func Bind(any, Function) {}

func openFile(string) (*Library, error) { return nil, ErrUnsupported }

// Symbol fails in this build.
func (*Library) Symbol(string) (Function, error) { return 0, ErrUnsupported }
