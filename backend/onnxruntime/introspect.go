package onnxruntime

import (
	"strconv"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// tensorInfo is what a model says of an input or output.
type tensorInfo struct {
	name string
	// kind is "tensor", or what it is instead, for example "sequence".
	kind     string
	datatype tensor.Datatype // Invalid for one that the protocol lacks
	element  int             // ONNX's number of the datatype
	shape    tensor.Shape    // -1 for a dimension of any size
	symbols  []string        // names of the dimensions, "" for none
	// unranked: the model does not even say how many dimensions there are. Only
	// libraries from 1.24 on tell that from a scalar.
	unranked bool
}

// The three lists of a session, as offsets from the functions for inputs.
const (
	ofInputs = iota
	ofOutputs
	ofInitializers
)

// introspect reads the inputs and outputs.
func (s *session) introspect() (err error) {
	if s.inputs, err = s.list(ofInputs); err != nil {
		return err
	}
	if s.outputs, err = s.list(ofOutputs); err != nil {
		return err
	}
	s.initializers, err = s.list(ofInitializers)
	return err
}

func (s *session) list(which int) ([]tensorInfo, error) {
	e := s.env
	var count uintptr
	if err := e.call(fnSessionGetInputCount+which, s.handle, uintptr(unsafe.Pointer(&count))); err != nil {
		return nil, err
	}
	all := make([]tensorInfo, 0, count)
	for i := range count {
		var name, typ uintptr
		if err := e.call(fnSessionGetInputName+which, s.handle, i, e.allocator, uintptr(unsafe.Pointer(&name))); err != nil {
			return nil, err
		}
		info := tensorInfo{name: library.GoString(name)}
		if err := e.call(fnAllocatorFree, e.allocator, name); err != nil {
			return nil, err
		}
		if err := e.call(fnSessionGetInputTypeInfo+which, s.handle, i, uintptr(unsafe.Pointer(&typ))); err != nil {
			return nil, err
		}
		err := e.readType(typ, &info)
		e.release(fnReleaseTypeInfo, typ)
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

var onnxKinds = [...]string{"unknown", "tensor", "sequence", "map", "opaque", "sparse tensor", "optional"}

// readType fills in what a type says.
func (e *environment) readType(typ uintptr, info *tensorInfo) error {
	var kind int32
	if err := e.call(fnGetOnnxTypeFromTypeInfo, typ, uintptr(unsafe.Pointer(&kind))); err != nil {
		return err
	}
	info.kind = onnxKinds[0]
	if kind >= 0 && int(kind) < len(onnxKinds) {
		info.kind = onnxKinds[kind]
	}
	if info.kind != kindTensor {
		return nil
	}
	var shape uintptr // borrowed from typ
	if err := e.call(fnCastTypeInfoToTensorInfo, typ, uintptr(unsafe.Pointer(&shape))); err != nil {
		return err
	}
	var element int32
	if err := e.call(fnGetTensorElementType, shape, uintptr(unsafe.Pointer(&element))); err != nil {
		return err
	}
	info.element, info.datatype = int(element), datatypeOf(int(element))
	var n uintptr
	if err := e.call(fnGetDimensionsCount, shape, uintptr(unsafe.Pointer(&n))); err != nil {
		return err
	}
	info.shape, info.symbols = make(tensor.Shape, n), make([]string, n)
	if n == 0 {
		if f := e.later(fnTensorHasShape, hasShapeSince); f != 0 {
			info.unranked = f.Call(shape)&0xff == 0
		}
		return nil
	}
	if err := e.call(fnGetDimensions, shape, uintptr(unsafe.Pointer(&info.shape[0])), n); err != nil {
		return err
	}
	names := make([]uintptr, n) // borrowed from typ
	if err := e.call(fnGetSymbolicDimensions, shape, uintptr(unsafe.Pointer(&names[0])), n); err != nil {
		return err
	}
	for i := range names {
		info.symbols[i] = library.GoString(names[i])
	}
	return nil
}

const kindTensor = "tensor"

// ONNX's numbers of datatypes, by ours.
var elementTypes = map[tensor.Datatype]int{
	tensor.FP32: 1, tensor.Uint8: 2, tensor.Int8: 3, tensor.Uint16: 4, tensor.Int16: 5, tensor.Int32: 6, tensor.Int64: 7,
	tensor.Bytes: elementString, tensor.Bool: 9, tensor.FP16: 10, tensor.FP64: 11, tensor.Uint32: 12, tensor.Uint64: 13, tensor.BF16: 16,
}

const elementString = 8

func datatypeOf(element int) tensor.Datatype {
	for d, n := range elementTypes {
		if n == element {
			return d
		}
	}
	return tensor.Invalid
}

// typeNames are ONNX's own names of the types that the protocol lacks.
var typeNames = map[int]string{
	14: "COMPLEX64", 15: "COMPLEX128", 17: "FLOAT8E4M3FN", 18: "FLOAT8E4M3FNUZ", 19: "FLOAT8E5M2", 20: "FLOAT8E5M2FNUZ", 21: "UINT4",
	22: "INT4", 23: "FLOAT4E2M1",
}

// typeName returns the datatype as a configuration has it, or ONNX's name.
func (t *tensorInfo) typeName() string {
	switch {
	case t.kind != kindTensor:
		return "a " + t.kind
	case t.datatype != tensor.Invalid:
		return t.datatype.ConfigName()
	case typeNames[t.element] != "":
		return typeNames[t.element]
	}
	return "element type " + strconv.Itoa(t.element)
}
