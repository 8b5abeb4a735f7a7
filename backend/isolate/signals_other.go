//go:build !linux

package isolate

// dieBySignal leaves the signals to Go.
func dieBySignal() {}
