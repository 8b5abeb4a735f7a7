package protowire

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/kserve"
)

// placedRequest is a request with a large tensor, and with more of them.
func placedRequest(t testing.TB, version string, sizes ...int) []byte {
	q := &pbRequest{ModelName: "m", ModelVersion: version, Id: "some id"}
	for i, n := range sizes {
		q.Inputs = append(q.Inputs, &pbInput{Name: string(rune('a' + i)), Datatype: "UINT8", Shape: []int64{int64(n)}})
		q.RawInputContents = append(q.RawInputContents, bytes.Repeat([]byte{byte(i + 1)}, n))
	}
	data, err := proto.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFindTensor(t *testing.T) {
	data := placedRequest(t, "3", 100_000)
	for head, want := range map[int]bool{len(data): true, 1024: true, 80: true, 40: false, 0: false} {
		p, ok := FindTensor(data[:head], len(data))
		if ok != want {
			t.Errorf("%d bytes: got %v", head, ok)
		}
		if ok && (p != Located{"m", 3, len(data) - 100_000, 100_000}) {
			t.Errorf("%d bytes: got %+v", head, p)
		}
	}
	if _, ok := FindTensor(placedRequest(t, "", 1000), 1<<20); ok {
		t.Error("a small tensor has a place")
	}
	if _, ok := FindTensor(placedRequest(t, "x", 100_000), 1<<20); ok {
		t.Error("a wrong version has a place")
	}
	if p, ok := FindTensor(placedRequest(t, "", 100_000, 5, 70_000), 1<<20); !ok || p.Version != -1 || p.Size != 100_000 {
		t.Errorf("got %+v, %v", p, ok)
	}
}

// A tensor that was received where its model wants it is taken as it is; where
// the model wants it elsewhere it is copied.
func TestPlacedTensor(t *testing.T) {
	for _, sizes := range [][]int{{100_000}, {100_000, 5, 70_000}, {0, 100_000}} {
		for _, same := range []bool{true, false} {
			data := placedRequest(t, "", sizes...)
			p, ok := FindTensor(data[:min(len(data), 1024)], len(data))
			if sizes[0] == 0 {
				if ok {
					t.Error("only the first tensor has a place")
				}
				continue
			}
			if !ok {
				t.Fatal("no place")
			}
			a, other := &protoMemory{}, &protoMemory{}
			parts, err := p.Receive(len(data), a)
			if err != nil {
				t.Fatal(err)
			}
			rest := data
			for _, part := range parts {
				rest = rest[copy(part.ReadOnlyData(), rest):]
			}
			if len(rest) > 0 {
				t.Fatalf("%d bytes have no room", len(rest))
			}
			var q Request
			if err := q.Parse(parts); err != nil {
				t.Fatal(err)
			}
			parts.Free()
			target := kserve.Target{Config: protoConfig, Allocator: a}
			if !same {
				target.Allocator = other
			}
			r := infer.New(noSink{}, nil)
			if err := Decode(&q, &r.Request, &kserve.ResponseOptions{}, target); err != nil {
				t.Fatal(err)
			}
			q.Reset()
			wantPlaced := len(sizes)
			if !same {
				wantPlaced = 0
			}
			if a.live != wantPlaced {
				t.Errorf("same allocator %v: %d of its buffers are in use, want %d", same, a.live, wantPlaced)
			}
			for i, n := range sizes {
				if !bytes.Equal(r.Inputs[i].Data, bytes.Repeat([]byte{byte(i + 1)}, n)) {
					t.Errorf("input %d has other bytes", i)
				}
			}
			r.Discard()
			if a.live != 0 || other.live != 0 {
				t.Errorf("%d and %d buffers are left", a.live, other.live)
			}
		}
	}
}

// FuzzFindTensor has what FindTensor says agree with what Parse reads.
func FuzzFindTensor(f *testing.F) {
	f.Add(placedRequest(f, "3", 70_000), uint16(200))
	f.Add(placedRequest(f, "", 70_000, 3)[:300], uint16(100))
	f.Add([]byte{0x0a, 1, 'm', 0x3a, 0xff, 0xff, 0x03}, uint16(7))
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		for _, size := range []int{len(data), len(data) + 100_000} {
			p, ok := FindTensor(data[:min(len(data), int(cut))], size)
			if !ok {
				continue
			}
			if p.Offset < 0 || p.Size < largeTensor || p.Offset+p.Size > size {
				t.Fatalf("%+v of %d bytes", p, size)
			}
			whole := append(bytes.Clone(data), make([]byte, size-len(data))...)
			var q Request
			if q.Parse(mem.BufferSlice{mem.SliceBuffer(whole)}) == nil {
				if len(q.raw) == 0 || q.raw[0].at != p.Offset || q.raw[0].size != p.Size {
					t.Errorf("got %+v, parsed %+v", p, q.raw)
				}
			}
			q.Reset()
		}
	})
}
