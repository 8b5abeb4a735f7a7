package tensor_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

type released int

func (r *released) ReleaseBuffer(*tensor.Buffer) { *r++ }

type noMemory struct{}

func (noMemory) Allocate(int) (*tensor.Buffer, error) { return nil, errors.New("no memory") }

func TestToHost(t *testing.T) {
	gpu := &nesotest.GPU{Data: []byte("0123456789abcdef")}
	back := new(released)
	x := gpu.Tensor("X", 4, tensor.FP32, tensor.Shape{2}, back)
	if !x.OnDevice() || x.Device() != tensor.DeviceMemory(gpu) || x.Size() != 8 || x.Data != nil {
		t.Fatalf("%+v", x)
	}
	if err := x.ToHost(noMemory{}); err == nil || err.Error() != "failed to bring tensor 'X' from the GPU: no memory" || !x.OnDevice() {
		t.Errorf("%v, %+v", err, x)
	}
	gpu.Err = errors.New("broken")
	if err := x.ToHost(nil); err == nil || err.Error() != "failed to bring tensor 'X' from the GPU: broken" || !x.OnDevice() || *back != 0 {
		t.Errorf("%v, %+v, released %d", err, x, *back)
	}
	gpu.Err = nil
	for range 2 { // the second does nothing
		if err := x.ToHost(nil); err != nil || x.OnDevice() || !bytes.Equal(x.Data, []byte("456789ab")) || x.Size() != 8 || *back != 1 {
			t.Errorf("%v, %+v, released %d", err, x, *back)
		}
	}
	if n := gpu.Copies.Load(); n != 2 {
		t.Errorf("%d copies", n)
	}
	for _, host := range []tensor.Tensor{{}, {Buffer: tensor.NewBuffer(nil, nil)}, {Data: []byte{1, 2}}} {
		if host.OnDevice() || host.Size() != len(host.Data) || host.ToHost(noMemory{}) != nil {
			t.Errorf("%+v", host)
		}
	}
}
