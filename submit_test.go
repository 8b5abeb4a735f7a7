package neso_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/python"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

const trying = `
import os, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            what = x[0, 0]
            if what == -1:
                os._exit(3)
            if what == -2:
                raise ValueError("it was asked to")
            if what == -3:
                time.sleep(0.02)
            error = pb_utils.TritonError("no") if what == -4 else None
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)], error))
        return answers
`

// storm is a program that sends from its own goroutines and from what it is called by.
type storm struct {
	t                               *testing.T
	s                               *neso.Server
	over                            atomic.Bool
	left                            sync.WaitGroup
	sent, answered, failed, refused atomic.Int64
}

// cloud is one request of a storm at a time, which it sends again when it is its own again.
type cloud struct {
	of      *storm
	number  uint64 // of its sequences, each of one request
	rand    *rand.Rand
	input   tensor.Tensor
	cancel  context.CancelFunc
	open    atomic.Int32 // final answer and release that are still to come
	answers atomic.Int32
}

func (c *cloud) send() {
	if c.of.over.Load() {
		c.of.left.Done()
		return
	}
	values := make([]float32, []int{1, 100, 5000, 30000}[c.rand.IntN(4)])
	values[0] = float32(c.rand.IntN(1000))
	switch n := c.rand.IntN(2000); {
	case n == 0:
		values[0] = -1
	case n < 10:
		values[0] = -2
	case n < 40:
		values[0] = -3
	case n < 60:
		values[0] = -4
	}
	c.input = floats("X", values...)
	c.input.Shape = tensor.Shape{1, int64(len(values))}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.open.Store(2)
	c.answers.Store(0)
	if c.rand.IntN(10) == 0 {
		time.AfterFunc(time.Duration(c.rand.IntN(3000))*time.Microsecond, cancel)
	}
	q := neso.Request{
		Model: "m", Inputs: []tensor.Tensor{c.input}, Priority: uint64(c.rand.IntN(3)), Timeout: uint64(c.rand.IntN(100000)),
		Correlation: backend.CorrelationID{Number: c.number}, Flags: backend.SequenceStart | backend.SequenceEnd,
	}
	c.of.sent.Add(1)
	if err := c.of.s.Submit(ctx, q, c, nil); err != nil {
		cancel()
		c.of.refused.Add(1)
		time.AfterFunc(time.Millisecond, c.send) // what calls it holds the request, for which an unload waits
	}
}

func (c *cloud) Pinned(string, int64) {}

func (c *cloud) Respond(resp *backend.Response, final bool) {
	if resp != nil {
		if n := c.answers.Add(1); n > 1 {
			c.of.t.Errorf("answer %d", n)
		}
		switch {
		case resp.Err != nil:
			c.of.failed.Add(1)
		case !bytes.Equal(resp.Outputs[0].Data, c.input.Data):
			c.of.t.Error("another one's answer")
		default:
			c.of.answered.Add(1)
		}
		resp.Release()
	}
	if final {
		c.ended()
	}
}

func (c *cloud) Released() { c.ended() }

func (c *cloud) ended() {
	switch n := c.open.Add(-1); {
	case n < 0:
		c.of.t.Error("it has ended twice")
	case n == 0:
		c.cancel()
		c.send()
	}
}

