package tensor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

func roundTrip[T Element](t *testing.T, d Datatype, values ...T) {
	t.Helper()
	made, err := New("x", Shape{int64(len(values))}, values)
	if err != nil || made.Datatype != d {
		t.Fatalf("%v %v, want %v", made.Datatype, err, d)
	}
	for _, shift := range []int{0, 1} { // aligned, and not
		moved := made
		memory := make([]byte, len(made.Data)+16)
		at := (16-int(uintptr(unsafe.Pointer(&memory[0]))%16))%16 + shift
		if shift == 1 && at+len(made.Data) > len(memory) {
			at = 1
		}
		moved.Data = memory[at : at+copy(memory[at:], made.Data)]
		got, err := Values[T](&moved)
		if err != nil || !slices.Equal(got, values) {
			t.Errorf("%v at %d: got %v, %v, want %v", d, at, got, err, values)
		}
	}
}

func TestNewAndValues(t *testing.T) {
	roundTrip(t, Bool, true, false)
	roundTrip[uint8](t, Uint8, 1, 255)
	roundTrip[uint16](t, Uint16, 1, 65535)
	roundTrip[uint32](t, Uint32, 1, 1<<32-1)
	roundTrip[uint64](t, Uint64, 1, 1<<64-1)
	roundTrip[int8](t, Int8, -1, 127)
	roundTrip[int16](t, Int16, -1, 300)
	roundTrip[int32](t, Int32, -1, 70000)
	roundTrip[int64](t, Int64, -1, 1<<40)
	roundTrip[float32](t, FP32, -1.5, 0.25)
	roundTrip(t, FP64, -1.5, 0.1)
	roundTrip(t, Bytes, "", "héllo")
	if made, err := New[float32]("x", Shape{0, 3}, nil); err != nil || len(made.Data) != 0 {
		t.Error(made, err)
	}
}

func TestValuesOfOtherForms(t *testing.T) {
	half := &Tensor{Name: "h", Datatype: FP16, Shape: Shape{2}, Data: []byte{0, 0x3c, 0, 0xc0}}
	if got, err := Values[float32](half); err != nil || !slices.Equal(got, []float32{1, -2}) {
		t.Error(got, err)
	}
	half.Datatype, half.Data = BF16, []byte{0x80, 0x3f, 0, 0xc0}
	if got, err := Values[float32](half); err != nil || !slices.Equal(got, []float32{1, -2}) {
		t.Error(got, err)
	}
	flags := &Tensor{Name: "f", Datatype: Bool, Shape: Shape{3}, Data: []byte{0, 1, 200}}
	if got, err := Values[bool](flags); err != nil || !slices.Equal(got, []bool{false, true, true}) {
		t.Error(got, err)
	}
}

func TestTypedFaults(t *testing.T) {
	values := func(x *Tensor) error { _, err := Values[float32](x); return err }
	texts := func(data ...byte) error {
		_, err := Values[string](&Tensor{Name: "x", Datatype: Bytes, Shape: Shape{2}, Data: data})
		return err
	}
	made := func(shape ...int64) error { _, err := New("x", shape, []int32{1, 2}); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{values(nil), "no such tensor"},
		{values(&Tensor{Name: "x", Datatype: Int32, Shape: Shape{1}, Data: make([]byte, 4)}), "tensor 'x' has datatype INT32, not FP32"},
		{values(&Tensor{Name: "x", Datatype: FP32, Shape: Shape{2}, Data: make([]byte, 4)}), "has 4 bytes, expected 8 for shape [2]"},
		{values(&Tensor{Name: "x", Datatype: FP32, Shape: Shape{-1}}), "not specified"},
		{values(&Tensor{Name: "x", Datatype: FP32, Shape: Shape{1 << 62, 8}}), "exceeds"},
		{values(&Tensor{Name: "x", Datatype: FP32, Shape: Shape{1 << 62}}), "bytes"},
		{texts(9, 0, 0, 0), "incomplete string data"},
		{texts(0, 0, 0, 0), "has 1 elements, expected 2"},
		{made(3), "tensor 'x' of shape [3] has 3 elements, got 2 values"},
		{made(-1), "not specified"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}

func ExampleValues() {
	x, err := New("x", Shape{2, 2}, []float32{1, 2, 3, 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	inputs := List{x}
	values, err := Values[float32](inputs.Get("x"))
	fmt.Println(values, err)
	_, err = Values[float32](inputs.Get("y"))
	fmt.Println(err)
	// Output:
	// [1 2 3 4] <nil>
	// no such tensor
}
