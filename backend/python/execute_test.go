//go:build unix

package python

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// TestEveryDatatype sends small, large and empty tensors of every datatype
// through a model that returns them.
func TestEveryDatatype(t *testing.T) {
	var inputs []backend.IO
	for _, d := range tensor.Datatypes() {
		inputs = append(inputs, backend.IO{Name: "IN_" + d.String(), Datatype: d, Dims: tensor.Shape{-1}})
	}
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		out = []
		for r in requests:
			tensors = []
			for i in r.inputs():
				name = i.name().replace("IN_", "OUT_")
				if "BF16" in name:
					tensors.append(pb_utils.Tensor.from_dlpack(name, i.to_dlpack()))
				else:
					tensors.append(pb_utils.Tensor(name, i.as_numpy()))
			out.append(pb_utils.InferenceResponse(tensors))
		return out
`, testOptions{inputs: inputs})
	for _, d := range tensor.Datatypes() {
		for _, n := range []int{0, 1, 7, 1 << 16} {
			in := tensor.Tensor{Name: "IN_" + d.String(), Datatype: d, Shape: tensor.Shape{int64(n)}}
			if d == tensor.Bytes {
				for i := range n {
					in.Data = tensor.AppendElement(in.Data, fmt.Sprintf("e%d\x00\xff", i%100))
				}
			} else {
				in.Data = make([]byte, n*d.Size())
				for i := range in.Data {
					in.Data[i] = byte(i) & 1
				}
			}
			resp := m.infer(in)
			if resp.Err != nil {
				t.Fatalf("%s × %d: %s", d, n, resp.Err.Message)
			}
			if len(resp.Outputs) != 1 {
				t.Fatalf("%s × %d: %d outputs", d, n, len(resp.Outputs))
			}
			o := resp.Outputs[0]
			if o.Name != "OUT_"+d.String() || o.Datatype != d || !o.Shape.Equal(in.Shape) || !bytes.Equal(o.Data, in.Data) {
				t.Errorf("%s × %d: got %s %s %s, %d bytes", d, n, o.Name, o.Datatype, o.Shape, len(o.Data))
			}
			resp.Release()
		}
	}
}

// TestLargeTensors grows both memories, with inputs from the model's own
// allocator and from elsewhere, and outputs that are held while more come.
func TestLargeTensors(t *testing.T) {
	m := mustLoad(t, identity, testOptions{})
	var held []*backend.Response
	for i := range 6 {
		n := 4 << 20 << (i % 3)
		buf, err := m.model.Allocator().Allocate(n)
		if err != nil {
			t.Fatal(err)
		}
		buf.Bytes()[n-4] = byte(i)
		in := tensor.Tensor{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{int64(n / 4)}, Data: buf.Bytes(), Buffer: buf}
		if i%2 == 1 {
			in.Data, in.Buffer = bytes.Clone(in.Data), nil
		}
		held = append(held, m.infer(in))
		buf.Release()
	}
	for i, resp := range held {
		if resp.Err != nil {
			t.Fatal(resp.Err.Message)
		}
		if o := resp.Outputs[0]; o.Data[len(o.Data)-4] != byte(i) {
			t.Errorf("response %d: got %d", i, o.Data[len(o.Data)-4])
		}
		resp.Release()
	}
}

// TestRetainedInput reads an input after its response: the memory must not
// have been given to another request.
func TestRetainedInput(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def initialize(self, args):
		self.kept = None
	def execute(self, requests):
		out = []
		for r in requests:
			now = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
			before = self.kept if self.kept is not None else now
			out.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", before[:1])]))
			self.kept = now
		return out
`, testOptions{})
	for i := range 20 {
		buf, err := m.model.Allocator().Allocate(1 << 16)
		if err != nil {
			t.Fatal(err)
		}
		in := floats("IN", make([]float32, 1<<14)...)
		copy(buf.Bytes(), floats("", float32(i)).Data)
		in.Data, in.Buffer = buf.Bytes(), buf
		resp := m.infer(in)
		buf.Release()
		if got, want := resp.Outputs[0].Data, floats("", float32(max(0, i-1))).Data; !bytes.Equal(got, want) {
			t.Fatalf("round %d: got %x, want %x", i, got, want)
		}
		resp.Release()
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"exception", `
class TritonPythonModel:
	def execute(self, requests):
		raise ValueError("kaboom")
`, "Internal: Failed to process the request(s) for model 'm_0_0', message: ValueError: kaboom\n\nAt:\n  "},
		{"tuple", `
class TritonPythonModel:
	def execute(self, requests):
		return ()
`, "Expected a list in the execute return, found type '<class 'tuple'>'."},
		{"count", `
class TritonPythonModel:
	def execute(self, requests):
		return []
`, "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0"},
		{"error of one request", `
class TritonPythonModel:
	def execute(self, requests):
		return [pb_utils.InferenceResponse(error=pb_utils.TritonError("no such thing", pb_utils.TritonError.NOT_FOUND)) for r in requests]
`, "Not found: no such thing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustLoad(t, c.source, testOptions{})
			if got := describe(m.infer(floats("IN", 1))); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestConcurrentBatches keeps several batches on their way to one worker.
func TestConcurrentBatches(t *testing.T) {
	m := mustLoad(t, identity, testOptions{})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 50 {
				in := floats("IN", float32(g), float32(i))
				r, c := newRequest(in)
				if err := m.instance.Execute(context.Background(), &backend.Batch{Requests: []*backend.Request{r}, Size: 1}); err != nil {
					t.Error(err)
					return
				}
				<-c.done
				if !bytes.Equal(c.responses[0].Outputs[0].Data, in.Data) {
					t.Errorf("%d/%d: another request's answer", g, i)
				}
				c.responses[0].Release()
			}
		})
	}
	wg.Wait()
}

