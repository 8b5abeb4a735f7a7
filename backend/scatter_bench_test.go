package backend

import (
	"testing"

	"github.com/nesoserve/neso/tensor"
)

// nobody takes answers and forgets them.
type nobody struct{}

func (nobody) Respond(r *Response, _ bool) error { r.Release(); return nil }
func (nobody) Cancelled() bool                   { return false }

// BenchmarkScatter cuts two outputs of 16 floats a row for 16 requests.
func BenchmarkScatter(b *testing.B) {
	const n = 16
	batch := &Batch{Size: n}
	for range n {
		batch.Requests = append(batch.Requests, &Request{BatchSize: 1, Responder: nobody{}})
	}
	outputs := make([]tensor.Tensor, 2)
	data := make([]byte, 4*16*n)
	b.ReportAllocs()
	for b.Loop() {
		for i := range outputs {
			outputs[i] = tensor.Tensor{Name: "OUT", Datatype: tensor.FP32, Shape: tensor.Shape{n, 16}, Data: data}
		}
		if err := batch.Scatter(outputs); err != nil {
			b.Fatal(err)
		}
	}
}
