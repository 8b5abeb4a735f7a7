//go:build !linux

package process

import "errors"

func (c *Command) apart() bool { return false }

// Apart returns nil where workers of another user are kept apart from each other,
// else why they are not.
func Apart() error { return errors.New("workers run as another user on Linux only") }

// Confine is what Command.Confine runs, on Linux only.
func Confine() error { return errors.New("processes are confined on Linux only") }
