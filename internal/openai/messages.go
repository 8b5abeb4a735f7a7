package openai

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// message is one of a chat. What it says otherwise is in Request.raw.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content,omitempty"`
	Name    string          `json:"name,omitempty"`
	Calls   []toolCall      `json:"tool_calls,omitempty"`
	CallID  string          `json:"tool_call_id,omitempty"`

	text  string
	other string // the type of a part that is no text
}

// toolCall is a call of a tool by a model.
type toolCall struct {
	Index    *int   `json:"index,omitempty"` // in streams
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

func (r *Request) readMessages(member string, v json.RawMessage) *Error {
	var each []json.RawMessage
	if json.Unmarshal(v, &each) != nil {
		return bad(member, "'%s' is %s, expected an array of messages", member, cut(string(v), 80))
	}
	if len(each) == 0 || len(each) > maxMessages {
		return bad(member, "'%s' has %d messages, expected 1 to %d", member, len(each), maxMessages)
	}
	r.raw, r.messages = v, make([]message, len(each))
	for i, one := range each {
		m := &r.messages[i]
		if json.Unmarshal(one, m) != nil {
			return bad(member, "%s[%d] is %s, expected an object with 'role' and 'content'", member, i, cut(string(one), 80))
		}
		if !slices.Contains(roles, m.Role) {
			return bad(member, "%s[%d].role is '%s', expected one of %s", member, i, cut(m.Role, 40), strings.Join(roles, ", "))
		}
		if k := slices.IndexFunc(m.Calls, func(c toolCall) bool { return c.Function.Name == "" }); k >= 0 {
			return bad(member, "%s[%d].tool_calls[%d].function.name is missing", member, i, k)
		}
		if why := m.read(); why != "" {
			return bad(member, "%s[%d].content%s", member, i, why)
		}
		if m.Role != "assistant" && len(m.Content) == 0 {
			return bad(member, "%s[%d].content is missing", member, i)
		}
	}
	return nil
}

// read makes one text of the content, and says what is wrong with it.
func (m *message) read() (why string) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		m.Content = nil
		return ""
	}
	if json.Unmarshal(m.Content, &m.text) == nil {
		return ""
	}
	var parts []struct {
		Type          string
		Text, Refusal *string
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return " is " + cut(string(m.Content), 80) + ", expected a string or an array of parts"
	}
	var text strings.Builder // a message may have as many parts as fit into a body
	for i, p := range parts {
		said, name := p.Text, "text"
		switch p.Type {
		case "text", "input_text", "output_text":
		case "refusal":
			said, name = p.Refusal, "refusal"
		case "":
			return "[" + strconv.Itoa(i) + "].type is missing, expected text or another one"
		default:
			m.other = p.Type
			continue
		}
		if said == nil {
			return "[" + strconv.Itoa(i) + "]." + name + " is missing, expected a string"
		}
		text.WriteString(*said)
	}
	m.text = text.String()
	return ""
}

// readInput reads what the route of responses has in place of messages, and makes
// messages of it.
func (r *Request) readInput(b body) *Error {
	if err := b.none("responses are not kept on this server", "previous_response_id", "conversation", "background", "prompt"); err != nil {
		return err
	}
	r.echo = map[string]json.RawMessage{}
	var metadata map[string]string
	if raw := b["metadata"]; raw != nil && json.Unmarshal(raw, &metadata) != nil {
		return bad("metadata", "'metadata' is %s, expected an object of strings", cut(string(raw), 80))
	}
	for _, name := range []string{
		"instructions", "metadata", "temperature", "top_p", "max_output_tokens", "tools", "tool_choice", "text",
		"parallel_tool_calls", "reasoning", "top_logprobs",
	} {
		if v, ok := b[name]; ok {
			r.echo[name] = v
		}
	}
	var all []message
	var instructions string
	if ok, err := b.take("instructions", "a string", &instructions); err != nil {
		return err
	} else if ok {
		all = append(all, said("system", instructions))
	}
	v, ok := b["input"]
	delete(b, "input")
	if !ok {
		return bad("input", "you must give 'input', a string or an array of items")
	}
	var one string
	var items []item
	switch {
	case json.Unmarshal(v, &one) == nil:
		all = append(all, said("user", one))
	case json.Unmarshal(v, &items) != nil || len(items) == 0 || len(items) > maxMessages:
		return bad("input", "'input' is neither a string nor an array of 1 to %d items", maxMessages)
	}
	for i := range items {
		if items[i].Type == "reasoning" {
			continue // it is not for the next turn, and has no text here
		}
		m, err := items[i].message(i)
		if err != nil {
			return err
		}
		// What a model says and calls in one turn are items of their own here, and one message of a chat.
		if last := len(all) - 1; last >= 0 && m.Calls != nil && all[last].Role == "assistant" {
			all[last].Calls = append(all[last].Calls, m.Calls...)
			continue
		}
		all = append(all, m)
	}
	return r.readMessages("input", appendJSON(nil, all))
}

func said(role, text string) message { return message{Role: role, Content: appendJSON(nil, text)} }

// item is one of the input of the route of responses.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func (it *item) message(i int) (message, *Error) {
	switch it.Type {
	case "", "message":
		m := message{Role: it.Role, Content: it.Content}
		if !slices.Contains(roles, it.Role) {
			return m, bad("input", "input[%d].role is '%s', expected one of %s", i, cut(it.Role, 40), strings.Join(roles, ", "))
		}
		if why := m.read(); why != "" {
			return m, bad("input", "input[%d].content%s", i, why)
		}
		if m.other != "" {
			return m, bad("input", "input[%d].content has a part of type '%s', and responses take texts only", i, cut(m.other, 40))
		}
		if m.Content == nil {
			return m, bad("input", "input[%d].content is missing", i)
		}
		return said(it.Role, m.text), nil // the parts of this route have names of their own
	case "function_call":
		if it.Name == "" {
			return message{}, bad("input", "input[%d].name is missing, expected that of a function", i)
		}
		c := toolCall{ID: it.CallID, Type: "function"}
		c.Function.Name, c.Function.Arguments = it.Name, it.Arguments
		return message{Role: "assistant", Calls: []toolCall{c}}, nil
	case "function_call_output":
		m := message{Role: "tool", CallID: it.CallID, Content: it.Output}
		if why := m.read(); why != "" {
			return m, bad("input", "input[%d].output%s", i, why)
		}
		if m.Content == nil {
			return m, bad("input", "input[%d].output is missing", i)
		}
		return m, nil
	}
	return message{}, bad("input", "input[%d].type is '%s', expected message, function_call or function_call_output", i, cut(it.Type, 40))
}
