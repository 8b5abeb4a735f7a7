package model

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	errorbackend "github.com/nesoserve/neso/backend/error"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/memory"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFailedOpenLeavesNothing(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name   string
		script *script
		want   string
	}{
		{"load", &script{load: func() error { return boom }}, "boom"},
		{"load panics", &script{load: func() error { panic("boom") }}, "backend panicked: boom"},
		{"third instance", &script{create: func(ctx context.Context, cfg backend.InstanceConfig) error {
			if cfg.Name == "m_0_2" {
				return boom
			}
			if cfg.Name == "m_0_3" {
				<-ctx.Done() // the failure ends the others' creation
				return ctx.Err()
			}
			return nil
		}}, "boom"},
		{"instance panics", &script{create: func(context.Context, backend.InstanceConfig) error { panic("boom") }}, "backend panicked: boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := identityConfig()
			c.Groups = []modelconfig.InstanceGroup{{Count: 4}}
			_, err := open(t, c, test.script.driver())
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if n := test.script.open.Load(); n != 0 {
				t.Errorf("%d models and instances are still open", n)
			}
		})
	}
}

func TestInstancesAreMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := identityConfig()
		c.Groups = []modelconfig.InstanceGroup{{Count: 4}}
		c.Parameters = map[string]string{"creation_delay_sec": "3"}
		start := time.Now()
		m, err := open(t, c, identity.New())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("4 instances took %v, want 3s", took)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLabels(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "labels.txt"), []byte("cat\ndog\r\n\nbird\n"))
	write(t, filepath.Join(dir, "..", "secret"), []byte("x"))
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	in := func(o *Options) { o.BackendConfig.Directory = dir }
	c := identityConfig()
	c.Outputs[0].LabelFilename = "labels.txt"
	m := mustOpen(t, c, identity.New(), in)
	if got, want := m.Labels("OUTPUT0"), []string{"cat", "dog", "", "bird"}; !slices.Equal(got, want) {
		t.Errorf("labels %q, want %q", got, want)
	}
	if got := m.Labels("X"); got != nil {
		t.Errorf("labels %q, want none", got)
	}
	for name, want := range map[string]string{
		"../secret": "label file path '../secret' for output 'OUTPUT0' in model 'm' is outside model directory",
		"/etc/host": "label file path '/etc/host' for output 'OUTPUT0' in model 'm' is outside model directory",
		"link":      "label file path 'link' for output 'OUTPUT0' in model 'm' is outside model directory",
		"missing":   "unable to read label file 'missing' for output 'OUTPUT0' in model 'm'",
		".":         "unable to read label file '.' for output 'OUTPUT0' in model 'm'",
	} {
		c.Outputs[0].LabelFilename = name
		if _, err := open(t, c, identity.New(), in); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

func warmConfig(w modelconfig.WarmupInput, batch, count int) *modelconfig.Config {
	c := identityConfig()
	c.MaxBatchSize = 4
	c.Groups = []modelconfig.InstanceGroup{{Count: 2}}
	c.Warmup = []modelconfig.Warmup{
		{Name: "skipped", Inputs: map[string]modelconfig.WarmupInput{"NONE": {}}},
		{Name: "w", BatchSize: batch, Count: count, Inputs: map[string]modelconfig.WarmupInput{"INPUT0": w}},
	}
	return c
}

func TestWarmup(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "warmup", "data"), fp32("", 4).Data)
	for _, source := range []string{"zero", "random", "file"} {
		for _, counted := range []bool{false, true} {
			var requests, batches atomic.Int64
			s := &script{execute: func(_ context.Context, b *backend.Batch) error {
				batches.Add(1)
				for _, r := range b.Requests {
					requests.Add(1)
					if in := r.Inputs[0]; in.Shape.String() != "[1,4]" || source == "file" && in.Data[4] != 1 {
						t.Errorf("%s: input %+v", source, in)
					}
					out := r.Inputs[0]
					out.Name = "OUTPUT0"
					_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
				}
				return nil
			}}
			c := warmConfig(modelconfig.WarmupInput{Datatype: tensor.FP32, Dims: tensor.Shape{4}, Source: source, File: "data"}, 6, 3)
			m := mustOpen(t, c, s.driver(), func(o *Options) { o.BackendConfig.Directory, o.WarmupInStatistics = dir, counted })
			// 2 instances, 3 rounds, 6 requests as batches of 4 and 2.
			if requests.Load() != 36 || batches.Load() != 12 {
				t.Errorf("%s: %d requests in %d batches, want 36 in 12", source, requests.Load(), batches.Load())
			}
			snap := m.Stats().Snapshot()
			if counted && (snap.Success.Count != 36 || snap.ExecutionCount != 12 || snap.Warmups != 0) ||
				!counted && (snap.Success.Count != 0 || snap.ExecutionCount != 0 || snap.Warmups != 6) {
				t.Errorf("%s, counted %v: statistics %+v", source, counted, snap)
			}
		}
	}
}

