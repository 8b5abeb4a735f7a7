//go:build linux

package worker_test

import (
	"context"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker"
	"github.com/nesoserve/neso/backend/internal/worker/process"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/supervise"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// echoWorker speaks just enough of the protocol to answer every request with
// one fixed output.
const echoWorker = `
import socket, struct
s, answers = socket.socket(fileno=3), socket.socket(fileno=4)
H = struct.Struct("<HBBIIIQ")
def frame(kind, number, body):
    return H.pack(0x574E, 1, kind, len(body), 0, 0, number) + body
answers.sendall(frame(1, 0, b'{"pid": 1, "protocol": 1}'))
out = struct.pack("<QIBBHII", 0, 0, 0, 0, 0, 0, 0)
while True:
    b = s.recv(65536)
    if not b:
        break
    _, _, kind, n, _, _, number = H.unpack_from(b)
    if kind != 6:
        continue
    body = struct.pack("<II", 1, 1) + struct.pack("<Q", struct.unpack_from("<Q", b, 32)[0]) + struct.pack("<IBBHII", 1, 255, 0, 1, 0, 0)
    body += struct.pack("<HBBIQQq", 0, 11, 1, 0xFFFFFFFF, 64, 64, 16) + b"\0" * 64
    answers.sendall(frame(8, number, body))
`

type discard struct{}

func (discard) Respond(resp *backend.Response, _ bool) error { resp.Release(); return nil }
func (discard) Cancelled() bool                              { return false }

// roundTrip starts a child that does next to nothing, and returns what sends a batch of
// one request to it and waits for the answer.
func roundTrip(t testing.TB) func() error {
	t.Helper()
	l := &process.Launcher{}
	t.Cleanup(l.Close)
	s, err := supervise.Launch(t.Context(), supervise.Spec{
		Launcher: l, Name: "m_0_0",
		Command: process.Command{Path: nesotest.Python(t), Args: []string{"-c", echoWorker}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	arena := segment.NewArena(nil, segment.DefaultInlineLimit, 0)
	t.Cleanup(func() { arena.Close() })
	inst := s.Conn.Attach(worker.Instance{
		Name: "m_0_0", Tables: wire.Tables{Inputs: []string{"IN"}, Outputs: []string{"OUT"}}, Arena: arena,
		InlineLimit: segment.DefaultInlineLimit,
	})
	batch := &backend.Batch{Size: 1, Requests: []*backend.Request{{
		Inputs:    []tensor.Tensor{{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{16}, Data: make([]byte, 64)}},
		Requested: []string{"OUT"}, Responder: discard{},
	}}}
	return func() error { return inst.Execute(context.Background(), batch) }
}

// BenchmarkConn is one round trip through the connection to a child that does
// next to nothing: what the Go side costs.
func BenchmarkConn(b *testing.B) {
	execute := roundTrip(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := execute(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestConnAllocationCeiling: a round trip allocates the answer and nothing else.
func TestConnAllocationCeiling(t *testing.T) {
	execute := roundTrip(t)
	got := testing.AllocsPerRun(1000, func() {
		if err := execute(); err != nil {
			t.Fatal(err)
		}
	})
	if got > 1 {
		t.Errorf("%v allocations for a round trip", got)
	}
}
