package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

// textModel is one with the tensors of vLLM's models.
func textModel(parameters map[string]string, inputs ...string) *modelconfig.Config {
	cfg := &modelconfig.Config{Name: "m", Parameters: parameters, Outputs: []modelconfig.Output{
		{Name: "text_output", Datatype: tensor.Bytes, Dims: tensor.Shape{1}}, {Name: "logprobs", Datatype: tensor.Bytes, Dims: tensor.Shape{1}},
	}}
	for _, name := range inputs {
		cfg.Inputs = append(cfg.Inputs, modelconfig.Input{Name: name, Datatype: tensor.Bytes, Dims: tensor.Shape{1}})
	}
	return cfg
}

func vectorModel(batch int, dims ...int64) *modelconfig.Config {
	return &modelconfig.Config{
		Name: "e", MaxBatchSize: batch, Inputs: []modelconfig.Input{{Name: "TEXT", Datatype: tensor.Bytes, Dims: dims}},
		Outputs: []modelconfig.Output{{Name: "EMBEDDING", Datatype: tensor.FP32, Dims: tensor.Shape{3}}},
	}
}

func TestWhatModelsAreOfferedAs(t *testing.T) {
	none := textModel(map[string]string{"openai_task": "none"}, "text_input")
	for name, c := range map[string]struct {
		cfg  *modelconfig.Config
		want string
	}{
		"a prompt":                {textModel(nil, "text_input"), "completions"},
		"a prompt with a form":    {textModel(map[string]string{"chat_template": "gemma"}, "text_input"), "completions chat"},
		"messages":                {textModel(nil, "messages"), "chat"},
		"both":                    {textModel(nil, "messages", "text_input"), "completions chat"},
		"only one of both":        {textModel(map[string]string{"openai_task": "chat"}, "messages", "text_input"), "chat"},
		"hidden":                  {none, ""},
		"other names":             {textModel(nil, "question"), ""},
		"other names told":        {textModel(map[string]string{"openai_input": "question"}, "question"), "completions"},
		"vectors":                 {vectorModel(4, 1), "embeddings"},
		"a template":              {textModel(map[string]string{"chat_template": "{% for"}, "text_input"), "chat_template"},
		"an input that is not":    {textModel(map[string]string{"openai_input": "x"}, "text_input"), "openai_input"},
		"an output that is not":   {textModel(map[string]string{"openai_output": "x"}, "text_input"), "openai_output"},
		"a task that is none":     {textModel(map[string]string{"openai_task": "sing"}, "text_input"), "openai_task"},
		"a task of other tensors": {textModel(map[string]string{"openai_task": "embeddings"}, "text_input"), "openai_task"},
	} {
		m, err := Map(c.cfg)
		var got []string
		if err != nil {
			_, rest, _ := strings.Cut(err.Message, "'")
			key, _, _ := strings.Cut(rest, "'")
			got = append(got, key)
		} else {
			for what, has := range map[string]bool{"completions": m.Completes, "embeddings": m.Embeds} {
				if has {
					got = append(got, what)
				}
			}
			if m.Chats {
				got = append(got, "chat")
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, err)
		}
	}
}

func calledWith(t *testing.T, cfg *modelconfig.Config, route Route, body string) []string {
	t.Helper()
	r, bad := Parse(route, []byte(body))
	if bad != nil {
		t.Fatal(bad)
	}
	m, bad := Map(cfg)
	if bad != nil {
		t.Fatal(bad)
	}
	calls, bad := r.Calls(m)
	if bad != nil {
		return []string{bad.Message}
	}
	out := make([]string, calls.Count)
	for i := range out {
		out[i] = string(calls.JSON(i))
	}
	return out
}

