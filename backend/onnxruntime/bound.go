package onnxruntime

import (
	"runtime"
	"slices"
	"unsafe"

	"github.com/nesoserve/neso/tensor"
)

const (
	// boundBytes is how large a tensor may be to be copied into memory of the
	// instance, over which ONNX Runtime has values already. To make and release a
	// value takes two calls into C and two allocations there, 0.3 µs: as long as
	// copying several KiB.
	boundBytes = 4096
	// boundShapes is how many values are kept for one input or output, such as
	// those for the sizes of a batch.
	boundShapes = 8
)

// bound is an instance's memory for one input or output. ONNX Runtime has made
// values of different shapes over it; one of them is used at a time.
type bound struct {
	memory []byte // pinned; empty until it is needed
	values []boundValue
	next   int // of values, to be replaced when there are boundShapes
}

type boundValue struct {
	shape  tensor.Shape
	size   int // bytes
	handle uintptr
}

// bindable reports whether a tensor of so many bytes is copied.
func bindable(d tensor.Datatype, size int) bool {
	return size > 0 && size <= boundBytes && d != tensor.Bytes
}

// bind returns a value of the shape over the memory of b. It makes the value if
// there is none yet. size is the number of bytes of the shape.
func (in *instance) bind(b *bound, shape tensor.Shape, size int, element uintptr) (uintptr, error) {
	for i := range b.values {
		if v := &b.values[i]; v.size == size && slices.Equal(v.shape, shape) {
			return v.handle, nil
		}
	}
	if size > len(b.memory) {
		in.unbind(b)
		// In powers of two, so that growing batches do not make it anew each time.
		capacity := tensor.Alignment
		for capacity < size {
			capacity *= 2
		}
		b.memory = make([]byte, capacity)
		in.kept.Pin(&b.memory[0])
	}
	handle, err := in.valueOver(&b.memory[0], size, shape, element)
	if err != nil {
		return 0, err
	}
	v := boundValue{shape: shape.Clone(), size: size, handle: handle}
	if len(b.values) < boundShapes {
		b.values = append(b.values, v)
		return handle, nil
	}
	in.free(b.values[b.next].handle)
	b.values[b.next] = v
	b.next = (b.next + 1) % boundShapes
	return handle, nil
}

// unbind releases the values. The memory stays pinned, and is nobody's, until
// the instance ends; as it doubles, that is less than boundBytes in all.
func (in *instance) unbind(b *bound) {
	for i := range b.values {
		in.free(b.values[i].handle)
	}
	b.values, b.next = b.values[:0], 0
}

// unbindAll ends what bind has begun, with the instance.
func (in *instance) unbindAll() {
	for _, list := range [][]bound{in.boundInputs, in.boundOutputs} {
		for i := range list {
			in.unbind(&list[i])
		}
	}
	in.kept.Unpin()
}

// valueOver makes a tensor over memory that is pinned.
func (in *instance) valueOver(start *byte, size int, shape tensor.Shape, element uintptr) (uintptr, error) {
	if len(shape) > len(in.dims) {
		in.dims = make([]int64, len(shape))
	}
	copy(in.dims, shape)
	in.value = 0
	in.args = [8]uintptr{
		in.session.env.memory, uintptr(unsafe.Pointer(start)), uintptr(size), uintptr(unsafe.Pointer(&in.dims[0])), uintptr(len(shape)), element,
		uintptr(unsafe.Pointer(&in.value)),
	}
	err := in.invoke(fnCreateTensorWithData, 7)
	runtime.KeepAlive(start)
	return in.value, err
}
