package genai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nesoserve/neso/backend"
)

// options say how a text is written. nil is what genai_config.json says.
type options struct {
	maxTokens, minTokens int // 0: not said
	temperature, topP    *float64
	topK, repetition     *float64
	lengthPenalty        *float64
	noRepeat             *float64
	seed                 *uint32
	sample               *bool
	earlyStopping        *bool
	beams, sequences     int // 0: not said
	stop                 []string
	keepStop             bool // the stop string stays in the text
	ignoreEnd            bool
	logprobs             int // candidates of each token; 0 means none wanted
	guidance, grammar    string
	adapter              string
	tools                json.RawMessage
	noTools              bool
}

// Bounds of what a request may ask for. What they do not name is bounded by the body.
const (
	maxStops      = 16
	maxStopBytes  = 1024
	maxCandidates = 20
	maxBeams      = 16
	maxGrammar    = 256 << 10
	maxDepth      = 64 // of a schema
)

// setter reads one parameter.
type setter func(o *options, v json.RawMessage) error

// setters are the sampling parameters, called as those of vLLM and of OpenAI's API.
var setters = map[string]setter{
	"max_tokens":           whole(1, math.MaxInt32, func(o *options, v int64) { o.maxTokens = int(v) }),
	"max_new_tokens":       whole(1, math.MaxInt32, func(o *options, v int64) { o.maxTokens = int(v) }),
	"min_tokens":           whole(0, math.MaxInt32, func(o *options, v int64) { o.minTokens = int(v) }),
	"temperature":          number(0, 100, func(o *options, v *float64) { o.temperature = v }),
	"top_p":                number(0, 1, func(o *options, v *float64) { o.topP = v }),
	"top_k":                whole(-1, math.MaxInt32, func(o *options, v int64) { o.topK = new(float64(max(0, v))) }),
	"repetition_penalty":   number(0.01, 100, func(o *options, v *float64) { o.repetition = v }),
	"length_penalty":       number(-100, 100, func(o *options, v *float64) { o.lengthPenalty = v }),
	"no_repeat_ngram_size": whole(0, 1024, func(o *options, v int64) { o.noRepeat = new(float64(v)) }),
	"seed":                 whole(math.MinInt64, math.MaxInt64, func(o *options, v int64) { o.seed = new(uint32(v) & math.MaxInt32) }),
	"random_seed":          whole(math.MinInt64, math.MaxInt64, func(o *options, v int64) { o.seed = new(uint32(v) & math.MaxInt32) }),
	"num_beams":            whole(1, maxBeams, func(o *options, v int64) { o.beams = int(v) }),
	"num_return_sequences": whole(1, maxBeams, func(o *options, v int64) { o.sequences = int(v) }),
	"logprobs":             whole(0, maxCandidates, func(o *options, v int64) { o.logprobs = int(max(1, v)) }),
	"do_sample":            boolean(func(o *options, v bool) { o.sample = &v }),
	"early_stopping":       boolean(func(o *options, v bool) { o.earlyStopping = &v }),
	"ignore_eos":           boolean(func(o *options, v bool) { o.ignoreEnd = v }),

	"include_stop_str_in_output": boolean(func(o *options, v bool) { o.keepStop = v }),

	"stop":              readStops,
	"stop_words":        readStops,
	"adapter":           readAdapter,
	"lora_name":         readAdapter,
	"response_format":   readFormat,
	"guided_json":       readGuided("json_schema"),
	"guided_regex":      readGuided("regex"),
	"guided_grammar":    readGuided("lark_grammar"),
	"tools":             func(o *options, v json.RawMessage) error { o.tools = bytes.Clone(v); return nil },
	"tool_choice":       readChoice,
	"presence_penalty":  nothing("the library has repetition_penalty alone"),
	"frequency_penalty": nothing("the library has repetition_penalty alone"),
	"logit_bias":        nothing("the library has none"),
	"n":                 nothing("each text is a request of its own; num_return_sequences goes with beams"),
}

