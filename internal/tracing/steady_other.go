//go:build !linux

package tracing

// steady is the difference between the clock of backend.Now and the file's clock.
const steady int64 = 0