// A configuration that asks for billions of warm-up requests costs time and not
// memory, and the load can be given up.
func TestHugeWarmupCanBeGivenUp(t *testing.T) {
	c := warmConfig(modelconfig.WarmupInput{Datatype: tensor.FP32, Dims: tensor.Shape{1}, Source: "zero"}, 1<<32-1, 1)
	c.MaxBatchSize = 1<<31 - 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &script{execute: func(_ context.Context, b *backend.Batch) error {
		cancel()
		if len(b.Requests) > warmupTogether {
			t.Errorf("%d requests in a batch", len(b.Requests))
		}
		for _, r := range b.Requests {
			_ = r.Respond(&backend.Response{Err: backend.Errorf(backend.Internal, "given up")}, true)
		}
		return nil
	}}
	b, err := s.driver().Open(ctx, nil, backend.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Open(ctx, Options{Config: c, BackendConfig: view(c), Backend: b, Allocator: memory.New(memory.Options{})}); err == nil {
		t.Error("opened", m.Close(t.Context()))
	}
}

func TestWarmupFaults(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "warmup", "short"), make([]byte, 3))
	type w = modelconfig.WarmupInput
	for _, test := range []struct {
		name  string
		input w
		want  string
	}{
		{
			"dims",
			w{Datatype: tensor.FP32, Dims: tensor.Shape{-1}, Source: "zero"},
			"warmup setting expects all variable-size dimensions are specified for input 'INPUT0'",
		},
		{"no source", w{Datatype: tensor.FP32, Dims: tensor.Shape{1}}, "warmup setting expects input 'INPUT0' to have input_data_type set"},
		{
			"short file",
			w{Datatype: tensor.FP32, Dims: tensor.Shape{1}, Source: "file", File: "short"},
			"warmup setting expects 4 bytes, but the data provided from shortonly has 3 bytes",
		},
		{
			"no file",
			w{Datatype: tensor.FP32, Dims: tensor.Shape{1}, Source: "file", File: "none"},
			"unable to read warmup data file 'none' for input 'INPUT0'",
		},
		{
			"path",
			w{Datatype: tensor.FP32, Dims: tensor.Shape{1}, Source: "file", File: "../../x"},
			"unable to read warmup data file '../../x' for input 'INPUT0'",
		},
		{
			"huge",
			w{Datatype: tensor.FP32, Dims: tensor.Shape{1 << 40}, Source: "zero"},
			"warmup setting of input 'INPUT0' has shape [1099511627776], which is too large",
		},
		{"datatype", w{Datatype: tensor.Int32, Dims: tensor.Shape{1}, Source: "zero"}, "failed to run warmup sample 'w': [request id: " +
			"<id_unknown>] inference input 'INPUT0' data-type is 'INT32', but model 'm' expects 'FP32'; "},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := open(t, warmConfig(test.input, 1, 0), identity.New(), func(o *Options) { o.BackendConfig.Directory = dir })
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || backend.AsError(err).Code != backend.InvalidArg {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	t.Run("backend", func(t *testing.T) {
		c := warmConfig(w{Datatype: tensor.FP32, Dims: tensor.Shape{1}, Source: "zero"}, 2, 0)
		c.Parameters = map[string]string{"at": "warmup", "message": "cold"}
		_, err := open(t, c, errorbackend.New())
		if err == nil || err.Error() != "failed to run warmup sample 'w': cold; " {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := warmConfig(w{Datatype: tensor.FP32, Dims: tensor.Shape{1}, Source: "zero"}, 1, 0)
		c.Decoupled = true // answers may come after Execute: then nothing ends the wait but ctx
		s := &script{execute: func(context.Context, *backend.Batch) error { cancel(); return nil }}
		b, _ := s.driver().Open(ctx, nil, backend.Settings{})
		if _, err := Open(ctx, Options{Config: c, BackendConfig: view(c), Backend: b}); err == nil || s.open.Load() != 0 {
			t.Errorf("got %v, %d still open", err, s.open.Load())
		}
	})
}

func TestRandomDataIsValid(t *testing.T) {
	for _, d := range tensor.Datatypes() {
		size, _ := tensor.ByteSize(d, tensor.Shape{100})
		data := make([]byte, size)
		fillRandom(d, data)
		distinct := map[byte]bool{}
		for _, b := range data {
			distinct[b] = true
			if d == tensor.Bool && b > 1 || d == tensor.Bytes && b != 0 {
				t.Fatalf("%s: byte %#x", d, b)
			}
		}
		if d != tensor.Bytes && len(distinct) < 2 {
			t.Errorf("%s: always the same byte", d)
		}
	}
}

// TestCloseInterrupts closes a model whose backend would run for ever, with a
// request waiting behind it.
func TestCloseInterrupts(t *testing.T) {
	for _, dynamic := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := identityConfig()
			c.MaxBatchSize = 1
			if dynamic {
				c.Dynamic = &modelconfig.DynamicBatching{PreferredBatchSizes: []int{1}}
			}
			s := &script{execute: func(ctx context.Context, _ *backend.Batch) error { <-ctx.Done(); return ctx.Err() }}
			m, err := open(t, c, s.driver())
			if err != nil {
				t.Fatal(err)
			}
			errs := make(chan error, 2)
			for range 2 {
				go func() {
					_, err := ask(t, m, nil, fp32("INPUT0", 1, 1))
					errs <- err
				}()
				synctest.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := m.Close(ctx); err != nil {
				t.Errorf("Close: %v", err)
			}
			got := []string{(<-errs).Error(), (<-errs).Error()}
			slices.Sort(got)
			want := []string{
				"[request id: <id_unknown>] Server is stopping, scheduler for model has stopped accepting new inference requests",
				"context canceled",
			}
			if !slices.Equal(got, want) {
				t.Errorf("answers %q, want %q", got, want)
			}
			if err := m.Close(t.Context()); err != nil || s.open.Load() != 0 {
				t.Errorf("second Close: %v, %d still open", err, s.open.Load())
			}
		})
	}
}

