//go:build !linux

package worker

import "github.com/nesoserve/neso/backend"

// steady is that of this process: no worker that reports times runs here.
func steady() int64 { return backend.Now() }
