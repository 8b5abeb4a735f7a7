//go:build cgo

package capi

// #include <stdint.h>
import "C"

import (
	"context"

	"github.com/nesoserve/neso/capi/object"
)

// The functions of include/neso.h, which Triton's interface has not.

//export NESO_ServerModelRollout
func NESO_ServerModelRollout(h, name, message C.uintptr_t) C.uintptr_t {
	if name == 0 {
		return C.uintptr_t(object.Null("the model's name"))
	}
	return document(h, message, whileLive(func(s serving) ([]byte, error) { return s.Rollout(object.String(uintptr(name))) }))
}

//export NESO_ServerSetModelRollout
func NESO_ServerSetModelRollout(h, name, change C.uintptr_t) C.uintptr_t {
	if name == 0 || change == 0 {
		return C.uintptr_t(object.Null("the model's name and the change"))
	}
	return ask(h, func(s *server) error {
		return s.SetRollout(context.Background(), object.String(uintptr(name)), []byte(object.String(uintptr(change))))
	})
}