// set reads one parameter.
func (o *options) set(name string, v json.RawMessage) error {
	f, ok := setters[name]
	if !ok {
		return backend.Errorf(backend.InvalidArg, "sampling parameter '%s' is not known, expected some of %s", cut(name, 60),
			strings.Join(slices.Sorted(maps.Keys(setters)), ", "))
	}
	if string(v) == "null" {
		return nil
	}
	if err := f(o, v); err != nil {
		return backend.Errorf(backend.InvalidArg, "sampling parameter '%s' is %s: %v", name, cut(string(v), 80), err)
	}
	return nil
}

// readObject reads the JSON object of sampling_parameters.
func (o *options) readObject(text string) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil || all == nil {
		return backend.Errorf(backend.InvalidArg, "input '%s' is no JSON object", inSampling)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := o.set(name, all[name]); err != nil {
			return err
		}
	}
	return nil
}

// readParameters reads those of the request that are known here; the others are for others.
func (o *options) readParameters(list []backend.Parameter) error {
	for i := range list {
		p := &list[i]
		if _, ok := setters[p.Name]; !ok {
			continue
		}
		v, err := json.Marshal(p.Value())
		if err != nil {
			return backend.Errorf(backend.InvalidArg, "sampling parameter '%s': %v", p.Name, err)
		}
		if t := strings.TrimSpace(p.Text()); p.Kind == backend.StringParameter && structured(p.Name, t) {
			v = json.RawMessage(t) // objects and arrays come as text
		}
		if err := o.set(p.Name, v); err != nil {
			return err
		}
	}
	return nil
}

// structured reports whether the text of a parameter is JSON by itself.
func structured(name, text string) bool {
	switch name {
	case "stop", "stop_words", "tools", "response_format", "tool_choice", "guided_json", "logit_bias":
		return json.Valid([]byte(text)) && (text[0] == '{' || text[0] == '[')
	case "adapter", "lora_name", "guided_regex", "guided_grammar":
		return false
	}
	return json.Valid([]byte(text)) // numbers that came as text
}

// samples reports whether tokens are drawn, and not the most likely ones taken.
func (o *options) samples(s *settings) bool {
	yes := s.Search.DoSample
	switch {
	case o.temperature != nil && *o.temperature == 0, o.beams > 1, o.topK != nil && *o.topK == 1:
		yes = false
	case o.sample != nil:
		yes = *o.sample
	case o.temperature != nil || o.topP != nil && *o.topP < 1 || o.topK != nil:
		yes = true
	}
	return yes
}

func whole(low, high int64, put func(*options, int64)) setter {
	return func(o *options, v json.RawMessage) error {
		var n int64
		if json.Unmarshal(v, &n) != nil || n < low || n > high {
			return fmt.Errorf("expected a whole number of %d to %d", low, high)
		}
		put(o, n)
		return nil
	}
}

func number(low, high float64, put func(*options, *float64)) setter {
	return func(o *options, v json.RawMessage) error {
		var n float64
		if json.Unmarshal(v, &n) != nil || n < low || n > high {
			return fmt.Errorf("expected a number of %v to %v", low, high)
		}
		put(o, &n)
		return nil
	}
}

func boolean(put func(*options, bool)) setter {
	return func(o *options, v json.RawMessage) error {
		var b bool
		if json.Unmarshal(v, &b) != nil {
			return fmt.Errorf("expected true or false")
		}
		put(o, b)
		return nil
	}
}

// nothing takes the value that changes nothing.
func nothing(why string) setter {
	return func(_ *options, v json.RawMessage) error {
		var n float64
		if t := string(v); t == "{}" || t == "[]" || json.Unmarshal(v, &n) == nil && (n == 0 || n == 1 && strings.HasPrefix(why, "each")) {
			return nil
		}
		return fmt.Errorf("not supported: %s", why)
	}
}

