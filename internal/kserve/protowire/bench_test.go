package protowire

import (
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/tensor"
)

// frame is the size in which the transport hands over message bytes.
const frame = 16 << 10

func BenchmarkProtoDecode(b *testing.B) {
	for _, n := range []int{64, 1 << 20} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			data, err := proto.Marshal(&pbRequest{
				ModelName: "m", Inputs: []*pbInput{{Name: "x", Datatype: "FP32", Shape: []int64{int64(n / 4)}}},
				RawInputContents: [][]byte{make([]byte, n)},
			})
			if err != nil {
				b.Fatal(err)
			}
			pool := memory.New(memory.Options{})
			defer pool.Close()
			pieces := fragments(data, frame)
			var q Request
			var call kserve.ResponseOptions
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if err := q.Parse(pieces); err != nil {
					b.Fatal(err)
				}
				r := infer.New(noSink{}, nil)
				if err := Decode(&q, &r.Request, &call, kserve.Target{Config: protoConfig, Allocator: pool}); err != nil {
					b.Fatal(err)
				}
				q.Reset()
				call.Reset()
				r.Discard()
			}
		})
	}
}

func BenchmarkProtoEncode(b *testing.B) {
	for _, n := range []int{64, 1 << 20} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			pool := memory.New(memory.Options{})
			defer pool.Close()
			buffer, err := pool.Allocate(n)
			if err != nil {
				b.Fatal(err)
			}
			defer buffer.Release()
			outputs := make([]tensor.Tensor, 1)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				outputs[0] = tensor.Tensor{
					Name: "y", Datatype: tensor.FP32, Shape: tensor.Shape{int64(n / 4)}, Data: buffer.Bytes(),
					Buffer: buffer.Retain(),
				}
				p := Response{ModelName: "m", ModelVersion: "1", Outputs: outputs}
				if _, err := p.Size(); err != nil {
					b.Fatal(err)
				}
				Encode(&p).Free()
			}
		})
	}
}
