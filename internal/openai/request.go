package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Route is one of the API's.
type Route uint8

// The routes that models answer.
const (
	Completions Route = iota
	Chat
	Embeddings
	Responses
)

// Bounds of a body. What they do not name is bounded by its size.
const (
	maxChoices   = 16   // of one prompt
	maxCalls     = 64   // prompts times choices
	maxTexts     = 2048 // of one request for vectors
	maxMessages  = 10000
	maxTools     = 128
	maxStops     = 16
	maxStop      = 4096 // bytes of one
	maxTop       = 20
	maxBias      = 100
	maxExtra     = 64 // members that the API does not know
	maxName      = 64 // of such a member, and of a tool
	maxModelName = 1024
)

// Request is what a body asks for.
type Request struct {
	Route Route
	Model string
	// Stream asks for events, Usage for the numbers of tokens in the last one.
	Stream, Usage bool

	texts    []string // prompts, or what vectors are wanted of
	messages []message
	raw      json.RawMessage // messages as they came
	tools    json.RawMessage
	choice   json.RawMessage // of tools
	one      bool            // call of a tool, and no more of them
	n        int
	// params are for the model, in the order of their names.
	params   []param
	hints    []param // which a model may know of or not
	stops    *stops
	most     int64 // tokens that the model may write; 0 means unsaid
	logprobs int   // alternatives of each token; -1 means none wanted
	base64   bool  // vectors are wanted so
	size     int64 // of vectors; 0 means unsaid
	echo     map[string]json.RawMessage
}

type param struct {
	name  string
	value json.RawMessage
}

// Keeps says that a reply grows in memory: it is sent whole, or what a stream ends
// with needs what was before.
func (r *Request) Keeps() bool { return !r.Stream || r.tools != nil || r.Route == Responses }

// body is a request's members, which are taken out one by one.
type body map[string]json.RawMessage

// valueBytes is what a value of a body takes while it is read, whatever its length:
// there are structures for two bytes of text.
const valueBytes = 128

// Weight is how many bytes reading a body takes beside its text, of which there are
// copies: messages, and a prompt of them.
func Weight(text []byte) int64 {
	values, quoted := int64(1), false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case !quoted:
			if c == ',' || c == '[' || c == '{' {
				values++
			}
		case c == '\\':
			i++
		}
	}
	return 2*int64(len(text)) + valueBytes*values
}

// Parse reads a body, in which it may mend what is wrong.
func Parse(route Route, text []byte) (*Request, *Error) {
	var b body
	if !utf8.Valid(text) {
		return nil, bad("", "the body is not valid UTF-8")
	}
	mendHalves(text)
	if err := json.Unmarshal(text, &b); err != nil || b == nil {
		if err == nil {
			return nil, bad("", "the body is null, expected an object")
		}
		return nil, bad("", "the body is no JSON object: %v", err)
	}
	if n := depth(text); n > maxDepth {
		return nil, bad("", "the values of the body lie %d deep in each other, the most is %d", n, maxDepth)
	}
	for name, v := range b {
		if bytes.Equal(v, []byte("null")) {
			delete(b, name)
		}
	}
	r := &Request{Route: route, n: 1, logprobs: -1}
	for _, read := range [...]func(body) *Error{r.readModel, r.readStream, r.readContent, r.readNumbers, r.readTools, r.readExtra} {
		if err := read(b); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(r.params, func(x, y param) int { return strings.Compare(x.name, y.name) })
	return r, nil
}

// take decodes a member, if it is there, and removes it. What it has to be stands
// in want.
func (b body) take(name, want string, to any) (bool, *Error) {
	v, ok := b[name]
	if !ok {
		return false, nil
	}
	delete(b, name)
	if err := json.Unmarshal(v, to); err != nil {
		return true, bad(name, "'%s' is %s, expected %s", name, cut(string(v), 80), want)
	}
	return true, nil
}

// none refuses members with a value that asks for what is not there.
func (b body) none(why string, names ...string) *Error {
	for _, name := range names {
		v, ok := b[name]
		delete(b, name)
		if ok && !slices.Contains([]string{"false", "[]", "{}", `""`, "0"}, string(v)) {
			return bad(name, "'%s' is not supported: %s", name, why)
		}
	}
	return nil
}

func (r *Request) readModel(b body) *Error {
	ok, err := b.take("model", "the name of a model", &r.Model)
	switch {
	case err != nil:
		return err
	case !ok || r.Model == "":
		return bad("model", "you must give 'model', the name of a model of GET /v1/models")
	case len(r.Model) > maxModelName:
		return bad("model", "'model' has %d bytes, the most is %d", len(r.Model), maxModelName)
	}
	return nil
}

func (r *Request) readStream(b body) *Error {
	if r.Route == Embeddings {
		return nil
	}
	if _, err := b.take("stream", "true or false", &r.Stream); err != nil {
		return err
	}
	var o struct {
		Usage bool `json:"include_usage"`
	}
	ok, err := b.take("stream_options", `an object such as {"include_usage": true}`, &o)
	if err != nil {
		return err
	}
	if ok && !r.Stream {
		return bad("stream_options", "'stream_options' needs 'stream': true")
	}
	r.Usage = o.Usage
	return nil
}

func (r *Request) readContent(b body) *Error {
	switch r.Route {
	case Completions:
		return r.readTexts(b, "prompt", maxCalls)
	case Embeddings:
		return r.readTexts(b, "input", maxTexts)
	case Responses:
		return r.readInput(b)
	case Chat:
	}
	v, ok := b["messages"]
	delete(b, "messages")
	if !ok {
		return bad("messages", "you must give 'messages', an array of messages")
	}
	return r.readMessages("messages", v)
}

// readTexts reads one text, or an array of them.
func (r *Request) readTexts(b body, name string, most int) *Error {
	v, ok := b[name]
	delete(b, name)
	if !ok {
		return bad(name, "you must give '%s', a string or an array of strings", name)
	}
	var one string
	if json.Unmarshal(v, &one) == nil {
		r.texts = []string{one}
		return nil
	}
	if json.Unmarshal(v, &r.texts) != nil {
		return bad(name, "'%s' is neither a string nor an array of strings (tokens in their place are not supported)", name)
	}
	if slices.Contains(r.texts, "") && bytes.Contains(v, []byte("null")) { // which package json takes for an empty text
		var each []*string
		_ = json.Unmarshal(v, &each) // it has been read before
		if i := slices.Index(each, nil); i >= 0 {
			return bad(name, "%s[%d] is null, expected a string", name, i)
		}
	}
	if n := len(r.texts); n == 0 || n > most {
		return bad(name, "'%s' has %d texts, expected 1 to %d", name, n, most)
	}
	return nil
}

// readExtra hands what the API does not know to the model, and drops what has no
// meaning here.
func (r *Request) readExtra(b body) *Error {
	for _, name := range []string{
		"user", "metadata", "store", "service_tier", "prediction", "prompt_cache_key", "safety_identifier",
		"prompt_cache_retention", "prompt_cache_options", "truncation", "max_tool_calls",
	} {
		delete(b, name)
	}
	if len(b) > maxExtra {
		return bad("", "%d members that this API does not know are more than %d", len(b), maxExtra)
	}
	for name, v := range b {
		if len(name) > maxName || name == "" || name == "id" || name == "parameters" {
			return bad(cut(name, maxName), "'%s' is no member of this request", cut(name, maxName))
		}
		r.params = append(r.params, param{name, v})
	}
	return nil
}
