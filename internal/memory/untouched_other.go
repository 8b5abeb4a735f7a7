//go:build !linux && !darwin

package memory

// untouched has no such memory here.
func untouched(int) []byte { return nil }

func unmap([]byte) {}
