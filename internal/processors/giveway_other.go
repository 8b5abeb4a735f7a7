//go:build !linux

package processors

// GiveWay lets another thread that waits for this core have it first. This system does
// so by itself.
func GiveWay() {}
