package openai

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// includeLogprobs is how the route of responses is asked for log probabilities.
const includeLogprobs = "message.output_text.logprobs"

// ranges are the numbers that go to the model as they are.
var ranges = []struct {
	name      string
	low, high float64
}{{"temperature", 0, 2}, {"top_p", 0, 1}, {"presence_penalty", -2, 2}, {"frequency_penalty", -2, 2}}

// readNumbers reads what says how a text is made.
func (r *Request) readNumbers(b body) *Error {
	if r.Route == Embeddings {
		return r.readEmbedding(b)
	}
	for _, x := range ranges {
		raw := b[x.name]
		var v float64
		ok, err := b.take(x.name, "a number", &v)
		if err != nil {
			return err
		}
		if ok && (v < x.low || v > x.high) {
			return bad(x.name, "'%s' is %v, expected %v to %v", x.name, v, x.low, x.high)
		}
		if ok {
			r.params = append(r.params, param{x.name, raw})
		}
	}
	for _, read := range [...]func(body) *Error{r.readLimits, r.readStop, r.readBias, r.readLogprobs, r.readFormat, r.readHints} {
		if err := read(b); err != nil {
			return err
		}
	}
	return nil
}

// whole reads an integer.
func (b body) whole(name string, low, high, usual int64) (int64, bool, *Error) {
	v := usual
	ok, err := b.take(name, "an integer", &v)
	if err == nil && ok && (v < low || v > high) {
		err = bad(name, "'%s' is %d, expected %d to %d", name, v, low, high)
	}
	return v, ok, err
}

func (r *Request) readLimits(b body) *Error {
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		v, ok, err := b.whole(name, 1, math.MaxInt32, 0)
		if err != nil {
			return err
		}
		if ok {
			r.most = v
		}
	}
	if r.most > 0 {
		r.params = append(r.params, param{"max_tokens", json.RawMessage(strconv.FormatInt(r.most, 10))})
	}
	n, _, err := b.whole("n", 1, maxChoices, 1)
	if err != nil {
		return err
	}
	if r.Route == Responses && n > 1 {
		return bad("n", "'n' is not supported: a response has one text")
	}
	best, _, err := b.whole("best_of", n, n, n)
	if err != nil {
		return bad("best_of", "'best_of' is not supported unless it is 'n'")
	}
	r.n = int(best)
	if c := r.n * max(1, len(r.texts)); c > maxCalls {
		return bad("n", "%d texts times 'n' of %d are %d choices, the most is %d", len(r.texts), r.n, c, maxCalls)
	}
	seed, ok, err := b.whole("seed", math.MinInt64, math.MaxInt64, 0)
	if err == nil && ok {
		r.params = append(r.params, param{"seed", json.RawMessage(strconv.FormatInt(seed, 10))})
	}
	return err
}

func (r *Request) readStop(b body) *Error {
	v, ok := b["stop"]
	delete(b, "stop")
	if !ok {
		return nil
	}
	var one string
	many := []string{}
	if json.Unmarshal(v, &one) == nil {
		many = []string{one}
	} else if json.Unmarshal(v, &many) != nil {
		return bad("stop", "'stop' is %s, expected a string or an array of strings", cut(string(v), 80))
	}
	if len(many) > maxStops {
		return bad("stop", "'stop' has %d strings, the most is %d", len(many), maxStops)
	}
	for i, s := range many {
		if len(s) == 0 || len(s) > maxStop {
			return bad("stop", "'stop' has a string of %d bytes (the one at %d), expected 1 to %d", len(s), i, maxStop)
		}
	}
	var shown bool // vLLM's; models get it, too
	if v := b["include_stop_str_in_output"]; v != nil && json.Unmarshal(v, &shown) != nil {
		return bad("include_stop_str_in_output", "'include_stop_str_in_output' is %s, expected true or false", cut(string(v), 80))
	}
	if len(many) > 0 {
		r.params = append(r.params, param{"stop", appendJSON(nil, many)})
		r.stops = newStops(many, shown)
	}
	return nil
}

