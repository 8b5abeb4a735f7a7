//go:build !linux || !(amd64 || arm64) || nopurego

package gpu

// api is nothing on platforms whose GPUs the server does not use.
type api struct{}

func openAPI(string) (*api, error)          { return nil, ErrNone }
func (*api) list(*string) ([]Device, error) { return nil, ErrNone }
func (*api) shutdown()                      {}
func (*api) read(uintptr) Reading           { return Reading{} }
func (*api) energy(uintptr) float64         { return -1 }
func checkCUDA(string) error                { return ErrNone }