// TestCloseOfADeafBackend returns in time though an execution does not, and
// closes nothing under it.
func TestCloseOfADeafBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &script{execute: func(_ context.Context, b *backend.Batch) error {
			<-release
			return answering(tensorOf("OUTPUT0", tensor.FP32, 4, 1))(nil, b)
		}}
		m, err := open(t, identityConfig(), s.driver())
		if err != nil {
			t.Fatal(err)
		}
		sink := infer.NewSingle()
		r := request(t, m, sink, fp32("INPUT0", 1))
		go func() { _ = m.Infer(r) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "still executes 1 requests") {
			t.Errorf("Close: %v", err)
		}
		if s.open.Load() != 2 {
			t.Error("the instance was closed while it executes")
		}
		close(release)
		if _, err := sink.Wait(); err != nil {
			t.Error(err)
		}
		if err := m.Close(t.Context()); err != nil || s.open.Load() != 0 {
			t.Errorf("second Close: %v, %d still open", err, s.open.Load())
		}
	})
}

func TestNothingLeaks(t *testing.T) {
	pool := memory.New(memory.Options{})
	defer pool.Close()
	m := mustOpen(t, identityConfig(), identity.New(), func(o *Options) { o.Allocator = pool })
	for range 3 {
		buf, err := m.Allocator().Allocate(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		in := tensor.Tensor{Name: "INPUT0", Datatype: tensor.FP32, Shape: tensor.Shape{1 << 18}, Data: buf.Bytes(), Buffer: buf}
		resp, err := ask(t, m, nil, in)
		if err != nil {
			t.Fatal(err)
		}
		if &resp.Outputs[0].Data[0] != &buf.Bytes()[0] {
			t.Error("the input was copied")
		}
		resp.Release()
	}
	if u := pool.Usage(); u.InUse != 0 {
		t.Errorf("%d bytes are still in use: %v", u.InUse, pool.Leaks())
	}
}
