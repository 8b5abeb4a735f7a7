package backendtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// Suite says what backend to test, and which of its models can play which
// part. Each function may be nil, or call t.Skip.
type Suite struct {
	Driver   backend.Driver
	Settings backend.Settings
	// Identity returns a model with max_batch_size 8 (and one without batching for
	// 0), whose output equals its input, both of dims [-1] and the datatype.
	Identity func(t *testing.T, d tensor.Datatype, maxBatchSize int) backend.Config
	// Failing returns a model with max_batch_size 8, an input of INT32 with dims
	// [1] and an output that equals it; a request with a negative element gets an
	// error, the others of its batch are answered.
	Failing func(t *testing.T) backend.Config
	// FailingBatch is Failing for a model whose error is that of the whole batch.
	FailingBatch func(t *testing.T) backend.Config
	// Calling returns a model with max_batch_size 8, an input of INT32 with dims
	// [1] and an output that equals it, which has the answer to each request from the
	// other model of its host, HostModel. An error of that call is the request's.
	Calling func(t *testing.T) backend.Config
	// Decoupled returns a model that answers its inputs with n responses and a
	// final mark.
	Decoupled func(t *testing.T, n int) (backend.Config, []tensor.Tensor)
	// Slow returns a model that takes the inputs for at least a minute, unless
	// the request is cancelled.
	Slow func(t *testing.T) (backend.Config, []tensor.Tensor)
	// Broken returns a model that cannot be loaded, or not be given an instance.
	Broken func(t *testing.T) backend.Config
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	if s.Identity != nil {
		t.Run("Datatypes", s.datatypes)
		t.Run("Shapes", s.shapes)
		t.Run("Strings", s.strings)
		t.Run("Batch", s.batch)
		t.Run("Unwanted", s.unwanted)
		t.Run("CancelledBefore", s.cancelledBefore)
		t.Run("Concurrent", s.concurrent)
	}
	if s.Failing != nil {
		t.Run("ErrorInMidBatch", s.errorInMidBatch)
	}
	if s.FailingBatch != nil {
		t.Run("ErrorOfABatch", s.errorOfABatch)
	}
	if s.Calling != nil {
		t.Run("HostCalls", s.hostCalls)
	}
	if s.Decoupled != nil {
		t.Run("Decoupled", s.decoupled)
		t.Run("DecoupledCancelled", s.decoupledCancelled)
	}
	if s.Slow != nil {
		t.Run("CancelledWhileRunning", s.cancelledWhileRunning)
	}
	if s.Broken != nil {
		t.Run("Broken", s.broken)
	}
}

// sample returns n elements of a datatype; those of BYTES differ in length.
func sample(d tensor.Datatype, n int) []byte {
	var data []byte
	for i := range n {
		switch d {
		case tensor.Bytes:
			data = tensor.AppendElement(data, bytes.Repeat([]byte{byte(i)}, i%7))
		case tensor.Bool:
			data = append(data, byte(i%2))
		default:
			var e [8]byte
			binary.LittleEndian.PutUint64(e[:], uint64(i)*0x0102030405060708)
			data = append(data, e[:d.Size()]...)
		}
	}
	return data
}

// echo sends one request to an identity model and wants its input back.
func (h *harness) echo(cfg backend.Config, batch int, shape tensor.Shape, data []byte) {
	h.t.Helper()
	in, out := cfg.Inputs[0], cfg.Outputs[0]
	c := newCall("echo", batch, []string{out.Name}, h.input(in.Name, in.Datatype, shape, data))
	if err := h.execute(c); err != nil {
		h.t.Fatalf("Execute: %v", err)
	}
	c.expect(h.t, out.Name, in.Datatype, shape, data)
}