// TestStorm: whatever becomes of a model meanwhile, each request that a program has sent is answered once and given back once.
func TestStorm(t *testing.T) {
	length, _ := time.ParseDuration(cmp.Or(os.Getenv("NESO_STORM"), "700ms"))
	for name, config := range map[string]string{
		"plain": `"dynamic_batching": {"priority_levels": 2, "default_priority_level": 1, "default_queue_policy":
			{"default_timeout_microseconds": 50000, "allow_timeout_override": true, "max_queue_size": 40}}, "instance_group": [{"count": %d}]`,
		"line":      `"instance_group": [{"count": %d}]`,
		"sequences": `"sequence_batching": {"max_sequence_idle_microseconds": 100000}, "instance_group": [{"count": %d}]`,
		"oldest": `"sequence_batching": {"oldest": {"max_candidate_sequences": 8, "max_queue_delay_microseconds": 100, "preserve_ordering": true}},
			"instance_group": [{"count": %d}]`,
		"ahead":     `"dynamic_batching": {}, "instance_group": [{"count": %d}]`,
		"ordered":   `"dynamic_batching": {"preserve_ordering": true, "max_queue_delay_microseconds": 300}, "instance_group": [{"count": %d}]`,
		"limited":   `"dynamic_batching": {}, "instance_group": [{"count": %d, "rate_limiter": {"resources": [{"name": "R", "count": 1}]}}]`,
		"objective": `"dynamic_batching": {}, "parameters": {"latency_objective_ms": {"string_value": "20"}}, "instance_group": [{"count": %d}]`,
	} {
		if os.Getenv("NESO_FULL") == "" && name != "plain" && name != "limited" {
			continue // a second each
		}
		t.Run(name, func(t *testing.T) {
			weather(t, length, func(instances int) string {
				return fmt.Sprintf(`{"name": "m", "backend": "python", "max_batch_size": 8,
					"input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [-1], "allow_ragged_batch": true}],
					"output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [-1]}],`+config+"}", instances)
			})
		})
	}
}

// weather is one storm.
func weather(t *testing.T, length time.Duration, config func(instances int) string) {
	dir := repository(t, map[string]string{"m": `backend: "python"`})
	if err := os.WriteFile(filepath.Join(dir, "m", "1", "model.py"), []byte(trying), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &neso.Server{
		ModelRepositories: []string{dir}, ControlMode: "explicit", RateLimit: "execution_count", Logger: slog.New(slog.DiscardHandler),
	}
	start(t, s, python.New(python.Options{Python: nesotest.Python(t)}))
	if err := s.Load(t.Context(), "m", config(2), nil); err != nil {
		t.Fatal(err)
	}
	x := &storm{t: t, s: s}
	for k := range 24 {
		c := &cloud{of: x, number: uint64(k + 1), rand: rand.New(rand.NewPCG(uint64(k), 7))}
		x.left.Add(1)
		go c.send()
	}
	for k := range 2 {
		x.left.Go(func() {
			for i := 0; !x.over.Load(); i++ {
				in := floats("X", float32(k), float32(i))
				in.Shape = tensor.Shape{1, 2}
				resp, err := s.Infer(t.Context(), neso.Request{Model: "m", Inputs: []tensor.Tensor{in}})
				if e := (*backend.Error)(nil); err != nil && !errors.As(err, &e) || err == nil && !bytes.Equal(resp.Outputs[0].Data, in.Data) {
					t.Errorf("waited for: %v, %v", resp, err)
				}
				resp.Release()
			}
		})
	}
	for i, end := 0, time.Now().Add(length); time.Now().Before(end); i++ {
		var err error
		switch i % 4 {
		case 0, 2:
			err = s.Load(t.Context(), "m", config(1+i/2%3), nil)
		case 1:
			_, _ = s.Statistics("m", 0) // it may be away
		case 3:
			if i%8 == 7 {
				if err = s.Unload(t.Context(), "m", false); err == nil {
					err = s.Load(t.Context(), "m", config(2), nil)
				}
			}
		}
		if err != nil {
			t.Error(err)
		}
		time.Sleep(length / 20)
	}
	x.over.Store(true)
	ended := make(chan struct{})
	go func() {
		x.left.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		t.Fatal("requests have not ended")
	}
	t.Logf("%d sent, %d answered, %d failed, %d refused", x.sent.Load(), x.answered.Load(), x.failed.Load(), x.refused.Load())
	var metrics strings.Builder
	if err := s.WriteMetrics(&metrics); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(metrics.String()) {
		if strings.HasPrefix(line, "nv_inference_pending_request_count{") && !strings.HasSuffix(line, " 0\n") {
			t.Error(line)
		}
	}
	if err := s.Unload(t.Context(), "m", false); err != nil {
		t.Error(err)
	}
}
