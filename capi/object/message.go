//go:build cgo

package object

// #include <stdint.h>
import "C"

import (
	"github.com/nesoserve/neso/capi/handle"
)

// message is a TRITONSERVER_Message: a text, JSON as far as we make it.
type message struct {
	json string
	text Text
}

var messages = handle.NewTable[message](handle.Message)

// NewMessage returns a TRITONSERVER_Message that its receiver owns.
func NewMessage(json []byte) handle.Handle { return messages.New(&message{json: string(json)}) }

// MessageText returns what a message says; false for a handle of none.
func MessageText(h handle.Handle) (string, bool) {
	m := messages.Get(h)
	if m == nil {
		return "", false
	}
	return m.json, true
}

//export TRITONSERVER_MessageNewFromSerializedJson
func TRITONSERVER_MessageNewFromSerializedJson(made, base C.uintptr_t, size C.size_t) C.uintptr_t {
	b, ok := Bytes(uintptr(base), uint64(size))
	if made == 0 || !ok {
		return C.uintptr_t(Null("the text, or the place for the message,"))
	}
	Set(uintptr(made), uintptr(NewMessage(b)))
	return 0
}

//export TRITONSERVER_MessageDelete
func TRITONSERVER_MessageDelete(h C.uintptr_t) C.uintptr_t {
	if !DeleteMessage(handle.Handle(h)) {
		return C.uintptr_t(Stale("message"))
	}
	return 0
}

// DeleteMessage ends a message; false for a handle of none.
func DeleteMessage(h handle.Handle) bool {
	m := messages.Take(h)
	if m != nil {
		m.text.Free()
	}
	return m != nil
}

//export TRITONSERVER_MessageSerializeToJson
func TRITONSERVER_MessageSerializeToJson(h, base, size C.uintptr_t) C.uintptr_t {
	m := messages.Get(handle.Handle(h))
	switch {
	case m == nil:
		return C.uintptr_t(Stale("message"))
	case base == 0 || size == 0:
		return C.uintptr_t(Null("the place for the text"))
	}
	Set(uintptr(base), m.text.C(m.json))
	Set(uintptr(size), C.size_t(len(m.json)))
	return 0
}