func (c *call) expect(t *testing.T, name string, d tensor.Datatype, shape tensor.Shape, data []byte) {
	t.Helper()
	if len(c.responses) != 1 {
		t.Fatalf("%d responses, want 1", len(c.responses))
	}
	a := c.responses[0]
	if a.err != nil {
		t.Fatalf("error response: %v", a.err)
	}
	if len(a.outputs) != 1 {
		t.Fatalf("%d outputs, want 1", len(a.outputs))
	}
	o := a.outputs[0]
	if o.Name != name || o.Datatype != d || !o.Shape.Equal(shape) || !bytes.Equal(o.Data, data) {
		t.Errorf("output %s %s %s with %d bytes, want %s %s %s with %d, or other content", o.Name, o.Datatype, o.Shape, len(o.Data), name, d,
			shape, len(data))
	}
}

func (s *Suite) datatypes(t *testing.T) {
	for _, d := range tensor.Datatypes() {
		t.Run(d.String(), func(t *testing.T) {
			cfg := s.Identity(t, d, 8)
			h := open(t, s, cfg)
			h.echo(cfg, 1, tensor.Shape{1, 5}, sample(d, 5))
			h.echo(cfg, 3, tensor.Shape{3, 2}, sample(d, 6))
		})
	}
}

func (s *Suite) shapes(t *testing.T) {
	cfg := s.Identity(t, tensor.FP32, 0)
	h := open(t, s, cfg)
	for _, n := range []int{1, 0, 17, 1000, 0, 2 << 20, 3} { // up to 8 MiB
		h.echo(cfg, 0, tensor.Shape{int64(n)}, sample(tensor.FP32, n))
	}
}

func (s *Suite) strings(t *testing.T) {
	cfg := s.Identity(t, tensor.Bytes, 0)
	h := open(t, s, cfg)
	long := bytes.Repeat([]byte("0123456789"), 100_000)
	for _, elements := range [][]string{{}, {""}, {"", "", ""}, {"a\x00b", "\xff\xfe", "größer"}, {string(long), "x"}} {
		var data []byte
		for _, e := range elements {
			data = tensor.AppendElement(data, e)
		}
		h.echo(cfg, 0, tensor.Shape{int64(len(elements))}, data)
	}
}

func (s *Suite) batch(t *testing.T) {
	for _, d := range []tensor.Datatype{tensor.Int32, tensor.Bytes} {
		t.Run(d.String(), func(t *testing.T) {
			cfg := s.Identity(t, d, 8)
			h := open(t, s, cfg)
			in, out := cfg.Inputs[0], cfg.Outputs[0]
			var calls []*call
			var shapes []tensor.Shape
			var all [][]byte
			for i, rows := range []int{1, 3, 2} {
				shape, data := tensor.Shape{int64(rows), 4}, sample(d, 4*rows+i)
				if d == tensor.Bytes {
					n, _ := tensor.SplitBytes(data, 4*rows)
					data = data[:n]
				} else {
					data = data[4*i:]
				}
				shapes, all = append(shapes, shape), append(all, data)
				calls = append(calls, newCall(fmt.Sprint(i), rows, []string{out.Name}, h.input(in.Name, d, shape, data)))
			}
			if err := h.execute(calls...); err != nil {
				t.Fatalf("Execute: %v", err)
			}
			for i, c := range calls {
				c.expect(t, out.Name, d, shapes[i], all[i])
			}
		})
	}
}

// unwanted asks for no output that the model has: the answer must not be an
// error of the backend's making, nor leak.
func (s *Suite) unwanted(t *testing.T) {
	cfg := s.Identity(t, tensor.Int32, 8)
	h := open(t, s, cfg)
	c := newCall("unwanted", 1, []string{"another"}, h.input(cfg.Inputs[0].Name, tensor.Int32, tensor.Shape{1, 1}, make([]byte, 4)))
	_ = h.execute(c) // the server drops and reports what does not fit
}

