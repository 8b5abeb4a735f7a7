package kserve

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/nesoserve/neso/tensor"
)

// held counts buffers that have not been released.
type held int

func (h *held) ReleaseBuffer(*tensor.Buffer) { *h-- }

func floats(v ...float32) []byte {
	var b []byte
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func TestClassify(t *testing.T) {
	labels := []string{"ant", "bee", "cat", "dog"}
	for _, c := range []struct {
		name    string
		in      tensor.Tensor
		n       uint64
		batches bool
		labels  []string
		shape   string
		want    []string
	}{
		{
			"batched",
			tensor.Tensor{Datatype: tensor.FP32, Shape: tensor.Shape{2, 5}, Data: floats(.1, .2, .9, .4, .5, 5, 4, 3, 2, 1)},
			2, true,
			labels, "[2,2]",
			[]string{"0.900000:2:cat", "0.500000:4", "5.000000:0:ant", "4.000000:1:bee"},
		},
		{
			"not batched",
			tensor.Tensor{Datatype: tensor.Int8, Shape: tensor.Shape{2, 2}, Data: []byte{1, 255, 3, 2}},
			3, false, nil, "[3]",
			[]string{"3:2", "2:3", "1:0"},
		},
		{
			"unsigned, more than there are",
			tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{2}, Data: []byte{1, 255}},
			math.MaxUint64,
			false, nil, "[2]",
			[]string{"255:1", "1:0"},
		},
		{
			"equal ones keep their order",
			tensor.Tensor{Datatype: tensor.Uint8, Shape: tensor.Shape{3}, Data: []byte{7, 7, 7}},
			2, false, nil,
			"[2]",
			[]string{"7:0", "7:1"},
		},
		{
			"NaN is last",
			tensor.Tensor{Datatype: tensor.FP32, Shape: tensor.Shape{3}, Data: floats(float32(math.NaN()), -1, float32(math.Inf(1)))},
			3, false, nil, "[3]",
			[]string{"inf:2", "-1.000000:1", "nan:0"},
		},
		{"empty batch", tensor.Tensor{Datatype: tensor.FP32, Shape: tensor.Shape{0, 5}}, 3, true, nil, "[0,0]", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := held(1)
			c.in.Buffer = tensor.NewBuffer(c.in.Data, &a)
			if err := Classify(&c.in, c.n, c.batches, c.labels); err != nil {
				t.Fatal(err)
			}
			var elements []byte
			for _, e := range c.want {
				elements = tensor.AppendElement(elements, e)
			}
			if got, want := string(c.in.Data), string(elements); got != want || c.in.Shape.String() != c.shape || c.in.Datatype != tensor.Bytes {
				t.Errorf("got %q %s, want %q %s", got, c.in.Shape, want, c.shape)
			}
			if a != 0 {
				t.Error("the original tensor is still held")
			}
		})
	}
	for _, d := range []tensor.Datatype{tensor.Bytes, tensor.FP16, tensor.BF16, tensor.Bool} {
		in := tensor.Tensor{Datatype: d, Shape: tensor.Shape{1}, Data: []byte{0, 0, 0, 0}}
		if err := Classify(&in, 1, false, nil); err == nil ||
			err.Message != "class result not available for output due to unsupported type '"+d.String()+"'" {
			t.Errorf("%s: %v", d, err)
		}
	}
}
