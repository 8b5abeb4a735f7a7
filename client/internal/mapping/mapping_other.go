//go:build !linux

// Package mapping makes objects of shared memory that another process can open by
// their name.
package mapping

import "errors"

// Create is for Linux only, as are servers that share memory so.
func Create(string, int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Remove has nothing to remove.
func Remove(string, []byte) error { return nil }