// readBias checks what goes to the model as it came.
func (r *Request) readBias(b body) *Error {
	raw := b["logit_bias"]
	var bias map[string]float64
	ok, err := b.take("logit_bias", "an object with a number for each token", &bias)
	if err != nil || !ok {
		return err
	}
	for token, v := range bias {
		if v < -maxBias || v > maxBias {
			return bad("logit_bias", "'logit_bias' has %v for token '%s', expected %d to %d", v, cut(token, 20), -maxBias, maxBias)
		}
	}
	if len(bias) > 0 {
		r.params = append(r.params, param{"logit_bias", raw})
	}
	return nil
}

func (r *Request) readLogprobs(b body) *Error {
	if r.Route == Completions {
		n, ok, err := b.whole("logprobs", 0, maxTop, 0)
		if ok {
			r.logprobs = int(n)
		}
		if err != nil {
			return err
		}
	} else {
		var wanted bool
		if _, err := b.take("logprobs", "true or false", &wanted); err != nil {
			return err
		}
		n, ok, err := b.whole("top_logprobs", 0, maxTop, 0)
		if err != nil {
			return err
		}
		if r.Route == Responses {
			var include []string
			if _, err := b.take("include", "an array of strings", &include); err != nil {
				return err
			}
			wanted = wanted || n > 0 || slices.Contains(include, includeLogprobs)
		}
		if ok && n > 0 && !wanted {
			return bad("top_logprobs", "'top_logprobs' needs 'logprobs': true")
		}
		if wanted {
			r.logprobs = int(n)
		}
	}
	if r.logprobs >= 0 {
		r.params = append(r.params, param{"logprobs", json.RawMessage(strconv.Itoa(max(1, r.logprobs)))})
	}
	return nil
}

// readFormat reads what the text has to look like. Its schema is for the model: nobody
// follows its references here.
func (r *Request) readFormat(b body) *Error {
	name := "response_format"
	v := b[name]
	delete(b, name)
	if r.Route == Responses {
		var text struct {
			Format    json.RawMessage `json:"format"`
			Verbosity json.RawMessage `json:"verbosity"`
		}
		name = "text"
		if _, err := b.take(name, "an object", &text); err != nil {
			return err
		}
		v = text.Format
		if err := r.hint("verbosity", text.Verbosity); err != nil {
			return err
		}
	}
	if len(v) == 0 || string(v) == "null" {
		return nil
	}
	var f struct {
		Type   string `json:"type"`
		Schema struct {
			Schema map[string]json.RawMessage `json:"schema"`
		} `json:"json_schema"`
		Own map[string]json.RawMessage `json:"schema"` // as the route of responses has it
	}
	if json.Unmarshal(v, &f) != nil {
		return bad(name, "'%s' is %s, expected an object with a 'type'", name, cut(string(v), 80))
	}
	switch f.Type {
	case "text":
		return nil
	case "json_object":
	case "json_schema":
		if r.Route != Responses && f.Schema.Schema == nil {
			return bad(name, "'%s.json_schema.schema' is missing, expected a JSON schema", name)
		}
		if r.Route == Responses && f.Own == nil {
			return bad(name, "'text.format.schema' is missing, expected a JSON schema")
		}
	default:
		return bad(name, "'%s.type' is '%s', expected text, json_object or json_schema", name, cut(f.Type, 40))
	}
	r.params = append(r.params, param{"response_format", v})
	return nil
}

func (r *Request) readEmbedding(b body) *Error {
	var coding string
	if _, err := b.take("encoding_format", "float or base64", &coding); err != nil {
		return err
	}
	if coding != "" && coding != "float" && coding != "base64" {
		return bad("encoding_format", "'encoding_format' is '%s', expected float or base64", cut(coding, 40))
	}
	r.base64 = coding == "base64"
	n, _, err := b.whole("dimensions", 1, math.MaxInt32, 0)
	r.size = n
	return err
}
