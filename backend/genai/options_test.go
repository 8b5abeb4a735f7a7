package genai

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct{ object, fault string }{
		{`{}`, ""},
		{`{"max_tokens": 5, "temperature": 0.5, "top_k": -1, "seed": -3, "stop": "x", "logprobs": 0, "tool_choice": "auto"}`, ""},
		{`{"max_tokens": null}`, ""},
		{`{"presence_penalty": 0, "logit_bias": {}, "n": 1}`, ""},
		{`{"guided_json": {"type": "object"}}`, ""},
		{`{"guided_json": "{\"type\": \"object\"}"}`, ""},
		{`{"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/$defs/a"}}}}`, ""},
		{`[]`, "is no JSON object"},
		{`null`, "is no JSON object"},
		{`{"max_tokens": 1.5}`, "'max_tokens' is 1.5: expected a whole number of 1 to 2147483647"},
		{`{"top_p": "x"}`, "expected a number of 0 to 1"},
		{`{"stop": ["a", ""]}`, "expected strings of 1 to 1024 bytes"},
		{`{"n": 2}`, "each text is a request of its own"},
		{`{"frequency_penalty": 0.1}`, "repetition_penalty alone"},
		{`{"tool_choice": "required"}`, "nothing makes the model call a tool"},
		{`{"guided_json": {}, "guided_regex": "a"}`, "there are two of"},
		{`{"guided_json": 5}`, "no JSON object"},
		{`{"guided_json": {"$ref": "http://x/y"}}`, "refers to 'http://x/y'"},
		{`{"guided_regex": 5}`, "expected a string"},
		{`{"guided_json": ` + strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70) + `}`, "nested more than 64 deep"},
		{`{"what": 1}`, "'what' is not known, expected some of adapter,"},
	} {
		o := &options{}
		err := o.readObject(c.object)
		if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%.80s: got %v, want %q", c.object, err, c.fault)
		}
		if err != nil && backend.AsError(err).Code != backend.InvalidArg {
			t.Errorf("%.80s: code %v", c.object, backend.AsError(err).Code)
		}
	}
}

func TestParametersOfRequests(t *testing.T) {
	o := &options{}
	err := o.readParameters([]backend.Parameter{
		backend.Int("max_tokens", 7), backend.Double("temperature", 0.25), backend.String("stop", `["a","b"]`), backend.String("top_k", "3"),
		backend.String("guided_regex", "[0-9]"), backend.Bool("ignore_eos", true), backend.String("another", "x"),
	})
	if err != nil || o.maxTokens != 7 || *o.temperature != 0.25 || !slices.Equal(o.stop, []string{"a", "b"}) || *o.topK != 3 ||
		o.grammar != "[0-9]" || !o.ignoreEnd {
		t.Errorf("got %+v, %v", o, err)
	}
	one := &options{}
	if err := one.readParameters([]backend.Parameter{backend.String("stop", `5`)}); err != nil || !slices.Equal(one.stop, []string{"5"}) {
		t.Errorf("a stop string that is a number: %+v, %v", one.stop, err)
	}
}

func TestSamples(t *testing.T) {
	yes, s := true, &settings{}
	for _, c := range []struct {
		o    options
		want bool
	}{
		{options{}, false},
		{options{temperature: new(0.7)}, true},
		{options{temperature: new(0.0), topP: new(0.5)}, false},
		{options{topK: new(1.0), sample: &yes}, false},
		{options{topP: new(1.0)}, false},
		{options{sample: &yes}, true},
		{options{sample: &yes, beams: 2}, false},
	} {
		if got := c.o.samples(s); got != c.want {
			t.Errorf("%+v: got %v", c.o, got)
		}
	}
}

func FuzzOptions(f *testing.F) {
	f.Add(`{"max_tokens": 5, "stop": ["a"], "guided_json": {"a": [1]}, "seed": 1e3}`)
	f.Add(`{"response_format": {"type": "json_object"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		o := &options{}
		good := o.readObject(text) == nil
		if good && (o.maxTokens < 0 || len(o.stop) > maxStops || o.logprobs > maxCandidates || len(o.grammar) > maxGrammar) {
			t.Errorf("%+v", o)
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add(`[{"role": "user", "content": [{"type": "text", "text": "x"}]}, {"role": "developer"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		out, err := plainMessages(text)
		var all []struct{ Role, Content string }
		if err == nil && (json.Unmarshal([]byte(out), &all) != nil || len(all) == 0) {
			t.Errorf("%q became %q", text, out)
		}
	})
}

func TestSettings(t *testing.T) {
	const good = `{"model": {"context_length": 8, "vocab_size": 9, "eos_token_id": 3, "decoder": {"filename": "m.onnx"}},
		"search": {"max_length": 6}}`
	s, err := parseSettings([]byte(good))
	if err != nil || s.context() != 6 || !s.ends(3) || s.ends(4) || s.keyName() != "past_key_values.0.key" {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, c := range []struct{ from, to, fault string }{
		{`8`, `0`, "model.context_length is 0"},
		{`9`, `99999999`, "model.vocab_size is 99999999"},
		{`"m.onnx"`, `"../m.onnx"`, "leads out of the directory"},
		{`"m.onnx"`, `""`, "models in several parts"},
		{`3,`, `3, "vision": {},`, "has a part 'vision'"},
		{`3,`, `"x",`, "cannot unmarshal"},
	} {
		if _, err := parseSettings([]byte(strings.Replace(good, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: got %v, want %q", c.to, err, c.fault)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"model": {"context_length": 8, "vocab_size": 9, "decoder": {"filename": "m.onnx", "session_options": {"provider_options": [{"cuda":
{}}]}}}, "search": {"past_present_share_buffer": true}}`))
	f.Add([]byte(`{"model": {"context_length": 8, "vocab_size": 9, "eos_token_id": [3], "decoder": {"filename": "m.onnx"}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := parseSettings(text); err == nil && (s.context() < 1 || s.keyName() == "" && s.Model.Decoder.Inputs.PastKeyNames != "") {
			t.Errorf("%+v", s)
		} else if err == nil {
			_ = s.alone()
		}
	})
}

func TestCandidates(t *testing.T) {
	logits := []float32{1, 3, 2, 3, -5}
	best, sum := candidates(logits, 3)
	total := 0.0
	for _, v := range logits {
		total += math.Exp(float64(v))
	}
	if math.Abs(sum-math.Log(total)) > 1e-12 {
		t.Errorf("sum %v, want %v", sum, math.Log(total))
	}
	var order []int32
	for i, c := range best {
		order = append(order, c.token)
		if c.rank != i+1 || rankOf(logits, c.token) != c.rank || math.Abs(c.logprob-(float64(logits[c.token])-sum)) > 1e-12 {
			t.Errorf("candidate %+v", c)
		}
	}
	if !slices.Equal(order, []int32{1, 3, 2}) {
		t.Errorf("order %v", order)
	}
	text := appendLogprobs(nil, candidate{token: 4, logprob: math.Inf(-1), rank: 5}, best[:1], func(int32) string { return "\xff" })
	want := `{"4":{"logprob":-9999,"rank":5,"decoded_token":"?"},"1":{"logprob":` + jsonNumber(best[0].logprob) +
		`,"rank":1,"decoded_token":"?"}}`
	if got := strings.ReplaceAll(string(text), "\uFFFD", "?"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func jsonNumber(v float64) string {
	text, _ := json.Marshal(v)
	return string(text)
}
