package openai

import "encoding/json"

// readHints reads what a model may know of, or not: its other members would fail a model
// that takes those alone which it knows.
func (r *Request) readHints(b body) *Error {
	if r.Route == Completions {
		return nil
	}
	effort, ok := b["reasoning_effort"]
	delete(b, "reasoning_effort")
	if r.Route == Responses {
		var reasoning struct {
			Effort json.RawMessage `json:"effort"`
		}
		if given, err := b.take("reasoning", "an object", &reasoning); err != nil {
			return err
		} else if given {
			effort, ok = reasoning.Effort, len(reasoning.Effort) > 0
		}
	}
	if ok {
		if err := r.hint("reasoning_effort", effort); err != nil {
			return err
		}
	}
	verbosity, ok := b["verbosity"]
	delete(b, "verbosity")
	if ok {
		if err := r.hint("verbosity", verbosity); err != nil {
			return err
		}
	}
	return b.none("this server has none", "moderation", "context_management")
}

// hint keeps a word for the model.
func (r *Request) hint(name string, v json.RawMessage) *Error {
	if string(v) == "null" {
		return nil
	}
	var word string
	if json.Unmarshal(v, &word) != nil || word == "" || len(word) > maxName {
		return bad(name, "'%s' is %s, expected a word such as low, medium or high", name, cut(string(v), 80))
	}
	r.hints = append(r.hints, param{name, v})
	return nil
}
