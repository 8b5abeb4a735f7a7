package openai

import (
	"encoding/json"
	"regexp"
	"strings"
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// tool is one that a model may call. Its schema is for the model: nobody follows
// references in it here, so that a circle of them does no harm.
type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
		Strict      *bool           `json:"strict,omitempty"`
	} `json:"function"`
}

func (r *Request) readTools(b body) *Error {
	if r.Route == Completions || r.Route == Embeddings {
		if err := b.none("it is of chats", "tools", "tool_choice"); err != nil {
			return err
		}
		return b.none("the text is what comes after the prompt", "echo", "suffix")
	}
	if err := b.none("use 'tools' and 'tool_choice'", "functions", "function_call"); err != nil {
		return err
	}
	if err := b.none("models answer with text here", "audio", "web_search_options"); err != nil {
		return err
	}
	delete(b, "modalities")
	tools, err := r.takeTools(b)
	if err != nil {
		return err
	}
	several := true
	told := b["parallel_tool_calls"]
	if ok, err := b.take("parallel_tool_calls", "true or false", &several); err != nil {
		return err
	} else if ok && len(tools) > 0 {
		r.one = !several
		r.hints = append(r.hints, param{"parallel_tool_calls", told})
	}
	choice, ok := b["tool_choice"]
	delete(b, "tool_choice")
	if !ok {
		return nil
	}
	name, err := chosen(choice)
	switch {
	case err != nil:
		return err
	case len(tools) == 0 && name != "auto" && name != "none":
		return bad("tool_choice", "'tool_choice' needs 'tools'")
	case name == "none":
		r.tools = nil // the model is not told of them
		return nil
	case name == "auto" || name == "required":
	default:
		found := false
		for i := range tools {
			found = found || tools[i].Function.Name == name
		}
		if !found {
			return bad("tool_choice", "'tool_choice' names the function '%s', which is not in 'tools'", cut(name, maxName))
		}
	}
	r.choice = choice
	return nil
}

func (r *Request) takeTools(b body) ([]tool, *Error) {
	raw := b["tools"]
	if r.Route == Responses && raw != nil {
		var err *Error
		if raw, err = nested(raw); err != nil {
			return nil, err
		}
	}
	delete(b, "tools")
	if raw == nil {
		return nil, nil
	}
	var tools []tool
	if json.Unmarshal(raw, &tools) != nil {
		return nil, bad("tools", "'tools' is %s, expected an array of tools", cut(string(raw), 80))
	}
	if len(tools) > maxTools {
		return nil, bad("tools", "'tools' has %d tools, the most is %d", len(tools), maxTools)
	}
	for i := range tools {
		switch t := &tools[i]; {
		case t.Type != "function":
			return nil, bad("tools", "tools[%d].type is '%s', expected function", i, cut(t.Type, 40))
		case !toolName.MatchString(t.Function.Name):
			return nil, bad("tools", "tools[%d].function.name is '%s', expected 1 to 64 letters, digits, '_', '-' and '.'", i,
				cut(t.Function.Name, maxName))
		case len(t.Function.Parameters) > 0 && t.Function.Parameters[0] != '{' && string(t.Function.Parameters) != "null":
			return nil, bad("tools", "tools[%d].function.parameters is no JSON schema", i)
		}
	}
	if len(tools) > 0 {
		r.tools = raw
	}
	return tools, nil
}

// nested gives the tools of the route of responses, whose members stand in the
// tool itself, the form of chats.
func nested(raw json.RawMessage) (json.RawMessage, *Error) {
	var flat []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}
	if json.Unmarshal(raw, &flat) != nil {
		return nil, bad("tools", "'tools' is %s, expected an array of tools", cut(string(raw), 80))
	}
	tools := make([]tool, len(flat))
	for i, f := range flat {
		tools[i].Type = f.Type
		to := &tools[i].Function
		to.Name, to.Description, to.Parameters, to.Strict = f.Name, f.Description, f.Parameters, f.Strict
	}
	return appendJSON(nil, tools), nil
}

// chosen returns auto, none, required, or the name of a function.
func chosen(choice json.RawMessage) (string, *Error) {
	var word string
	if json.Unmarshal(choice, &word) == nil && (word == "auto" || word == "none" || word == "required") {
		return word, nil
	}
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"` // of the route of responses
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(choice, &named) == nil && named.Type == "function" {
		if name := or(named.Function.Name, named.Name); name != "" {
			return name, nil
		}
	}
	return "", bad("tool_choice", "'tool_choice' is %s, expected auto, none, required or a function", cut(string(choice), 80))
}

// Marks with which models begin a call: Hermes and Qwen, and Mistral.
const (
	openMark  = "<tool_call>"
	closeMark = "</tool_call>"
	listMark  = "[TOOL_CALLS]"
)

// plain splits text at the first call of a tool: what is said before it, and the
// rest. What could be the begin of a mark is in rest.
func plain(text string) (said, rest string, marked bool) {
	at := len(text)
	for _, mark := range []string{openMark, listMark} {
		if i := strings.Index(text[:at], mark); i >= 0 {
			at, marked = i, true
		}
	}
	if marked {
		return text[:at], text[at:], true
	}
	for n := min(len(text), len(listMark)-1); n > 0; n-- {
		if tail := text[len(text)-n:]; strings.HasPrefix(openMark, tail) || strings.HasPrefix(listMark, tail) {
			return text[:len(text)-n], tail, false
		}
	}
	return text, "", false
}

// calls reads the calls of tools behind the marks; nil if they are none that anybody
// can read, which leaves them text.
func calls(text string) []toolCall {
	var out []toolCall
	if list, ok := strings.CutPrefix(text, listMark); ok {
		var each []json.RawMessage
		if json.Unmarshal([]byte(list), &each) != nil {
			return nil
		}
		for _, one := range each {
			if out = appendCall(out, one); out == nil {
				return nil
			}
		}
		return out
	}
	for text != "" {
		rest, ok := strings.CutPrefix(text, openMark)
		if !ok {
			return nil
		}
		one, after, _ := strings.Cut(rest, closeMark)
		if out = appendCall(out, []byte(one)); out == nil || len(out) > maxTools {
			return nil
		}
		text = strings.TrimSpace(after)
	}
	return out
}

func appendCall(out []toolCall, text []byte) []toolCall {
	var c struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"` // Llama's word
	}
	if json.Unmarshal(text, &c) != nil || c.Name == "" {
		return nil
	}
	if c.Arguments == nil {
		c.Arguments = c.Parameters
	}
	if c.Arguments == nil || string(c.Arguments) == "null" {
		c.Arguments = json.RawMessage("{}")
	}
	var call toolCall
	call.Type, call.Function.Name, call.Function.Arguments = "function", c.Name, string(c.Arguments)
	var already string // text of JSON in JSON
	if json.Unmarshal(c.Arguments, &already) == nil {
		call.Function.Arguments = already
	}
	return append(out, call)
}
