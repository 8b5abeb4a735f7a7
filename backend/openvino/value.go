package openvino

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// shapeC is the library's shape.
type shapeC struct {
	rank int64
	dims uintptr
}

// view makes a tensor over data, which the caller pins.
func (a *api) view(data unsafe.Pointer, dims []int64, d tensor.Datatype) (uintptr, error) {
	return a.make(fnTensorFromHost, a.elements[d], dims, data)
}

// make makes a tensor, over data if the function is that. C takes the structure
// of the shape by value: in two registers, on Windows as the address of a copy.
func (a *api) make(place int, element uintptr, dims []int64, data unsafe.Pointer) (uintptr, error) {
	c := new(struct {
		shape shapeC
		value uintptr
	})
	if len(dims) == 0 {
		dims = make([]int64, 1)[:0]
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(c)
	pins.Pin(unsafe.SliceData(dims))
	c.shape = shapeC{int64(len(dims)), uintptr(unsafe.Pointer(unsafe.SliceData(dims)))}
	args := []uintptr{element, uintptr(c.shape.rank), c.shape.dims}
	if runtime.GOOS == "windows" {
		args = []uintptr{element, uintptr(unsafe.Pointer(&c.shape))}
	}
	if place == fnTensorFromHost {
		args = append(args, uintptr(data))
	}
	err := a.call(place, append(args, uintptr(unsafe.Pointer(&c.value)))...)
	return c.value, err
}

// contents returns the shape, datatype and memory of a tensor of the library's.
func (a *api) contents(value uintptr) (tensor.Shape, tensor.Datatype, []byte, error) {
	c := new(struct {
		shape   shapeC
		element int32
		data    uintptr
	})
	shape := tensor.Shape{} // the library does not tell that of a scalar
	err := a.call(fnTensorShape, value, uintptr(unsafe.Pointer(&c.shape)))
	if failed, ok := errors.AsType[*libraryError](err); ok && failed.status != statusInvalid {
		return nil, 0, nil, err
	}
	if err == nil && c.shape.rank > 0 {
		shape = make(tensor.Shape, c.shape.rank)
		copy(shape, unsafe.Slice((*int64)(library.Pointer(c.shape.dims)), int(c.shape.rank)))
		a.functions[fnShapeFree].Call(uintptr(unsafe.Pointer(&c.shape)))
	}
	if err := a.call(fnTensorElement, value, uintptr(unsafe.Pointer(&c.element))); err != nil {
		return nil, 0, nil, err
	}
	d := a.datatypeOf(c.element)
	size, err := tensor.ByteSize(d, shape)
	if err != nil {
		return nil, 0, nil, err
	}
	if size == 0 {
		return shape, d, nil, nil
	}
	if err := a.call(fnTensorData, value, uintptr(unsafe.Pointer(&c.data))); err != nil {
		return nil, 0, nil, err
	}
	return shape, d, library.Bytes(c.data, int(size)), nil
}
