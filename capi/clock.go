//go:build cgo

package capi

// #include <time.h>
// #include <stdint.h>
//
// static int64_t neso_steady(void) {
//   struct timespec t;
//   clock_gettime(CLOCK_MONOTONIC, &t);
//   return t.tv_sec * 1000000000ll + t.tv_nsec;
// }
import "C"

import "github.com/nesoserve/neso/backend"

// offset is what the system's steady clock is ahead of the server's.
var offset = int64(C.neso_steady()) - backend.Now()

// steady turns a timestamp of backend.Now into one of the system's steady clock,
// which programs in C read.
func steady(ns int64) int64 { return ns + offset }