func readStops(o *options, v json.RawMessage) error {
	var one string
	many := []string{}
	if json.Unmarshal(v, &one) == nil {
		many = []string{one}
	} else if json.Unmarshal(v, &many) != nil {
		return fmt.Errorf("expected a string or an array of strings")
	}
	if len(many) > maxStops {
		return fmt.Errorf("it has %d strings, the most is %d", len(many), maxStops)
	}
	for _, s := range many {
		if s == "" || len(s) > maxStopBytes || !utf8.ValidString(s) {
			return fmt.Errorf("expected strings of 1 to %d bytes", maxStopBytes)
		}
	}
	o.stop = many
	return nil
}

func readAdapter(o *options, v json.RawMessage) error {
	if json.Unmarshal(v, &o.adapter) != nil {
		return fmt.Errorf("expected the name of an adapter")
	}
	return plainText("adapter", o.adapter)
}

// readFormat reads OpenAI's form of a schema.
func readFormat(o *options, v json.RawMessage) error {
	var f struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
		Schema json.RawMessage `json:"schema"` // as POST /v1/responses has it
	}
	if json.Unmarshal(v, &f) != nil {
		return fmt.Errorf("expected an object with a 'type'")
	}
	switch f.Type {
	case "text":
		return nil
	case "json_object":
		return o.guide("json_schema", `{"type":"object"}`)
	case "json_schema":
		schema := f.JSONSchema.Schema
		if schema == nil {
			schema = f.Schema
		}
		return o.guide("json_schema", string(schema))
	}
	return fmt.Errorf("'type' is '%s', expected text, json_object or json_schema", cut(f.Type, 40))
}

// readGuided reads a schema, an expression or a grammar as vLLM's parameters have it.
func readGuided(kind string) setter {
	return func(o *options, v json.RawMessage) error {
		text := string(v)
		if json.Unmarshal(v, &text) != nil && kind != "json_schema" {
			return fmt.Errorf("expected a string")
		}
		return o.guide(kind, text)
	}
}

// guide sets what the text has to look like. Only what any reader would refuse is refused here:
// the library knows the rest.
func (o *options) guide(kind, grammar string) error {
	if o.guidance != "" {
		return fmt.Errorf("there are two of response_format, guided_json, guided_regex and guided_grammar")
	}
	if len(grammar) > maxGrammar {
		return fmt.Errorf("it has %d bytes, the most is %d", len(grammar), maxGrammar)
	}
	if err := plainText("grammar", grammar); err != nil {
		return err
	}
	if kind == "json_schema" {
		if err := checkSchema(grammar); err != nil {
			return err
		}
	}
	o.guidance, o.grammar = kind, grammar
	return nil
}

// checkSchema bounds a schema, and refuses one that leads elsewhere: the library would look for it.
func checkSchema(text string) error {
	var schema any
	if json.Unmarshal([]byte(text), &schema) != nil {
		return fmt.Errorf("the schema is no JSON")
	}
	var walk func(v any, depth int) error
	walk = func(v any, depth int) error {
		if depth > maxDepth {
			return fmt.Errorf("the schema is nested more than %d deep", maxDepth)
		}
		switch v := v.(type) {
		case map[string]any:
			if to, ok := v["$ref"].(string); ok && !strings.HasPrefix(to, "#") {
				return fmt.Errorf("the schema refers to '%s', and only what lies in itself is looked for", cut(to, 80))
			}
			for _, e := range v {
				if err := walk(e, depth+1); err != nil {
					return err
				}
			}
		case []any:
			for _, e := range v {
				if err := walk(e, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if _, ok := schema.(map[string]any); !ok {
		if _, ok := schema.(bool); !ok {
			return fmt.Errorf("the schema is no JSON object")
		}
	}
	return walk(schema, 0)
}

func readChoice(o *options, v json.RawMessage) error {
	var name string
	if json.Unmarshal(v, &name) != nil || name != "auto" && name != "none" {
		return fmt.Errorf("expected auto or none: nothing makes the model call a tool")
	}
	o.noTools = name == "none"
	return nil
}
