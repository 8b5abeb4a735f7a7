package onnxruntime

import (
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
	"github.com/nesoserve/neso/tensor"
)

// setStrings fills a tensor of strings from BYTES data, NULs included.
func (e *environment) setStrings(value uintptr, data []byte, elements int) error {
	n := 0
	for i, text := range tensor.Elements(data) {
		if i >= elements {
			break
		}
		n++
		if len(text) == 0 {
			continue
		}
		var at uintptr
		if err := e.call(fnGetResizedStringElementBuffer, value, uintptr(i), uintptr(len(text)), uintptr(unsafe.Pointer(&at))); err != nil {
			return err
		}
		copy(library.Bytes(at, len(text)), text)
	}
	if n != elements {
		return backend.Errorf(backend.InvalidArg, "got %d strings, expected %d", n, elements)
	}
	return nil
}

// strings returns a tensor of strings as BYTES data in memory of the allocator.
func (e *environment) strings(value uintptr, elements int, memory tensor.Allocator) (*tensor.Buffer, error) {
	if elements == 0 {
		return memory.Allocate(0)
	}
	var total uintptr
	if err := e.call(fnGetStringTensorDataLength, value, uintptr(unsafe.Pointer(&total))); err != nil {
		return nil, err
	}
	text, offsets := make([]byte, max(1, total)), make([]uintptr, elements+1)
	if err := e.call(fnGetStringTensorContent, value, uintptr(unsafe.Pointer(&text[0])), total, uintptr(unsafe.Pointer(&offsets[0])),
		uintptr(elements)); err != nil {
		return nil, err
	}
	offsets[elements] = total
	b, err := memory.Allocate(int(total) + 4*elements)
	if err != nil {
		return nil, err
	}
	data := b.Bytes()[:0]
	for i := range elements {
		data = tensor.AppendElement(data, text[offsets[i]:offsets[i+1]])
	}
	return b, nil
}

// shapeOf returns the shape of a tensor.
func (e *environment) shapeOf(value uintptr) (tensor.Shape, error) {
	if f := e.later(fnTypeAndShape, typeShapeSince); f != 0 {
		var element int32
		var dims, n uintptr // borrowed from the value
		if status := f.Call(value, uintptr(unsafe.Pointer(&element)), uintptr(unsafe.Pointer(&dims)), uintptr(unsafe.Pointer(&n))); status != 0 {
			return nil, e.failure(status)
		}
		shape := make(tensor.Shape, n)
		if n > 0 {
			copy(shape, unsafe.Slice((*int64)(library.Pointer(dims)), n))
		}
		return shape, nil
	}
	var info, n uintptr
	if err := e.call(fnGetTensorTypeAndShape, value, uintptr(unsafe.Pointer(&info))); err != nil {
		return nil, err
	}
	defer e.release(fnReleaseTensorTypeAndShapeInfo, info)
	if err := e.call(fnGetDimensionsCount, info, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	shape := make(tensor.Shape, n)
	if n == 0 {
		return shape, nil
	}
	return shape, e.call(fnGetDimensions, info, uintptr(unsafe.Pointer(&shape[0])), n)
}

// owned is a tensor in ONNX Runtime's memory that goes out as it is.
type owned struct {
	session *session
	value   uintptr
}

// ReleaseBuffer implements tensor.Releaser.
func (o *owned) ReleaseBuffer(*tensor.Buffer) {
	o.session.env.release(fnReleaseValue, o.value)
	o.session.Drop()
}
