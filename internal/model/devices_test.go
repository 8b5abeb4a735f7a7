package model

import (
	"errors"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

type someTimeline struct{ infer.Timeline }

// TestSettle: where the server looks at bytes they are on the host.
func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		can           devices
		traced        bool
		inputs, asked bool // stay on the GPU, goes on to the backend
	}{
		"takes and gives": {devices{true, true}, false, true, true},
		"gives":           {devices{false, true}, false, false, true},
		"neither":         {devices{}, false, false, false},
		"traced":          {devices{true, true}, true, false, false},
	} {
		gpu := &nesotest.GPU{Data: make([]byte, 16)}
		m := &Model{devices: c.can}
		r := &infer.Request{}
		in := gpu.Tensor("IN", 0, tensor.FP32, tensor.Shape{4}, nil)
		host := tensor.Tensor{Name: "H", Data: []byte{1}}
		r.Inputs = []tensor.Tensor{host, in}
		r.TakesDevice = func(tensor.GPU) bool { return true }
		if c.traced {
			r.Timeline = someTimeline{}
		}
		if err := m.Settle(r); err != nil {
			t.Fatal(err)
		}
		if r.Inputs[1].OnDevice() != c.inputs || (r.TakesDevice != nil) != c.asked || len(r.Inputs[0].Data) != 1 {
			t.Errorf("%s: %+v, asked %v", name, r.Inputs, r.TakesDevice != nil)
		}
	}
	gpu := &nesotest.GPU{Data: make([]byte, 16), Err: errors.New("broken")}
	r := &infer.Request{}
	r.Inputs = []tensor.Tensor{gpu.Tensor("IN", 0, tensor.FP32, tensor.Shape{4}, nil)}
	if err := (&Model{}).Settle(r); backend.AsError(err).Code != backend.Internal ||
		err.Error() != "failed to bring tensor 'IN' from the GPU: broken" || !r.Inputs[0].OnDevice() {
		t.Errorf("%v, %+v", err, r.Inputs[0])
	}
}
