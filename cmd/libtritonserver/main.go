//go:build cgo

// Command libtritonserver is the C library libtritonserver.so: `make capi` builds
// it with -buildmode=c-shared. As a program it does nothing.
package main

import (
	_ "github.com/nesoserve/neso/capi"
	_ "github.com/nesoserve/neso/capi/agent"
	_ "github.com/nesoserve/neso/capi/cache"
	_ "github.com/nesoserve/neso/capi/native"
)

func main() {}