func (s *Suite) cancelledBefore(t *testing.T) {
	cfg := s.Identity(t, tensor.Int32, 8)
	h := open(t, s, cfg)
	in, out := cfg.Inputs[0], cfg.Outputs[0]
	gone := newCall("gone", 1, []string{out.Name}, h.input(in.Name, in.Datatype, tensor.Shape{1, 1}, sample(tensor.Int32, 1)))
	gone.cancel()
	stays := newCall("stays", 1, []string{out.Name}, h.input(in.Name, in.Datatype, tensor.Shape{1, 1}, sample(tensor.Int32, 1)))
	if err := h.execute(gone, stays); err != nil {
		t.Fatalf("Execute: %v", err)
	}
	stays.expect(t, out.Name, tensor.Int32, tensor.Shape{1, 1}, sample(tensor.Int32, 1))
}

// concurrent calls Execute as often at once as the backend allows, up to 8.
func (s *Suite) concurrent(t *testing.T) {
	cfg := s.Identity(t, tensor.Int64, 8)
	h := open(t, s, cfg)
	in, out := cfg.Inputs[0], cfg.Outputs[0]
	callers := min(8, max(1, h.caps.Depth))
	done := make(chan *call, callers)
	for g := range callers {
		go func() {
			var last *call
			for i := range 20 {
				b := &backend.Batch{Size: 1}
				data := sample(tensor.Int64, g*20+i+1)
				last = newCall(fmt.Sprint(g, i), 1, []string{out.Name}, h.input(in.Name, in.Datatype, tensor.Shape{1, int64(g*20 + i + 1)}, data))
				b.Requests = []*backend.Request{&last.Request}
				if h.caps.Gather {
					b.Inputs = last.Inputs
				}
				if err := h.instance.Execute(context.Background(), b); err != nil {
					t.Errorf("Execute: %v", err)
					_ = last.Respond(nil, true)
				}
				<-last.done
				if len(last.responses) != 1 || last.responses[0].err != nil || !bytes.Equal(last.responses[0].outputs[0].Data, data) {
					t.Errorf("wrong answer to request %d of caller %d", i, g)
				}
				last.Inputs[0].Release()
			}
			done <- last
		}()
	}
	for range callers {
		select {
		case <-done:
		case <-time.After(Patience):
			t.Fatal("no progress")
		}
	}
}

func (s *Suite) errorInMidBatch(t *testing.T) {
	cfg := s.Failing(t)
	h := open(t, s, cfg)
	var calls []*call
	for _, v := range []int32{7, -1, 9} {
		calls = append(calls, h.int32Call(&cfg, v))
	}
	if err := h.execute(calls...); err != nil {
		t.Fatalf("Execute: %v", err)
	}
	calls[0].equals(t, &cfg, 7)
	calls[2].equals(t, &cfg, 9)
	calls[1].fails(t, "")
}

// int32Call is a request with one element.
func (h *harness) int32Call(cfg *backend.Config, v int32) *call {
	h.t.Helper()
	in := h.input(cfg.Inputs[0].Name, tensor.Int32, tensor.Shape{1, 1}, raw(v))
	return newCall(fmt.Sprint(v), 1, []string{cfg.Outputs[0].Name}, in)
}

func raw(v int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }

// equals wants one answer: the element that was sent.
func (c *call) equals(t *testing.T, cfg *backend.Config, v int32) {
	t.Helper()
	c.expect(t, cfg.Outputs[0].Name, tensor.Int32, tensor.Shape{1, 1}, raw(v))
}

// fails wants one answer: an error that says so.
func (c *call) fails(t *testing.T, text string) {
	t.Helper()
	if r := c.responses; len(r) != 1 || r[0].err == nil || r[0].err.Message == "" || !strings.Contains(r[0].err.Message, text) {
		t.Errorf("request %q was answered with %+v, want an error with %q", c.ID, r, text)
	}
}

