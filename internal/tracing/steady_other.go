//go:build !linux

package tracing

// steady is what lies between the clock of backend.Now and that of the file.
const steady int64 = 0