func TestCalls(t *testing.T) {
	trt := textModel(nil, "text_input", "max_tokens", "stop_words", "random_seed")
	vllm := textModel(nil, "text_input", "sampling_parameters")
	vllm.Backend = "vllm"
	chat := textModel(nil, "messages")
	for name, c := range map[string]struct {
		cfg   *modelconfig.Config
		route Route
		body  string
		want  []string
	}{
		"inputs of TensorRT-LLM": {trt, Completions, `{"model":"m","prompt":"a","max_tokens":3,"stop":"b","seed":9,"n":2}`, []string{
			`{"text_input":"a","max_tokens":3,"random_seed":9,"stop_words":["b"]}`,
			`{"text_input":"a","max_tokens":3,"random_seed":10,"stop_words":["b"]}`,
		}},
		"vLLM's schema": {
			vllm, Completions,
			`{"model":"m","prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"a":1}}}}`,
			[]string{`{"text_input":"a","sampling_parameters":"{\"guided_decoding\":\"{\\\"json\\\":{\\\"a\\\":1}}\"}"}`},
		},
		"messages as they came": {chat, Chat, `{"model":"m","messages":[{"role":"user", "content":"a","z":1}],"top_k":5}`, []string{
			`{"messages":"[{\"role\":\"user\", \"content\":\"a\",\"z\":1}]","top_k":5}`,
		}},
		"vectors in batches": {vectorModel(2, 1), Embeddings, `{"model":"e","input":["a","b","c"]}`, []string{
			`{"TEXT":["a","b"]}`, `{"TEXT":["c"]}`,
		}},
		"vectors one by one": {vectorModel(2, -1), Embeddings, `{"model":"e","input":["a","b"]}`, []string{`{"TEXT":["a"]}`, `{"TEXT":["b"]}`}},
		"no chats": {vllm, Chat, `{"model":"m","messages":[{"role":"user","content":"a"}]}`, []string{
			"model 'm' is not for chats: it takes no messages and has no chat_template",
		}},
	} {
		if diff := cmp.Diff(c.want, calledWith(t, c.cfg, c.route, c.body)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestPrompts(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"U"},{"role":"assistant","content":"A"},` +
		`{"role":"user","content":[{"type":"text","text":"V"}]}]}`
	for name, want := range map[string]string{
		"chatml": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n" +
			"<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n",
		"mistral": "<s>[INST] S\n\nU [/INST] A</s>[INST] V [/INST]",
		"gemma": "<bos><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV<end_of_turn>\n" +
			"<start_of_turn>model\n",
		"phi3":  "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n",
		"plain": "system: S\nuser: U\nassistant: A\nuser: V\nassistant:",
	} {
		calls := calledWith(t, textModel(map[string]string{"chat_template": name}, "text_input"), Chat, body)
		var got map[string]string
		if err := json.Unmarshal([]byte(calls[0]), &got); err != nil || got["text_input"] != want {
			t.Errorf("%s: %v\n got %q\nwant %q", name, err, got["text_input"], want)
		}
	}
}

func TestCallsOfTools(t *testing.T) {
	for text, want := range map[string]string{
		`<tool_call>{"name":"f","arguments":{"a":1}}</tool_call>`:                              `f{"a":1}`,
		"<tool_call>\n{\"name\":\"f\"}\n</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>": `f{}g{}`,
		`<tool_call>{"name":"f","parameters":{"a":1}}`:                                         `f{"a":1}`,
		`[TOOL_CALLS][{"name":"f","arguments":"{}"},{"name":"g","arguments":{}}]`:              `f{}g{}`,
		`<tool_call>nothing</tool_call>`:                                                       ``,
		`<tool_call>{"name":"f"}</tool_call> and more`:                                         ``,
	} {
		got := ""
		for _, c := range calls(text) {
			got += c.Function.Name + c.Function.Arguments
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// A character, and the mark of a call, may come in pieces.
func TestAStreamInPieces(t *testing.T) {
	for text, want := range map[string]string{
		"größe 三 🦜":                                 "größe 三 🦜",
		"a <tool_call>{\"name\":\"f\"}</tool_call>": "a f{}",
		"a <tool_cal":                               "a <tool_cal",
		"a [TOOL_CALLS] <and so>":                   "a [TOOL_CALLS] <and so>",
	} {
		r, bad := Parse(Chat, []byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,`+
			`"tools":[{"type":"function","function":{"name":"f"}}]}`))
		if bad != nil {
			t.Fatal(bad)
		}
		a := NewAnswer(r, strings.Repeat("0", 24), 1, 1)
		b := a.Open(nil)
		for i := range len(text) {
			b = a.Add(b, 0, &Piece{Text: []byte{text[i]}, Prompt: -1, Tokens: -1})
		}
		b = a.End(b, 0)
		b, _ = a.Close(b)
		got := ""
		for event := range strings.SplitSeq(strings.TrimSuffix(string(b), "data: [DONE]\n\n"), "\n\n") {
			var chunk struct {
				Choices []struct {
					Delta struct {
						Content string
						Calls   []toolCall `json:"tool_calls"`
					}
				}
			}
			if data, ok := strings.CutPrefix(event, "data: "); ok && json.Unmarshal([]byte(data), &chunk) != nil {
				t.Fatalf("not JSON: %s", event)
			}
			for _, c := range chunk.Choices {
				got += c.Delta.Content
				for _, call := range c.Delta.Calls {
					got += call.Function.Name + call.Function.Arguments
				}
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What a model says of tokens costs no less than nothing.
func TestCostOfWildNumbers(t *testing.T) {
	m, _ := Map(textModel(nil, "text_input"))
	r, _ := Parse(Completions, []byte(`{"model":"m","prompt":["a","b"]}`))
	a := NewAnswer(r, strings.Repeat("0", 24), 1, 2)
	for i := range 2 {
		p, bad := m.Read(&backend.Response{Parameters: []backend.Parameter{
			backend.Int("num_input_tokens", 1<<63-1), backend.Int("num_output_tokens", 1<<63-1),
		}})
		if bad != nil {
			t.Fatal(bad)
		}
		a.Add(nil, i, &p)
		a.Add(nil, i, &p)
	}
	if cost := a.Cost(); cost < 1<<31 {
		t.Errorf("%d tokens", cost)
	}
}

func TestVectorsThatAreWrong(t *testing.T) {
	r, _ := Parse(Embeddings, []byte(`{"model":"e","input":["a","b"]}`))
	for name, p := range map[string]Piece{
		"none": {}, "too few": {vectors: make([]byte, 12), rows: 1}, "too many": {vectors: make([]byte, 36), rows: 3},
		"torn": {vectors: make([]byte, 12), rows: 2}, "rows of nothing": {vectors: []byte{}, rows: 2},
	} {
		a := NewAnswer(r, "", 1, 1)
		a.Add(nil, 0, &p)
		a.End(nil, 0)
		if b, bad := a.Close(nil); bad == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
}

func fuzzBody(f *testing.F, route Route, seeds ...string) {
	f.Helper()
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	models := []*modelconfig.Config{
		textModel(nil, "messages", "sampling_parameters"), textModel(map[string]string{"chat_template": "chatml"}, "text_input", "stop_words"),
		textModel(map[string]string{"chat_template": "mistral"}, "text_input"), vectorModel(2, 1),
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, bad := Parse(route, body)
		if bad != nil {
			if bad.Status != 400 || bad.Message == "" || !json.Valid(AppendError(nil, bad)) {
				t.Fatalf("%+v", bad)
			}
			return
		}
		for _, cfg := range models {
			m, bad := Map(cfg)
			if bad != nil {
				t.Fatal(bad)
			}
			calls, bad := r.Calls(m)
			if bad != nil {
				continue
			}
			if calls.Count == 0 || calls.Count > max(maxCalls, maxTexts) {
				t.Fatalf("%d calls", calls.Count)
			}
			for i := range calls.Count {
				if c := calls.JSON(i); !json.Valid(c) {
					t.Fatalf("no JSON: %s", c)
				}
			}
			a := NewAnswer(r, strings.Repeat("0", 24), 1, calls.Count)
			b := a.Open(nil)
			for i := range calls.Count {
				b = a.Add(b, i, &Piece{Text: body, Prompt: 1, Tokens: 1, vectors: make([]byte, 12), rows: 1})
				b = a.End(b, i)
			}
			b, _ = a.Close(b)
			if !r.Stream && route != Embeddings && !json.Valid(b) || !utf8.Valid(b) {
				t.Fatalf("reply: %s", b)
			}
		}
	})
}

func FuzzChat(f *testing.F) {
	fuzzBody(f, Chat, `{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}],"tools":[{"type":"function",`+
			`"function":{"name":"f","parameters":{"$ref":"#"}}}],"tool_choice":{"type":"function","function":{"name":"f"}},"logprobs":true}`,
		`{"model":"m","messages":[{"role":"tool","content":"x","tool_call_id":"1"}],"n":3,"stop":["a"],"response_format":{"type":"json_object"}}`)
}

func FuzzCompletions(f *testing.F) {
	fuzzBody(f, Completions, `{"model":"m","prompt":["a","b"],"n":2,"seed":1,"temperature":0.5,"top_p":1,"max_tokens":5,"logprobs":3,`+
		`"x":[{}]}`)
}

func FuzzResponses(f *testing.F) {
	fuzzBody(f, Responses, `{"model":"m","input":"x","instructions":"y","stream":true,"text":{"format":{"type":"json_schema","schema":{}}}}`,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","name":"f","arguments":"{}",`+
			`"call_id":"1"},{"type":"function_call_output","call_id":"1","output":"x"}],"tools":[{"type":"function","name":"f"}]}`,
		`{"model":"m","input":[{"type":"reasoning"},{"role":"assistant","content":"\ud83e"},{"type":"function_call","name":"f"}],`+
			`"include":["message.output_text.logprobs"],"top_logprobs":1,"reasoning":{"effort":"low"},"parallel_tool_calls":false}`)
}

func FuzzEmbeddings(f *testing.F) {
	fuzzBody(f, Embeddings, `{"model":"e","input":["a","b","c"],"encoding_format":"base64","dimensions":3}`, `{"model":"e","input":"a"}`)
}

// What a model writes is foreign, too.
func FuzzPieces(f *testing.F) {
	f.Add([]byte(`[{"7":{"logprob":-1,"rank":1,"decoded_token":"a"}}]`), uint8(1))
	f.Add([]byte("None"), uint8(2))
	f.Fuzz(func(t *testing.T, data []byte, n uint8) {
		m, _ := Map(textModel(nil, "text_input"))
		one := func(name string, d tensor.Datatype, b []byte) tensor.Tensor {
			return tensor.Tensor{Name: name, Datatype: d, Shape: tensor.Shape{int64(n)}, Data: b}
		}
		element := append([]byte{byte(len(data)), byte(len(data) >> 8), byte(len(data) >> 16), 0}, data...)
		p, bad := m.Read(&backend.Response{Outputs: []tensor.Tensor{
			one("text_output", tensor.Bytes, element), one("finish_reason", tensor.Bytes, element), one("logprobs", tensor.Bytes, element),
			one("num_input_tokens", tensor.Int64, data), one("num_output_tokens", tensor.Uint32, data),
		}})
		if bad != nil {
			return
		}
		if p.Prompt < -1 || p.Tokens < -1 || !utf8.ValidString(p.Finish) {
			t.Fatalf("%+v", p)
		}
		for _, body := range []string{
			`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true,"logprobs":true,` +
				`"tools":[{"type":"function","function":{"name":"f"}}]}`,
			`{"model":"m","messages":[{"role":"user","content":"x"}],"logprobs":true,"top_logprobs":2}`,
		} {
			r, _ := Parse(Chat, []byte(body))
			a := NewAnswer(r, strings.Repeat("0", 24), 1, 1)
			b := a.End(a.Add(a.Open(nil), 0, &p), 0)
			if b, _ = a.Close(b); !utf8.Valid(b) {
				t.Fatalf("%q", b)
			}
		}
	})
}
