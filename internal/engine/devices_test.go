package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// devices is a server whose models note what they are given, and answer with a
// tensor on a GPU to who takes it.
type devices struct {
	gpu *nesotest.GPU

	mu   sync.Mutex
	seen map[string]string // by model: where the input was, and what of the output was asked for
}

func (d *devices) execute(_ context.Context, cfg backend.Config, batch *backend.Batch) (bool, error) {
	for _, r := range batch.Requests {
		in := &r.Inputs[0]
		where := "host"
		if in.OnDevice() {
			where = "gpu"
		} else if math.Float32frombits(binary.LittleEndian.Uint32(in.Data)) != 1 {
			where = "other bytes"
		}
		out := tensor.Tensor{Name: "OUT", Datatype: tensor.FP32, Shape: in.Shape, Data: d.gpu.Data[:in.Size()]}
		if r.TakesDevice != nil && r.TakesDevice(d.gpu.GPU()) {
			where += ", asked"
			out = d.gpu.Tensor("OUT", 0, tensor.FP32, in.Shape, nil)
		}
		d.mu.Lock()
		d.seen[cfg.Name] = where
		d.mu.Unlock()
		_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
	}
	return true, nil
}

func (d *devices) was(model string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[model]
}

func newDevices(t *testing.T) (*devices, *Engine, backend.Host) {
	t.Helper()
	d := &devices{gpu: &nesotest.GPU{Data: []byte{0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3f}}, seen: map[string]string{}}
	var host backend.Host
	echo := &nesotest.Echo{
		Name: "echo", OnExecute: d.execute,
		OnOpen: func(h backend.Host, _ backend.Settings) error {
			host = h
			return nil
		},
		TakesDevice: func(cfg *backend.Config) bool { return strings.HasPrefix(cfg.Name, "takes") },
	}
	files := map[string]string{
		"plain/config.pbtxt":          echoConfig,
		"takes/config.pbtxt":          echoConfig,
		"takes_cached/config.pbtxt":   echoConfig + "response_cache { enable: true }\n",
		"takes_sequence/config.pbtxt": echoConfig + "sequence_batching { }\n",
		"e_takes/config.pbtxt":        ensembleConfig("plain", "takes"),
		"e_plain/config.pbtxt":        ensembleConfig("takes", "plain"),
		"e_e_takes/config.pbtxt":      ensembleConfig("e_takes"),
		"e_cached/config.pbtxt":       ensembleConfig("plain", "takes") + "response_cache { enable: true }\n",
	}
	models := []string{}
	for file := range files {
		name, _, _ := strings.Cut(file, "/")
		models = append(models, name)
	}
	for _, name := range models {
		files[name+"/1/"] = ""
	}
	o := explicit(nesotest.Tree(t, files), models...)
	o.Cache, o.CacheSettings = "local", map[string]string{"size": "1048576"}
	return d, server(t, o, echo), host
}

// TestDeviceCalls: a call between models leaves tensors on a GPU where the called
// model and the caller take them, and nothing between them looks at bytes.
func TestDeviceCalls(t *testing.T) {
	d, _, host := newDevices(t)
	anyGPU := func(tensor.GPU) bool { return true }
	for _, c := range []struct {
		model  string
		takes  func(tensor.GPU) bool
		saw    string // the model
		copies int32
		back   bool // the answer is on the GPU
	}{
		{"plain", nil, "host", 1, false},
		{"plain", anyGPU, "host, asked", 1, true},
		{"takes", nil, "gpu", 0, false},
		{"takes", anyGPU, "gpu, asked", 0, true},
		{"takes_cached", anyGPU, "host", 1, false},
	} {
		d.gpu.Copies.Store(0)
		to := &recorder{done: make(chan struct{})}
		in := d.gpu.Tensor("IN", 0, tensor.FP32, tensor.Shape{2}, nil)
		req := call(c.model, to)
		req.Inputs, req.TakesDevice = []tensor.Tensor{in}, c.takes
		if err := host.Infer(req); err != nil {
			t.Fatal(c.model, err)
		}
		<-to.done
		out := to.responses[0]
		if out.Err != nil {
			t.Fatal(c.model, out.Err)
		}
		if got := d.was(c.model); got != c.saw || d.gpu.Copies.Load() != c.copies || out.Outputs[0].OnDevice() != c.back {
			t.Errorf("%s: saw %s, %d copies, answer on the GPU: %v", c.model, got, d.gpu.Copies.Load(), out.Outputs[0].OnDevice())
		}
		out.Release()
		if !in.OnDevice() || in.Buffer.References() != 1 {
			t.Errorf("%s: the caller's tensor has %d references", c.model, in.Buffer.References())
		}
	}
}

