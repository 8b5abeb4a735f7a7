//go:build !linux || !(amd64 || arm64) || nopurego

package shm

// cudaAPI is nothing on platforms without CUDA handles.
type cudaAPI struct{}

func openCUDA(string) (*cudaAPI, error) { return nil, errNoGPU }

func (*cudaAPI) open([HandleSize]byte, int64, uint64) (memory, error) { return nil, errNoGPU }
