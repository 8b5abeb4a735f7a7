package neso_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// segments is a model over a ragged batch: OUT is IN, each element ten times as
// large plus the number of its request, found by the offsets in FROM.
func segments(_ context.Context, inputs []tensor.Tensor) ([]tensor.Tensor, error) {
	in, from := inputs[0], inputs[1]
	if in.Name != "IN" || from.Name != "FROM" || len(in.Shape) != 1 {
		return nil, fmt.Errorf("inputs %s %s and %s", in.Name, in.Shape, from.Name)
	}
	data := make([]byte, len(in.Data))
	for i, request := 0, 0; i < len(data)/4; i++ {
		for uint32(i) >= binary.LittleEndian.Uint32(from.Data[4*(request+1):]) {
			request++
		}
		binary.LittleEndian.PutUint32(data[4*i:], 10*binary.LittleEndian.Uint32(in.Data[4*i:])+uint32(request))
	}
	return []tensor.Tensor{{Name: "OUT", Datatype: tensor.Int32, Shape: in.Shape, Data: data}}, nil
}

// Requests of other shapes share a batch, and each gets back its own.
func TestRaggedBatch(t *testing.T) {
	model := neso.Model{
		Name:         "segments",
		Inputs:       []backend.IO{{Name: "IN", Datatype: tensor.Int32, Dims: tensor.Shape{-1, -1}, Ragged: true}},
		Outputs:      []backend.IO{{Name: "OUT", Datatype: tensor.Int32, Dims: tensor.Shape{-1, -1}}},
		MaxBatchSize: 8,
		Config: json.RawMessage(`{
			"dynamic_batching": {"preferred_batch_size": [4], "max_queue_delay_microseconds": 60000000},
			"batch_input": [{"kind": "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO", "target_name": ["FROM"], "data_type": "TYPE_INT32", "source_input": ["IN"]}],
			"batch_output": [{"kind": "BATCH_SCATTER_WITH_INPUT_SHAPE", "target_name": ["OUT"], "source_input": ["IN"]}]}`),
	}
	s := &neso.Server{NoRepository: true}
	if err := s.Bind(model, segments); err != nil {
		t.Fatal(err)
	}
	start(t, s)
	var wg sync.WaitGroup
	seen := make(chan int32, 3)
	for i, shape := range []tensor.Shape{{1, 2, 1}, {1, 0, 7}, {2, 1, 3}} {
		wg.Go(func() {
			n, _ := shape.Elements()
			in := tensor.Tensor{Name: "IN", Datatype: tensor.Int32, Shape: shape}
			for range n {
				in.Data = binary.LittleEndian.AppendUint32(in.Data, uint32(i))
			}
			resp, err := s.Infer(t.Context(), neso.Request{Model: "segments", Inputs: []tensor.Tensor{in}})
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Release()
			out := resp.Outputs[0]
			if !out.Shape.Equal(shape) || len(out.Data) != len(in.Data) {
				t.Errorf("output %s with %d bytes, want %s", out.Shape, len(out.Data), shape)
				return
			}
			for k := 0; k < len(out.Data); k += 4 {
				v := int32(binary.LittleEndian.Uint32(out.Data[k:]))
				if v/10 != int32(i) || v%10 != int32(binary.LittleEndian.Uint32(out.Data))%10 {
					t.Errorf("request %d: element %d is %d", i, k/4, v)
				}
			}
			if n > 0 {
				seen <- int32(binary.LittleEndian.Uint32(out.Data)) % 10
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if a, b := <-seen, <-seen; a == b {
		t.Errorf("two requests have place %d in the batch", a)
	}
}
