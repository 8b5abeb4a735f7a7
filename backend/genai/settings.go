package genai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/genai/step"
	"github.com/nesoserve/neso/backend/internal/modelfile"
)

// configFile is what the model builder writes beside the network.
const configFile = "genai_config.json"

// largestConfig bounds what is read of it.
const largestConfig = 16 << 20

// settings are what is read of genai_config.json; the library reads the rest.
type settings struct {
	Model struct {
		Type          string  `json:"type"`
		ContextLength int     `json:"context_length"`
		VocabSize     int     `json:"vocab_size"`
		EndOfText     numbers `json:"eos_token_id"`
		Decoder       struct {
			Filename      string `json:"filename"`
			Layers        int    `json:"num_hidden_layers"`
			KeyValueHeads int    `json:"num_key_value_heads"`
			HeadSize      int    `json:"head_size"`
			Inputs        struct {
				Tokens         string `json:"input_ids"`
				Mask           string `json:"attention_mask"`
				Positions      string `json:"position_ids"`
				PastKeyNames   string `json:"past_key_names"`
				PastValueNames string `json:"past_value_names"`
			} `json:"inputs"`
			Outputs struct {
				Logits            string `json:"logits"`
				PresentKeyNames   string `json:"present_key_names"`
				PresentValueNames string `json:"present_value_names"`
			} `json:"outputs"`
			Session       map[string]json.RawMessage `json:"session_options"`
			SlidingWindow *slidingWindow             `json:"sliding_window"`
			RunOptions    json.RawMessage            `json:"run_options"`
		} `json:"decoder"`
		Draft                           json.RawMessage
		Encoder, Vision, Speech, Joiner json.RawMessage
	} `json:"model"`
	Search struct {
		MaxLength  int      `json:"max_length"`
		DoSample   bool     `json:"do_sample"`
		TopK       *float64 `json:"top_k"`
		Beams      int      `json:"num_beams"`
		Repetition float64  `json:"repetition_penalty"`
		NoRepeat   float64  `json:"no_repeat_ngram_size"`
		Shared     bool     `json:"past_present_share_buffer"`
	} `json:"search"`
	Engine struct {
		Dynamic *struct {
			BlockSize    int `json:"block_size"`
			Blocks       int `json:"num_blocks"`
			MaxBatchSize int `json:"max_batch_size"`
		} `json:"dynamic_batching"`
	} `json:"engine"`
}

// numbers is one number, or several.
type numbers []int32

func (n *numbers) UnmarshalJSON(text []byte) error {
	var one int32
	if json.Unmarshal(text, &one) == nil {
		*n = numbers{one}
		return nil
	}
	return json.Unmarshal(text, (*[]int32)(n))
}

// readSettings reads the file of a version.
func readSettings(cfg *backend.Config) (*settings, []byte, error) {
	path, err := modelfile.Path(cfg, configFile)
	if err != nil {
		return nil, nil, err
	}
	wrong := func(format string, args ...any) error {
		return backend.Errorf(backend.InvalidArg, "unable to load model '%s': %s: %s", cfg.Name, configFile, fmt.Sprintf(format, args...))
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, wrong("it is missing in the version directory: is this what ONNX Runtime GenAI's model builder has written?")
	}
	if err == nil && info.Size() > largestConfig {
		return nil, nil, wrong("it has %d bytes, the most is %d", info.Size(), largestConfig)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, wrong("%v", err)
	}
	s, err := parseSettings(text)
	if err != nil {
		return nil, nil, wrong("%v", err)
	}
	return s, text, nil
}

