//go:build !linux

package hostmemory

// Available returns how many bytes this process can have. Elsewhere than on
// Linux a small machine is assumed.
func Available() int64 { return fallback }