func TestDecoupled(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		for r in requests:
			sender = r.get_response_sender()
			def work(sender=sender):
				for i in range(5):
					sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.full(1, i, np.float32))]))
				sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
			threading.Thread(target=work).start()
`, testOptions{decoupled: true})
	a, ca := newRequest(floats("IN", 1))
	b, cb := newRequest(floats("IN", 1))
	if err := m.run(a, b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*collector{ca, cb} {
		all := c.wait(t)
		if len(all) != 5 {
			t.Fatalf("%d responses, want 5", len(all))
		}
		for i, r := range all {
			if want := floats("", float32(i)).Data; !bytes.Equal(r.Outputs[0].Data, want) {
				t.Errorf("response %d: %s", i, describe(r))
			}
			r.Release()
		}
	}
}

func TestCancelledRequest(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		deadline = time.time() + 50
		while not requests[0].is_cancelled() and time.time() < deadline:
			time.sleep(0.001)
		what = "gone" if requests[0].is_cancelled() else "never told"
		return [pb_utils.InferenceResponse(error=pb_utils.TritonError(what, pb_utils.TritonError.CANCELLED)) for r in requests]
`, testOptions{})
	r, c := newRequest(floats("IN", 1))
	c.cancel()
	_ = m.run(r)
	if got := describe(c.wait(t)[0]); got != "Cancelled: gone" {
		t.Errorf("got %s", got)
	}
}

func TestOutputGoesToTheLog(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		print("hello from print")
		print("x" * 40000)
		pb_utils.Logger.log_warn("hello from the logger")
		return [pb_utils.InferenceResponse([]) for r in requests]
	def finalize(self):
		print("goodbye without a line end", end="")
`, testOptions{})
	m.infer(floats("IN", 1))
	m.close()
	got := m.log.String()
	for _, want := range []string{
		`level=INFO msg="hello from print" model=m instance=m_0_0`, `level=WARN msg="hello from the logger" model=m instance=m_0_0`,
		`msg="goodbye without a line end"`, "msg=" + strings.Repeat("x", 16<<10) + " ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %.80q", want)
		}
	}
}

// TestNothingIsLeft loads, uses, kills and unloads: descriptors, processes and
// goroutines (see TestMain) must be as before.
func TestNothingIsLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts descriptors in /proc")
	}
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	var before int
	for i := range 3 {
		t.Run("round", func(t *testing.T) {
			m := mustLoad(t, crashing, testOptions{complete: true})
			m.infer(floats("IN", make([]float32, 1<<16)...)).Release()
			m.infer(floats("IN", -9))
			m.infer(floats("IN", make([]float32, 1<<16)...)).Release()
		})
		if n := count(); i == 0 {
			before = n
		} else if n > before {
			t.Errorf("%d descriptors, %d before", n, before)
		}
	}
}
