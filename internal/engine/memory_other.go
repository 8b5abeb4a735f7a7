//go:build !linux

package engine

// availableMemory returns how many bytes this process can have. Elsewhere than
// on Linux the server assumes a small machine; --max-queued-bytes says better.
func availableMemory() int64 { return fallbackMemory }
