package genai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/genai/step"
	"github.com/nesoserve/neso/backend/onnxruntime"
	"github.com/nesoserve/neso/internal/processors"
)

// separately has the types of models whose network changes at a length, with a length
// below it. From there on the library computes the text anew.
var separately = map[string]int{"phi3": 4096, "phimoe": 4096, "phi3small": 8192}

// plainOptions are those of session_options that are obeyed here.
var plainOptions = []string{
	"log_id", "provider_options", "intra_op_num_threads", "inter_op_num_threads", "enable_cpu_mem_arena", "enable_mem_pattern",
}

// alone says why texts of a model are computed one by one, nil if nothing in its configuration asks
// for it.
func (s *settings) alone() error {
	m, d := &s.Model, &s.Model.Decoder
	for _, part := range []struct {
		name string
		json json.RawMessage
	}{{"model.draft", m.Draft}, {"model.decoder.run_options", d.RunOptions}} {
		if len(part.json) > 0 && string(part.json) != "null" {
			return fmt.Errorf("it has '%s'", part.name)
		}
	}
	most, changes := separately[m.Type]
	switch {
	case !d.SlidingWindow.whole():
		return errors.New("'model.decoder.sliding_window' has its cache hold a part of the text")
	case !s.Search.Shared:
		return errors.New("search.past_present_share_buffer is not true: its attention is not of the kind that takes texts of different lengths")
	case changes && s.context() > most:
		return fmt.Errorf("the network of a '%s' changes with the length of the text", m.Type)
	}
	for name := range d.Session {
		if !slices.Contains(plainOptions, name) {
			return fmt.Errorf("session_options has '%s'", cut(name, 60))
		}
	}
	var providers []map[string]json.RawMessage
	if text := d.Session["provider_options"]; len(text) > 0 && json.Unmarshal(text, &providers) != nil {
		return errors.New("provider_options are not understood")
	}
	for _, p := range providers {
		for name := range p {
			if !strings.EqualFold(name, "cpu") {
				return fmt.Errorf("it runs on '%s'", cut(name, 60))
			}
		}
	}
	return nil
}

// slidingWindow says how the cache follows a text that is longer than the attention looks back. The
// library's defaults are that it holds the window alone.
type slidingWindow struct {
	Cache  *bool `json:"slide_key_value_cache"`
	Inputs *bool `json:"slide_inputs"`
	Layers []int `json:"layers"` // whose caches have the size of the window
}

// whole reports whether the cache holds the whole text: how far back it looks is the graph's matter.
func (w *slidingWindow) whole() bool {
	return w == nil || w.Cache != nil && !*w.Cache && w.Inputs != nil && !*w.Inputs && len(w.Layers) == 0
}

// sessionOption reads one of session_options; it leaves the value where there is none.
func sessionOption[T any](s *settings, name string, value *T) error {
	text := s.Model.Decoder.Session[name]
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	if json.Unmarshal(text, value) != nil {
		return fmt.Errorf("session_options.%s is %s", name, cut(string(text), 40))
	}
	return nil
}

// names are those that the graph has.
func (s *settings) names() step.Names {
	d := &s.Model.Decoder
	return step.Names{
		Tokens: d.Inputs.Tokens, Mask: d.Inputs.Mask, Positions: d.Inputs.Positions, Logits: d.Outputs.Logits,
		Past:    [2]string{d.Inputs.PastKeyNames, d.Inputs.PastValueNames},
		Present: [2]string{d.Outputs.PresentKeyNames, d.Outputs.PresentValueNames},
	}
}

// openStep loads the network to be run here. why says what stands against it, where the library can
// run it.
func (s *settings) openStep(r *onnxruntime.Runtime, cfg *backend.Config) (n *step.Network, why, err error) {
	d := &s.Model.Decoder
	o := onnxruntime.GraphOptions{Filename: d.Filename, Threads: min(16, max(1, processors.Count()/2))} // as the library has it
	if why := errors.Join(sessionOption(s, "intra_op_num_threads", &o.Threads), sessionOption(s, "enable_cpu_mem_arena", &o.Arena),
		sessionOption(s, "enable_mem_pattern", &o.Pattern)); why != nil {
		return nil, why, nil
	}
	g, err := r.OpenGraph(cfg, o)
	if err != nil {
		return nil, nil, err
	}
	f := step.Form{Layers: d.Layers, Vocabulary: s.Model.VocabSize, Context: s.context(), Heads: d.KeyValueHeads, Head: d.HeadSize}
	if len(s.Model.EndOfText) > 0 {
		f.First = s.Model.EndOfText[0]
	}
	n, why = step.New(g, s.names(), f)
	return n, why, nil
}
