package ensemble

import (
	"errors"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

// TestOutputsOnDevice: of a step's outputs on a GPU those stay there that go to
// steps alone, which all take them.
func TestOutputsOnDevice(t *testing.T) {
	for name, c := range map[string]struct {
		takes  map[string]bool
		wanted []string
		fails  bool
		asked  bool
		copies int32
		want   string
	}{
		"all that can": {
			// P goes to taker alone; Q to taker and to plain; R to the client.
			takes: map[string]bool{"taker": true}, wanted: []string{"Y", "Z", "R"}, asked: true, copies: 2,
			want: "Y=taken | Z=host | R=RRRR (final 1)",
		},
		"nobody takes": {takes: nil, wanted: []string{"Y", "Z", "R"}, want: "Y=host | Z=host | R=rrrr (final 1)"},
		"plain is not needed": {
			takes: map[string]bool{"taker": true}, wanted: []string{"Y"}, asked: true, copies: 0,
			want: "Y=taken (final 1)",
		},
		"taker is not needed": {takes: map[string]bool{"taker": true}, wanted: []string{"Z"}, want: "Z=host (final 1)"},
		"both take": {
			takes: map[string]bool{"taker": true, "plain": true}, wanted: []string{"Y", "Z"}, asked: true,
			want: "Y=taken | Z=taken (final 1)",
		},
		"the copy to host fails": {
			takes: map[string]bool{"taker": true}, wanted: []string{"Y", "Z"}, fails: true, asked: true, copies: 1,
			want: "Internal: in ensemble 'e', failed to bring tensor 'Q' from the GPU: broken (final 1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := &nesotest.GPU{Data: []byte("PPPPQQQQRRRR")}
			if c.fails {
				gpu.Err = errors.New("broken")
			}
			back := new(counted)
			h := newHost(t)
			h.onDevice = c.takes
			asked := false
			h.model("source IN:FP32[-1] -> P:FP32[-1];Q:FP32[-1];R:FP32[-1]", func(r *infer.Request) error {
				resp := &backend.Response{}
				asked = r.TakesDevice != nil && r.TakesDevice(gpu.GPU())
				for i, name := range []string{"P", "Q", "R"} {
					out := tensor.Tensor{
						Name: name, Datatype: tensor.FP32, Shape: tensor.Shape{1},
						Data: []byte{name[0] + 32, name[0] + 32, name[0] + 32, name[0] + 32},
					}
					if asked {
						back.made++
						out = gpu.Tensor(name, uint64(4*i), tensor.FP32, tensor.Shape{1}, back)
					}
					resp.Outputs = append(resp.Outputs, out)
				}
				_ = r.Respond(resp, true)
				return nil
			})
			sink := func(r *infer.Request) error {
				word := "host"
				for _, in := range r.Inputs {
					if in.OnDevice() {
						word = "taken"
					}
				}
				_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{{
					Name: "OUT", Datatype: tensor.FP32, Shape: tensor.Shape{1},
					Data: []byte(word),
				}}}, true)
				return nil
			}
			h.model("taker A:FP32[-1];B:FP32[-1] -> OUT:FP32[-1]", sink)
			h.model("plain B:FP32[-1] -> OUT:FP32[-1]", sink)
			s := h.scheduler(0, "e X:FP32[-1] -> Y:FP32[-1];Z:FP32[-1];R:FP32[-1]",
				"source IN=X -> P=p,Q=q,R=R", "taker A=p,B=q -> OUT=Y", "plain B=q -> OUT=Z")
			a := &answers{}
			r, b := request(t.Context(), "in", a)
			r.Requested = c.wanted
			if err := s.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			if got := a.String(); got != c.want || asked != c.asked || gpu.Copies.Load() != c.copies {
				t.Errorf("got %s, asked %v, %d copies", got, asked, gpu.Copies.Load())
			}
			settled(t, h, a, b)
			if back.back != back.made {
				t.Errorf("%d of %d blocks came back", back.back, back.made)
			}
		})
	}
}

// TestInputsOnDevice: what comes in on a GPU is handed on there to steps that
// take it, and as bytes to others.
func TestInputsOnDevice(t *testing.T) {
	for name, c := range map[string]struct {
		takes   bool
		missing bool
		fails   bool
		want    string
	}{
		"a step that takes it": {takes: true, want: "Y=taken (final 1)"},
		"one that does not":    {want: "Y=PPPP (final 1)"},
		"the copy fails":       {fails: true, want: "Internal: in ensemble 'e', failed to bring tensor 'X' from the GPU: broken (final 1)"},
		"no model": {
			missing: true, takes: true,
			want: "Not found: in ensemble 'e', Request for unknown model: 'a' is not found (final 1)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := &nesotest.GPU{Data: []byte("PPPP")}
			if c.fails {
				gpu.Err = errors.New("broken")
			}
			h := newHost(t)
			h.onDevice = map[string]bool{"a": c.takes}
			h.model("a IN:FP32[-1] -> OUT:FP32[-1]", func(r *infer.Request) error {
				in := r.Inputs[0]
				if in.OnDevice() {
					in.Data, in.Buffer = []byte("taken"), tensor.NewBuffer(nil, nil)
				} else {
					in.Retain()
				}
				in.Name = "OUT"
				_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{in}}, true)
				return nil
			})
			s := h.scheduler(0, one, "a IN=X -> OUT=Y")
			if c.missing {
				delete(h.run, "a")
			}
			a := &answers{}
			r, b := request(t.Context(), "in", a)
			b.Release()
			back := &counted{made: 1}
			in := gpu.Tensor("X", 0, tensor.FP32, tensor.Shape{1}, back)
			r.Inputs = []tensor.Tensor{in}
			if err := s.Enqueue(r); err != nil {
				t.Fatal(err)
			}
			if got := a.String(); got != c.want {
				t.Errorf("got %s", got)
			}
			settled(t, h, a, b)
			if back.back != back.made {
				t.Errorf("%d of %d blocks came back", back.back, back.made)
			}
		})
	}
}

// counted counts blocks that are made and released.
type counted struct{ made, back int }

func (c *counted) ReleaseBuffer(*tensor.Buffer) { c.back++ }