// errorOfABatch: every request of a batch that fails gets the error, and the
// next batch is served.
func (s *Suite) errorOfABatch(t *testing.T) {
	cfg := s.FailingBatch(t)
	h := open(t, s, cfg)
	for _, values := range [][]int32{{7, -1, 9}, {1, 2, 3}, {-1}, {4, 5}} {
		var calls []*call
		for _, v := range values {
			calls = append(calls, h.int32Call(&cfg, v))
		}
		failing := slices.Contains(values, -1)
		if err := h.execute(calls...); err != nil && !failing {
			t.Fatalf("Execute of %v: %v", values, err)
		}
		for i, c := range calls {
			if failing {
				c.fails(t, "")
			} else {
				c.equals(t, &cfg, values[i])
			}
		}
	}
}

// hostCalls: an answer from another model, one that is an error, a call that the
// host refuses, and one after all that.
func (s *Suite) hostCalls(t *testing.T) {
	cfg := s.Calling(t)
	h := open(t, s, cfg)
	for _, test := range []struct {
		element int32
		fault   string
	}{{7, ""}, {failedCall, "the call has failed"}, {refusedCall, "the call is refused"}} {
		c := h.int32Call(&cfg, test.element)
		if err := h.execute(c); err != nil && test.fault == "" {
			t.Fatalf("Execute: %v", err)
		}
		if test.fault == "" {
			c.equals(t, &cfg, test.element)
		} else {
			c.fails(t, test.fault)
		}
	}
	calls := []*call{h.int32Call(&cfg, 8), h.int32Call(&cfg, 9)}
	if err := h.execute(calls...); err != nil {
		t.Fatalf("Execute: %v", err)
	}
	calls[0].equals(t, &cfg, 8)
	calls[1].equals(t, &cfg, 9)
}

func (s *Suite) decoupled(t *testing.T) {
	for _, n := range []int{0, 1, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cfg, inputs := s.Decoupled(t, n)
			h := open(t, s, cfg)
			c := h.decoupledCall(cfg, inputs)
			if err := h.execute(c); err != nil {
				t.Fatalf("Execute: %v", err)
			}
			for i, a := range c.responses {
				if a.err != nil || len(a.outputs) == 0 && i < n {
					t.Errorf("response %d: %d outputs, error %v", i, len(a.outputs), a.err)
				}
			}
			if len(c.responses) != n {
				t.Errorf("%d responses, want %d", len(c.responses), n)
			}
		})
	}
}

func (h *harness) decoupledCall(cfg backend.Config, inputs []tensor.Tensor) *call {
	var mine []tensor.Tensor
	for _, t := range inputs {
		mine = append(mine, h.input(t.Name, t.Datatype, t.Shape, t.Data))
	}
	var outputs []string
	for _, o := range cfg.Outputs {
		outputs = append(outputs, o.Name)
	}
	batch := 0
	if cfg.MaxBatchSize > 0 {
		batch = 1
	}
	return newCall("call", batch, outputs, mine...)
}

// decoupledCancelled cancels a long answer: it must end soon.
func (s *Suite) decoupledCancelled(t *testing.T) {
	cfg, inputs := s.Decoupled(t, 1_000_000)
	h := open(t, s, cfg)
	c := h.decoupledCall(cfg, inputs)
	c.cancel()
	_ = h.execute(c)
	if len(c.responses) == 1_000_000 {
		t.Error("a cancelled request was answered to the end")
	}
}

func (s *Suite) cancelledWhileRunning(t *testing.T) {
	cfg, inputs := s.Slow(t)
	h := open(t, s, cfg)
	c := h.decoupledCall(cfg, inputs)
	time.AfterFunc(20*time.Millisecond, c.cancel)
	_ = h.execute(c)
}

func (s *Suite) broken(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	b, err := s.Driver.Open(ctx, &host{memory: &counting{}}, s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	cfg := complete(s.Broken(t))
	m, err := b.Load(ctx, cfg)
	if err == nil {
		var in backend.Instance
		if in, err = m.NewInstance(ctx, cfg.Instances[0]); err == nil {
			t.Error("a broken model was loaded")
			_ = in.Close()
		}
		closeTwice(t, "model", m.Close)
	}
	closeTwice(t, "backend", b.Close)
}
