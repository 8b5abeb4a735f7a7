package ensemble

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// TestTwin compares ensembles made at random with an obvious evaluation: steps
// one after the other, in the order in which they were made. A model answers
// with its inputs' texts in brackets; some answer on goroutines of their own.
func TestTwin(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := newHost(t)
		for inputs := 1; inputs <= 3; inputs++ {
			for outputs := 1; outputs <= 2; outputs++ {
				h.combine(inputs, outputs, random.IntN(2) == 0)
			}
		}
		c := &modelconfig.Config{Name: "e", Ensemble: &modelconfig.Ensemble{MaxInflight: random.IntN(3)}}
		want := map[string]string{}
		var tensors []string
		for i := range 1 + random.IntN(3) {
			name := fmt.Sprint("X", i)
			c.Inputs = append(c.Inputs, modelconfig.Input{Name: name, Datatype: tensor.FP32, Dims: tensor.Shape{-1}})
			tensors, want[name] = append(tensors, name), name
		}
		for i := range 1 + random.IntN(8) {
			in, out := 1+random.IntN(3), 1+random.IntN(2)
			s := modelconfig.Step{Model: fmt.Sprintf("m%d%d", in, out), Version: -1, InputMap: map[string]string{}, OutputMap: map[string]string{}}
			var texts []string
			for j := range in {
				from := tensors[random.IntN(len(tensors))]
				s.InputMap[fmt.Sprint("I", j)] = from
				texts = append(texts, want[from])
			}
			for j := range out {
				name := fmt.Sprintf("t%d_%d", i, j)
				s.OutputMap[fmt.Sprint("O", j)] = name
				want[name] = combined(j, texts)
				tensors = append(tensors, name)
				c.Outputs = append(c.Outputs, modelconfig.Output{Name: name, Datatype: tensor.FP32, Dims: tensor.Shape{-1}})
			}
			c.Ensemble.Steps = append(c.Ensemble.Steps, s)
		}
		random.Shuffle(len(c.Ensemble.Steps), func(i, j int) {
			c.Ensemble.Steps[i], c.Ensemble.Steps[j] = c.Ensemble.Steps[j], c.Ensemble.Steps[i]
		})
		g, err := NewGraph(c, func(model string, _ int64) *modelconfig.Config { return h.models[model] })
		if err != nil {
			t.Fatal(seed, err)
		}
		s := New(Options{Graph: g, Host: h, Stats: stats.NewVersion(nil)})
		for range 3 {
			a := &answers{}
			r := infer.New(a, nil)
			r.Ctx = t.Context()
			for i := range c.Inputs {
				r.Inputs = append(r.Inputs, texted(c.Inputs[i].Name, c.Inputs[i].Name))
			}
			for _, out := range c.Outputs {
				if random.IntN(2) == 0 || len(r.Requested) == 0 {
					r.Requested = append(r.Requested, out.Name)
				}
			}
			var wanted []string
			for _, name := range r.Requested {
				wanted = append(wanted, name+"="+want[name])
			}
			buffer := r.Inputs[0].Buffer
			if err := s.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			if got, want := a.String(), strings.Join(wanted, " | ")+" (final 1)"; got != want {
				t.Errorf("seed %d: got\n%s\nwant\n%s", seed, got, want)
			}
			settled(t, h, a, buffer)
		}
		for _, l := range s.limits {
			if l.free != g.inflight || len(l.waiting) > 0 {
				t.Errorf("seed %d: %d permits of %d", seed, l.free, g.inflight)
			}
		}
	}
}

// combined is what a model answers as its j-th output: at most some bytes, since
// texts of texts grow fast.
func combined(j int, texts []string) string {
	text := fmt.Sprint(j, "(", strings.Join(texts, ","), ")")
	if len(text) > 60 {
		h := uint32(0)
		for _, c := range []byte(text) {
			h = h*31 + uint32(c)
		}
		text = fmt.Sprintf("#%x", h)
	}
	return text
}

func texted(name, text string) tensor.Tensor {
	b := tensor.NewBuffer([]byte(text), nil)
	return tensor.Tensor{Name: name, Shape: tensor.Shape{1}, Data: b.Bytes(), Buffer: b}
}

// combine makes the model of so many inputs and outputs.
func (h *fakeHost) combine(inputs, outputs int, elsewhere bool) {
	var in, out []string
	for i := range inputs {
		in = append(in, fmt.Sprintf("I%d:FP32[-1]", i))
	}
	for i := range outputs {
		out = append(out, fmt.Sprintf("O%d:FP32[-1]", i))
	}
	run := func(r *infer.Request) {
		texts := make([]string, inputs)
		for i := range texts {
			texts[i] = string(r.Input(fmt.Sprint("I", i)).Data)
		}
		resp := &backend.Response{}
		for j := range outputs {
			if name := fmt.Sprint("O", j); r.Wants(name) {
				resp.Outputs = append(resp.Outputs, texted(name, combined(j, texts)))
			}
		}
		_ = r.Respond(resp, true)
	}
	h.model(fmt.Sprintf("m%d%d %s -> %s", inputs, outputs, strings.Join(in, ";"), strings.Join(out, ";")), func(r *infer.Request) error {
		if elsewhere {
			h.work.Go(func() { run(r) })
		} else {
			run(r)
		}
		return nil
	})
}
