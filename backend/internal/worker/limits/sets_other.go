//go:build !windows

package limits

// sets reports whether workers have the limit of a parameter.
func sets(string) bool { return Supported }
