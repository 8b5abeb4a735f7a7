package openai

import (
	"encoding/json"
	"slices"
)

// readHints reads what a model may know of, or not: its other members would fail a model
// that takes those alone which it knows.
func (r *Request) readHints(b body) *Error {
	if r.Route == Completions {
		return nil
	}
	if r.Route == Responses {
		var reasoning struct {
			Effort json.RawMessage `json:"effort"`
		}
		if _, err := b.take("reasoning", "an object", &reasoning); err != nil {
			return err
		}
		if err := r.hint("reasoning_effort", reasoning.Effort); err != nil {
			return err
		}
	}
	for _, name := range [...]string{"reasoning_effort", "verbosity"} {
		v := b[name]
		delete(b, name)
		if err := r.hint(name, v); err != nil {
			return err
		}
	}
	return b.none("this server has none", "moderation", "context_management")
}

// hint keeps a word for the model, if there is one. The first of a name counts, which is
// that in the form of the route.
func (r *Request) hint(name string, v json.RawMessage) *Error {
	if len(v) == 0 || string(v) == "null" {
		return nil
	}
	var word string
	if json.Unmarshal(v, &word) != nil || word == "" || len(word) > maxName {
		return bad(name, "'%s' is %s, expected a word such as low, medium or high", name, cut(string(v), 80))
	}
	if !slices.ContainsFunc(r.hints, func(p param) bool { return p.name == name }) {
		r.hints = append(r.hints, param{name, v})
	}
	return nil
}
