//go:build cgo

package object

// #include <stdint.h>
import "C"

import (
	"github.com/nesoserve/neso/capi/handle"
)

// ParameterType is a TRITONSERVER_ParameterType.
type ParameterType int32

// The types of parameters.
const (
	StringParameter ParameterType = iota
	IntParameter
	BoolParameter
	DoubleParameter
	BytesParameter
)

// Parameter is a TRITONSERVER_Parameter. Value is a string, int64, bool, float64 or,
// for bytes, the []byte that stays in the program's memory.
type Parameter struct {
	Name  string
	Type  ParameterType
	Value any
}

var parameters = handle.NewTable[Parameter](handle.Parameter)

// Parameters returns those of an array of n handles; false when one of them has none.
func Parameters(at uintptr, n uint64) ([]*Parameter, bool) {
	if n == 0 {
		return nil, true
	}
	if at == 0 || n > 1<<20 {
		return nil, false
	}
	list := make([]*Parameter, n)
	for i := range list {
		h := Read[uintptr](at + uintptr(i)*8)
		if list[i] = parameters.Get(handle.Handle(h)); list[i] == nil {
			return nil, false
		}
	}
	return list, true
}

//export TRITONSERVER_ParameterNew
func TRITONSERVER_ParameterNew(name C.uintptr_t, kind C.int, value C.uintptr_t) C.uintptr_t {
	if name == 0 || value == 0 {
		return 0
	}
	p := &Parameter{Name: String(uintptr(name)), Type: ParameterType(kind)}
	switch p.Type {
	case StringParameter:
		p.Value = String(uintptr(value))
	case IntParameter:
		p.Value = Read[int64](uintptr(value))
	case BoolParameter:
		p.Value = Read[byte](uintptr(value)) != 0
	case DoubleParameter:
		p.Value = Read[float64](uintptr(value))
	default:
		return 0
	}
	return C.uintptr_t(parameters.New(p))
}

//export TRITONSERVER_ParameterBytesNew
func TRITONSERVER_ParameterBytesNew(name, base C.uintptr_t, size C.uint64_t) C.uintptr_t {
	b, ok := Bytes(uintptr(base), uint64(size))
	if name == 0 || !ok {
		return 0
	}
	return C.uintptr_t(parameters.New(&Parameter{Name: String(uintptr(name)), Type: BytesParameter, Value: b}))
}

//export TRITONSERVER_ParameterDelete
func TRITONSERVER_ParameterDelete(p C.uintptr_t) { parameters.Take(handle.Handle(p)) }

// String returns the word of the type.
func (t ParameterType) String() string {
	if t < 0 || t > BytesParameter {
		return "<invalid>"
	}
	return [...]string{"STRING", "INT", "BOOL", "DOUBLE", "BYTES"}[t]
}
