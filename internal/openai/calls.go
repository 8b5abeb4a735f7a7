package openai

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/nesoserve/neso/internal/modelconfig"
)

// wanted are inputs of models of vLLM's kind that ask for what replies need.
var wanted = []string{"exclude_input_in_output", "return_finish_reason", "return_num_input_tokens", "return_num_output_tokens"}

// aliases are what inputs of TensorRT-LLM's models are called, by the API's word.
var aliases = map[string]string{"stop": "stop_words", "seed": "random_seed"}

// Calls are the requests to a model that a request becomes.
type Calls struct {
	// Count is how many there are.
	Count int

	r     *Request
	m     *Mapping
	texts []string
}

// Calls returns the requests to the model: of each text one for each choice, or one
// for as many texts as go together.
func (r *Request) Calls(m *Mapping) (*Calls, *Error) {
	if err := r.fits(m); err != nil {
		return nil, err
	}
	if r.Route == Embeddings {
		return &Calls{(len(r.texts) + m.together - 1) / m.together, r, m, r.texts}, nil
	}
	texts := r.texts
	if r.Route != Completions && m.Messages == "" {
		prompt, err := m.format.prompt(r)
		if err != nil {
			return nil, err
		}
		texts = []string{prompt}
	}
	return &Calls{max(1, len(texts)) * r.n, r, m, texts}, nil
}

// JSON returns call i in the form of the generate extension. They are made one by one:
// all together are many times what came.
func (c *Calls) JSON(i int) []byte {
	out := call{config: c.m.config}
	switch {
	case c.r.Route == Embeddings:
		at := i * c.m.together
		out.put(c.m.Input, appendJSON(nil, c.texts[at:min(at+c.m.together, len(c.texts))]))
	case len(c.texts) > 0:
		out.put(c.m.Input, appendJSON(nil, c.texts[i/c.r.n]))
	default:
		out.put(c.m.Messages, appendJSON(nil, string(c.r.raw)))
	}
	c.r.parameters(&out, c.m, i%c.r.n)
	return append(out.text, '}')
}

// fits checks that the model has the route, and gives what is asked for.
func (r *Request) fits(m *Mapping) *Error {
	has, what := m.Completes, "completions"
	switch r.Route {
	case Completions:
	case Chat, Responses:
		has, what = m.Chats, "chats: it takes no messages and has no chat_template"
	case Embeddings:
		has, what = m.Embeds, "embeddings"
	}
	if !has {
		return bad("model", "model '%s' is not for %s", cut(r.Model, maxName), what)
	}
	for _, p := range r.params {
		if p.name == m.Input || p.name == m.Messages || p.name == m.Sampling {
			return bad(p.name, "'%s' is no member of this request: it is an input of the model, which has its value from the others", p.name)
		}
	}
	if r.logprobs >= 0 && m.output("logprobs") == nil {
		return bad("logprobs", "model '%s' gives no log probabilities", cut(r.Model, maxName))
	}
	if out := m.output(m.Output); r.size > 0 && out.Dims[len(out.Dims)-1] != r.size {
		return bad("dimensions", "'dimensions' is %d, and the vectors of model '%s' have %d", r.size, cut(r.Model, maxName),
			out.Dims[len(out.Dims)-1])
	}
	return nil
}

// call is the JSON of one request as it grows.
type call struct {
	config *modelconfig.Config
	text   []byte
}

func (c *call) put(name string, value []byte) {
	c.text = append(c.text, "{,"[min(len(c.text), 1)])
	c.text = append(append(appendJSON(c.text, name), ':'), value...)
}

// parameters writes what stands beside the text: each where the model has an input
// for it, then the rest in the input for all of them, else as parameters of the
// request. choice is which one of several this is.
func (r *Request) parameters(c *call, m *Mapping, choice int) {
	has := func(name string) bool { return c.config.Input(name) != nil }
	if has("stream") {
		c.put("stream", strconv.AppendBool(nil, r.Stream))
	}
	for _, name := range wanted {
		if has(name) {
			c.put(name, []byte("true"))
		}
	}
	if has("return_logprobs") && r.logprobs >= 0 {
		c.put("return_logprobs", []byte("true"))
	}
	params := r.params
	if r.tools != nil && m.Messages != "" && r.Route != Completions {
		params = append(slices.Clip(params), param{"tools", r.tools})
		if r.choice != nil {
			params = append(params, param{"tool_choice", r.choice})
		}
	}
	var rest []byte
	for _, p := range params {
		if p.name == "seed" && choice > 0 {
			if seed, err := strconv.ParseInt(string(p.value), 10, 64); err == nil { // choices of one seed would be the same
				p.value = strconv.AppendInt(nil, seed+int64(choice), 10)
			}
		}
		switch other := aliases[p.name]; {
		case has(p.name):
			c.put(p.name, forInput(p.value))
		case other != "" && has(other):
			c.put(other, forInput(p.value))
		case m.Sampling != "":
			name, value := p.name, p.value
			if name == "response_format" && c.config.Backend == "vllm" {
				name, value = guided(p.value)
			}
			rest = append(rest, "{,"[min(len(rest), 1)])
			rest = append(append(appendJSON(rest, name), ':'), value...)
		default:
			c.put(p.name, scalar(p.value))
		}
	}
	for _, p := range r.hints {
		if has(p.name) {
			c.put(p.name, forInput(p.value))
		} else if c.config.Backend != "vllm" { // which takes parameters of a request for parameters of sampling
			c.put(p.name, scalar(p.value))
		}
	}
	if rest != nil {
		c.put(m.Sampling, appendJSON(nil, string(append(rest, '}'))))
	}
}

// forInput is a value for an input: objects, and arrays of them, as text.
func forInput(v json.RawMessage) []byte {
	var many []json.RawMessage
	if json.Unmarshal(v, &many) == nil && len(many) > 0 && many[0][0] != '{' && many[0][0] != '[' {
		return v
	}
	return scalar(v)
}

// scalar is a value for a parameter: what is no single value as text.
func scalar(v json.RawMessage) []byte {
	if v[0] == '{' || v[0] == '[' {
		return appendJSON(nil, string(v))
	}
	return v
}

// guided is how vLLM's models for Triton take a schema.
func guided(format json.RawMessage) (string, json.RawMessage) {
	var f struct {
		JSON struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
		Schema json.RawMessage `json:"schema"`
	}
	_ = json.Unmarshal(format, &f) // it has been read before
	if f.JSON.Schema == nil {
		f.JSON.Schema = f.Schema
	}
	inner := json.RawMessage(`{"json_object":true}`)
	if f.JSON.Schema != nil {
		inner = appendJSON(nil, map[string]json.RawMessage{"json": f.JSON.Schema})
	}
	return "guided_decoding", appendJSON(nil, string(inner))
}

// NoModel is the error for a model that is not there, or is not offered.
func NoModel(name string) *Error {
	return &Error{
		Status: http.StatusNotFound, Param: "model", Code: "model_not_found",
		Message: "The model '" + cut(name, 200) + "' does not exist or is not offered by this API",
	}
}
