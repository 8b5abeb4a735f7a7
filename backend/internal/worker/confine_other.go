//go:build !linux

package worker

const canConfine = false
