//go:build !linux

package startpages

// Release does nothing here.
func Release() error { return nil }
