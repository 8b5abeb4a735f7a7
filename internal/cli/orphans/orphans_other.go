//go:build !linux

// Package orphans clears away dead processes that models have left behind.
package orphans

// Adopt does nothing: a server is process 1 in containers of Linux only.
func Adopt() (stop func()) { return func() {} }
