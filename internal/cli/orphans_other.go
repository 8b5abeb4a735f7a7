//go:build !linux

package cli

// adoptOrphans does nothing: a server is process 1 in containers of Linux only.
func adoptOrphans() (stop func()) { return func() {} }
