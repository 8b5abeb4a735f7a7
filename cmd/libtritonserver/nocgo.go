//go:build !cgo

// Command libtritonserver is the C library libtritonserver.so, which needs cgo.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "libtritonserver is a library for C programs: build it with `make capi`, with cgo")
	os.Exit(1)
}