// parseSettings reads and checks the text of the file.
func parseSettings(text []byte) (*settings, error) {
	s := &settings{}
	for _, n := range []struct {
		name  *string
		usual string
	}{
		{&s.Model.Decoder.Inputs.Tokens, "input_ids"},
		{&s.Model.Decoder.Inputs.Mask, "attention_mask"},
		{&s.Model.Decoder.Inputs.Positions, "position_ids"},
		{&s.Model.Decoder.Inputs.PastKeyNames, "past_key_values.%d.key"},
		{&s.Model.Decoder.Inputs.PastValueNames, "past_key_values.%d.value"},
		{&s.Model.Decoder.Outputs.Logits, "logits"},
		{&s.Model.Decoder.Outputs.PresentKeyNames, "present.%d.key"},
		{&s.Model.Decoder.Outputs.PresentValueNames, "present.%d.value"},
	} {
		*n.name = n.usual
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	m, d := &s.Model, &s.Model.Decoder
	for name, part := range map[string]json.RawMessage{"encoder": m.Encoder, "vision": m.Vision, "speech": m.Speech, "joiner": m.Joiner} {
		if len(part) > 0 && string(part) != "null" {
			return nil, fmt.Errorf("the model of type '%s' has a part '%s': models of text alone are served", cut(m.Type, 40), name)
		}
	}
	const most = 1 << 24
	for _, n := range []struct {
		name  string
		value int
	}{{"model.context_length", m.ContextLength}, {"model.vocab_size", m.VocabSize}} {
		if n.value < 1 || n.value > most {
			return nil, fmt.Errorf("%s is %d, expected 1 to %d", n.name, n.value, most)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{
		{"num_hidden_layers", d.Layers}, {"num_key_value_heads", d.KeyValueHeads}, {"head_size", d.HeadSize},
	} {
		if n.value < 0 || n.value > 1<<16 {
			return nil, fmt.Errorf("model.decoder.%s is %d, expected 0 to %d", n.name, n.value, 1<<16)
		}
	}
	if d.Filename == "" {
		return nil, errors.New("model.decoder.filename is missing: models in several parts are not served")
	}
	if !filepath.IsLocal(filepath.FromSlash(d.Filename)) {
		return nil, fmt.Errorf("model.decoder.filename '%s' leads out of the directory", cut(d.Filename, 200))
	}
	if e := s.Engine.Dynamic; e != nil && (e.BlockSize < 0 || e.Blocks < 0 || e.MaxBatchSize < 0 || e.BlockSize > most || e.Blocks > most) {
		return nil, errors.New("engine.dynamic_batching has numbers below 0 or too large")
	}
	return s, nil
}

// context is how many tokens prompt and answer may have together.
func (s *settings) context() int {
	if s.Search.MaxLength > 0 && s.Search.MaxLength < s.Model.ContextLength {
		return s.Search.MaxLength
	}
	return s.Model.ContextLength
}

// ends reports whether the token ends a text.
func (s *settings) ends(token int32) bool { return slices.Contains(s.Model.EndOfText, token) }

// keyName is the input of the keys of the first layer.
func (s *settings) keyName() string { return step.Numbered(s.Model.Decoder.Inputs.PastKeyNames, 0) }

// ownCode says what of a model brings code: a library of operators that genai_config.json names.
func ownCode(cfg *backend.Config) string {
	if field := Spec.OfModel(cfg); field != "" {
		return field
	}
	_, text, err := readSettings(cfg)
	if err == nil && strings.Contains(string(text), "custom_ops_library") {
		return configFile + ": custom_ops_library"
	}
	return ""
}

// Parameters of a model's configuration.
const (
	paramSequences = "max_sequences"
	paramCache     = "cache_memory_mb"
	paramThreads   = "generator_threads"
	paramTogether  = "continuous_batching"
)

// limits are how much a model does at once.
type limits struct {
	sequences int
	cache     int64 // bytes of keys and values
	threads   int   // generators that compute at once
	alone     bool  // texts are never computed together
}

// defaultCache is the memory of keys and values where the configuration does not say it: 32 texts
// of 4,096 tokens of a network of a billion parameters or so.
const (
	defaultSequences = 16
	defaultCache     = 2 << 30
	mostSequences    = 4096
)

func parseLimits(cfg *backend.Config) (limits, error) {
	l := limits{sequences: defaultSequences, cache: defaultCache, threads: 1}
	for _, p := range []struct {
		name string
		most int64
		set  func(int64)
	}{
		{paramSequences, mostSequences, func(v int64) { l.sequences = int(v) }},
		{paramCache, 1 << 30, func(v int64) { l.cache = v << 20 }},
		{paramThreads, 256, func(v int64) { l.threads = int(v) }},
	} {
		text, ok := cfg.Parameters[p.name]
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || v < 1 || v > p.most {
			return l, backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s' is '%s', expected a whole number of 1 to %d", p.name,
				cfg.Name, cut(text, 40), p.most)
		}
		p.set(v)
	}
	if text, ok := cfg.Parameters[paramTogether]; ok {
		together, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(text)))
		if err != nil {
			return l, backend.Errorf(backend.InvalidArg, "parameter '%s' of model '%s' is '%s', expected true or false", paramTogether, cfg.Name,
				cut(text, 40))
		}
		l.alone = !together
	}
	return l, nil
}

// cut is what a message shows of a text.
func cut(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}
