package ensemble

import (
	"context"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// benchHost has one model, which answers with its input on the spot and costs
// nothing of its own.
type benchHost struct{ c *modelconfig.Config }

func (h *benchHost) Pin(string, int64) (Target, error) { return h, nil }

func (h *benchHost) Holding(string, Target, backend.CorrelationID) Target { return nil }

func (h *benchHost) Config() *modelconfig.Config { return h.c }
func (h *benchHost) TakesDevice() bool           { return false }
func (h *benchHost) Unpin()                      {}

func (h *benchHost) NewRequest(sink infer.Sink) *infer.Request { return infer.New(sink, nil) }

func (h *benchHost) Infer(r *infer.Request) error {
	now := r.Times.Start
	r.Times.Queue, r.Times.ComputeStart = now, now
	out := r.Inputs[0]
	out.Name = "OUT"
	out.Retain()
	return r.Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
}

func (*benchHost) Ready(string, int64) error                { return nil }
func (*benchHost) Allocator(string, int64) tensor.Allocator { return nil }
func (*benchHost) Labels(string, int64, string) []string    { return nil }

func benchEnsemble(tb testing.TB, steps int) *Scheduler {
	tb.Helper()
	dims := tensor.Shape{-1}
	model := &modelconfig.Config{
		Name: "m", Inputs: []modelconfig.Input{{Name: "IN", Datatype: tensor.Uint8, Dims: dims}},
		Outputs: []modelconfig.Output{{Name: "OUT", Datatype: tensor.Uint8, Dims: dims}}, Groups: []modelconfig.InstanceGroup{{Count: 1}},
	}
	c := *model
	c.Name, c.Ensemble = "e", &modelconfig.Ensemble{}
	from := "IN"
	for i := range steps {
		to := string(rune('a' + i))
		if i == steps-1 {
			to = "OUT"
		}
		c.Ensemble.Steps = append(c.Ensemble.Steps, modelconfig.Step{
			Model: "m", Version: -1, InputMap: map[string]string{"IN": from}, OutputMap: map[string]string{"OUT": to},
		})
		from = to
	}
	g, err := NewGraph(&c, func(string, int64) *modelconfig.Config { return model })
	if err != nil {
		tb.Fatal(err)
	}
	return New(Options{Graph: g, Host: &benchHost{model}, Stats: stats.NewVersion(nil)})
}

type discard struct{}

func (discard) Deliver(_ *infer.Request, resp *backend.Response, _ bool) { resp.Release() }

func runEnsemble(ctx context.Context, tb testing.TB, s *Scheduler, inputs []tensor.Tensor) {
	r := infer.New(discard{}, nil)
	r.Ctx, r.Requested = ctx, []string{"OUT"}
	r.Inputs = inputs[:1:1]
	tb.Helper()
	if err := s.Enqueue(r); err != nil {
		tb.Fatal(err)
	}
}

func TestAllocationCeilingOfAStep(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector sync.Pool drops what it is given")
	}
	measure := func(steps int) float64 {
		s := benchEnsemble(t, steps)
		inputs := []tensor.Tensor{{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{1}}}
		defer func() { _ = s.Close(t.Context()) }()
		return testing.AllocsPerRun(1000, func() { runEnsemble(t.Context(), t, s, inputs) })
	}
	// The step's request, its inputs, the model's response with its outputs.
	const want = 4
	if got := (measure(3) - measure(1)) / 2; got > want {
		t.Errorf("%v allocations a step, want %d", got, want)
	}
}

// BenchmarkEnqueue is one request through the scheduler alone, the requests to
// the steps and their answers included.
func BenchmarkEnqueue(b *testing.B) {
	for _, steps := range []int{1, 3} {
		b.Run(map[int]string{1: "1 step", 3: "3 steps"}[steps], func(b *testing.B) {
			s := benchEnsemble(b, steps)
			inputs := []tensor.Tensor{{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{1}}}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				runEnsemble(ctx, b, s, inputs)
			}
			_ = s.Close(ctx)
		})
	}
}
