//go:build !linux

package memory

func remap([]byte, int) []byte { return nil }

func bySmallPages([]byte) {}
