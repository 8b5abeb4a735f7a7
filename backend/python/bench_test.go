//go:build linux

package python

import (
	"context"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/nesotest"
)

const addSub = `
class TritonPythonModel:
	def execute(self, requests):
		out = []
		for r in requests:
			a = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
			out.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", a)]))
		return out
`

// countingResponder answers like a server that throws responses away.
type countingResponder struct{ n atomic.Int64 }

func (c *countingResponder) Respond(resp *backend.Response, _ bool) error {
	c.n.Add(1)
	if resp != nil && resp.Err != nil {
		panic(resp.Err.Message)
	}
	resp.Release()
	return nil
}

func (c *countingResponder) Cancelled() bool { return false }

// BenchmarkRoundTrip compares one small request to a worker with a bare echo
// of as many bytes over a socket pair to a Python child: the difference is what
// the protocol, and decoding and encoding on both sides, cost.
func BenchmarkRoundTrip(b *testing.B) {
	b.Run("bare", benchmarkBare)
	b.Run("worker", func(b *testing.B) {
		m := mustLoad(b, addSub, testOptions{})
		benchmarkExecute(b, m, 1, make([]float32, 16))
	})
}

// BenchmarkBatch is a batch of 32 small requests.
func BenchmarkBatch(b *testing.B) {
	m := mustLoad(b, addSub, testOptions{})
	benchmarkExecute(b, m, 32, make([]float32, 16))
}

// BenchmarkPipelined has 16 batches of one request on their way to one worker.
func BenchmarkPipelined(b *testing.B) {
	m := mustLoad(b, addSub, testOptions{})
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := &countingResponder{}
		r := &backend.Request{Inputs: nil, Requested: []string{"OUT"}, Ctx: context.Background(), Responder: c}
		r.Inputs = append(r.Inputs, floats("IN", make([]float32, 16)...))
		batch := &backend.Batch{Requests: []*backend.Request{r}, Size: 1}
		for pb.Next() {
			if err := m.instance.Execute(context.Background(), batch); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkLarge is a request of 1 MiB whose input lies in the model's memory.
func BenchmarkLarge(b *testing.B) {
	m := mustLoad(b, addSub, testOptions{})
	buf, err := m.model.Allocator().Allocate(1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	defer buf.Release()
	c := &countingResponder{}
	in := floats("IN")
	in.Shape, in.Buffer, in.Data = []int64{1 << 18}, buf, buf.Bytes()
	batch := &backend.Batch{Requests: []*backend.Request{{Requested: []string{"OUT"}, Ctx: context.Background(), Responder: c}}, Size: 1}
	batch.Requests[0].Inputs = append(batch.Requests[0].Inputs, in)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.instance.Execute(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkExecute(b *testing.B, m *testModel, n int, values []float32) {
	c := &countingResponder{}
	batch := &backend.Batch{Size: n}
	for range n {
		r := &backend.Request{Requested: []string{"OUT"}, Ctx: context.Background(), Responder: c}
		r.Inputs = append(r.Inputs, floats("IN", values...))
		batch.Requests = append(batch.Requests, r)
	}
	b.ReportAllocs()
	for b.Loop() {
		batch.InputEnd, batch.OutputStart = 0, 0
		if err := m.instance.Execute(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkBare(b *testing.B) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		b.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	cmd := exec.CommandContext(b.Context(), nesotest.Python(b), "-c",
		"import socket\ns=socket.socket(fileno=3)\nwhile True:\n b=s.recv(65536)\n if not b: break\n s.sendall(b)")
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_ = theirs.Close()
	defer func() { _ = cmd.Wait() }()
	defer ours.Close()
	msg, back := make([]byte, 192), make([]byte, 192)
	if _, err := ours.Write(msg); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(ours, back); err != nil { // it has started
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := ours.Write(msg); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(ours, back); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is what a model waits for once the zygote of its interpreter
// runs: completion, load, one instance, and its end.
func BenchmarkLoad(b *testing.B) {
	d, _ := newDriver(b, nil)
	cfg := configOf(writeModel(b, addSub), testOptions{})
	for b.Loop() {
		if _, err := d.Complete(b.Context(), cfg); err != nil {
			b.Fatal(err)
		}
		m, err := d.Load(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		i, err := m.NewInstance(b.Context(), cfg.Instances[0])
		if err != nil {
			b.Fatal(err)
		}
		_ = i.Close()
		_ = m.Close()
	}
}