// TestDeviceSequence: the states of a sequence are the server's.
func TestDeviceSequence(t *testing.T) {
	d, _, host := newDevices(t)
	to := &recorder{done: make(chan struct{})}
	req := call("takes_sequence", to)
	req.Inputs = []tensor.Tensor{d.gpu.Tensor("IN", 0, tensor.FP32, tensor.Shape{2}, nil)}
	req.TakesDevice = func(tensor.GPU) bool { return true }
	req.Correlation, req.Flags = backend.CorrelationID{Number: 7}, backend.SequenceStart|backend.SequenceEnd
	if err := host.Infer(req); err != nil {
		t.Fatal(err)
	}
	<-to.done
	if got := d.was("takes_sequence"); got != "host" || to.responses[0].Err != nil {
		t.Errorf("saw %s: %v", got, to.responses[0].Err)
	}
}

// TestDeviceEnsembles: a tensor stays where it is if the step and the caller that
// get it take it; a client gets bytes.
func TestDeviceEnsembles(t *testing.T) {
	d, e, host := newDevices(t)
	check := func(who string, out *backend.Response, back bool, steps ...string) {
		t.Helper()
		if out.Err != nil || out.Outputs[0].OnDevice() != back {
			t.Errorf("%s: %+v", who, out)
		}
		for _, step := range steps {
			name, want, _ := strings.Cut(step, ": ")
			if got := d.was(name); got != want {
				t.Errorf("%s: %s saw %s, want %s", who, name, got, want)
			}
		}
		clear(d.seen)
		out.Release()
	}
	for _, c := range []struct {
		model         string
		takes         bool
		first, second string
	}{
		{"e_takes", true, "plain: host, asked", "takes: gpu, asked"},
		{"e_takes", false, "plain: host, asked", "takes: gpu"},
		{"e_plain", true, "takes: gpu", "plain: host, asked"},
		{"e_plain", false, "takes: gpu", "plain: host"},
		{"e_e_takes", true, "plain: host, asked", "takes: gpu, asked"},
		{"e_cached", true, "plain: host, asked", "takes: gpu"},
	} {
		to := &recorder{done: make(chan struct{})}
		req := call(c.model, to)
		in := d.gpu.Tensor("IN", 0, tensor.FP32, tensor.Shape{2}, nil)
		req.Inputs = []tensor.Tensor{in}
		if c.takes {
			req.TakesDevice = func(tensor.GPU) bool { return true }
		}
		if err := host.Infer(req); err != nil {
			t.Fatal(err)
		}
		<-to.done
		check(c.model, to.responses[0], c.takes && c.model != "e_cached", c.first, c.second)
		if in.Buffer.References() != 1 {
			t.Errorf("%s: %d references", c.model, in.Buffer.References())
		}
	}
	p, err := e.Resolve(t.Context(), "e_takes", -1, 8)
	if err != nil {
		t.Fatal(err)
	}
	sink := infer.NewSingle()
	r := p.NewRequest(sink)
	r.Inputs = []tensor.Tensor{input(2)}
	r.Inputs[0].Data = d.gpu.Data
	if err := e.Infer(r); err != nil {
		t.Fatal(err)
	}
	out, failed := sink.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	check("a client", out, false, "plain: host, asked", "takes: gpu")
}

// TestDeviceCopyFails: the caller is told.
func TestDeviceCopyFails(t *testing.T) {
	d, _, host := newDevices(t)
	d.gpu.Err = errors.New("CUDA error 700")
	req := call("plain", &recorder{done: make(chan struct{})})
	in := d.gpu.Tensor("IN", 0, tensor.FP32, tensor.Shape{2}, nil)
	req.Inputs = []tensor.Tensor{in}
	wantError(t, host.Infer(req), backend.Internal,
		"Model plain - Error when running inference: failed to bring tensor 'IN' from the GPU: CUDA error 700")
	if in.Buffer.References() != 1 {
		t.Errorf("%d references", in.Buffer.References())
	}
}
