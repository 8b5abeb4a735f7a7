package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// List is the inputs or the outputs of a request, by place or by name.
type List []Tensor

// Get returns the tensor with the given name, or nil: an optional input that
// the client has left out, or a name that the model does not have.
func (l List) Get(name string) *Tensor {
	for i := range l {
		if l[i].Name == name {
			return &l[i]
		}
	}
	return nil
}

// Element is a Go type whose values are elements of tensors: bool of BOOL,
// string of BYTES, float32 of FP32, int64 of INT64, Float16 of FP16, ...
type Element interface {
	bool | uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64 | string | Float16 | BFloat16
}

// native says that memory holds numbers in the byte order of tensors.
var native = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// datatypeOf returns the datatype whose elements are of the type.
func datatypeOf[T Element]() Datatype {
	switch any(*new(T)).(type) {
	case bool:
		return Bool
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case float32:
		return FP32
	case float64:
		return FP64
	case Float16:
		return FP16
	case BFloat16:
		return BF16
	}
	return Bytes
}

// New makes a tensor of values in row-major order. It keeps the values, which
// must not be changed any more, and the shape. Their number must be that of
// the shape.
func New[T Element](name string, shape Shape, values []T) (Tensor, error) {
	t := Tensor{Name: name, Datatype: datatypeOf[T](), Shape: shape}
	n, err := shape.Elements()
	if err != nil {
		return Tensor{}, fmt.Errorf("tensor '%s': shape %s: %w", name, shape, err)
	}
	if n != int64(len(values)) {
		return Tensor{}, fmt.Errorf("tensor '%s' of shape %s has %d elements, got %d values", name, shape, n, len(values))
	}
	if texts, ok := any(values).([]string); ok {
		size := 0
		for _, text := range texts {
			if uint64(len(text)) > math.MaxUint32 {
				return Tensor{}, fmt.Errorf("tensor '%s': a string of %d bytes is too long", name, len(text))
			}
			size += 4 + len(text)
		}
		t.Data = make([]byte, 0, size)
		for _, text := range texts {
			t.Data = AppendElement(t.Data, text)
		}
		return t, nil
	}
	if len(values) == 0 {
		return t, nil
	}
	if native {
		t.Data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*t.Datatype.Size())
		return t, nil
	}
	t.Data, err = binary.Append(nil, binary.LittleEndian, values)
	return t, err
}

// Values returns the elements in row-major order. They may be the tensor's own
// memory: they are read-only, and valid as long as that is. T must be the type
// of the tensor's datatype; float32 also reads FP16 and BF16, converted. A nil
// tensor, one on a GPU, and one whose bytes do not fit its shape are errors.
func Values[T Element](t *Tensor) ([]T, error) {
	if t == nil {
		return nil, fmt.Errorf("no such tensor")
	}
	if t.OnDevice() {
		return nil, fmt.Errorf("tensor '%s' lies on a GPU", t.Name)
	}
	n, err := t.Shape.Elements()
	if err != nil {
		return nil, fmt.Errorf("tensor '%s': shape %s: %w", t.Name, t.Shape, err)
	}
	d := datatypeOf[T]()
	half := d == FP32 && (t.Datatype == FP16 || t.Datatype == BF16)
	if t.Datatype != d && !half {
		return nil, fmt.Errorf("tensor '%s' has datatype %s, not %s", t.Name, t.Datatype, d)
	}
	if d == Bytes {
		return stringsOf[T](t, n)
	}
	if size, err := ByteSize(t.Datatype, t.Shape); err != nil || size != int64(len(t.Data)) {
		return nil, fmt.Errorf("tensor '%s' has %d bytes, expected %d for shape %s", t.Name, len(t.Data), size, t.Shape)
	}
	if n == 0 {
		return []T{}, nil
	}
	if half {
		return any(halves(t)).([]T), nil
	}
	first := unsafe.Pointer(unsafe.SliceData(t.Data))
	if native && d != Bool && uintptr(first)%uintptr(d.Size()) == 0 {
		return unsafe.Slice((*T)(first), int(n)), nil
	}
	values := make([]T, n)
	if flags, ok := any(values).([]bool); ok { // any byte but 0 is true; in Go's memory it must be 1
		for i, b := range t.Data {
			flags[i] = b != 0
		}
		return values, nil
	}
	_, err = binary.Decode(t.Data, binary.LittleEndian, values)
	return values, err
}

// halves reads FP16 and BF16.
func halves(t *Tensor) []float32 {
	read := FloatFP16
	if t.Datatype == BF16 {
		read = FloatBF16
	}
	values := make([]float32, len(t.Data)/2)
	for i := range values {
		values[i] = read(binary.LittleEndian.Uint16(t.Data[2*i:]))
	}
	return values
}

// stringsOf reads BYTES.
func stringsOf[T Element](t *Tensor, n int64) ([]T, error) {
	got, err := CountBytes(t.Data)
	if err != nil {
		return nil, fmt.Errorf("tensor '%s': %w", t.Name, err)
	}
	if int64(got) != n {
		return nil, fmt.Errorf("tensor '%s' has %d elements, expected %d for shape %s", t.Name, got, n, t.Shape)
	}
	texts := slices.Grow([]string{}, got)
	for _, element := range Elements(t.Data) {
		texts = append(texts, string(element))
	}
	return any(texts).([]T), nil
}
