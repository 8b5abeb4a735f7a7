package jsonwire

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nesoserve/neso/tensor"
)

// benchFloats is a million FP32 values as a client's JSON library writes them.
func benchFloats(b *testing.B) (text, data []byte) {
	b.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	values := make([]float64, 1_000_000)
	for i := range values {
		f := float32(r.Float64()*20 - 10)
		values[i] = float64(f)
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
	}
	text, err := json.Marshal(values)
	if err != nil {
		b.Fatal(err)
	}
	return text, data
}

func BenchmarkParseFloats(b *testing.B) {
	text, data := benchFloats(b)
	dst := make([]byte, len(data))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var s scanner
		s.Reset(text)
		if err := s.data(tensor.FP32, dst, len(data)/4); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteFloats(b *testing.B) {
	_, data := benchFloats(b)
	out, _ := appendData(nil, tensor.FP32, data)
	b.SetBytes(int64(len(out)))
	for b.Loop() {
		out, _ = appendData(out[:0], tensor.FP32, data)
	}
}
