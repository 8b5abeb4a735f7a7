package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// format makes one prompt of a chat. These are the ones that families of models were
// trained with; all others are for the model itself, which takes the messages.
type format struct {
	begin string
	// turn writes what a role says.
	turn func(b *strings.Builder, role, text string)
	// answer is where the model goes on.
	answer string
	// tools says that calls are told as Hermes and Qwen have them.
	tools bool
	// noSystem has what the system says stand before the first turn of the user.
	noSystem bool
}

var formats = map[string]*format{
	"chatml": {turn: func(b *strings.Builder, role, text string) {
		put(b, "<|im_start|>", role, "\n", text, "<|im_end|>\n")
	}, answer: "<|im_start|>assistant\n", tools: true},
	"llama3": {begin: "<|begin_of_text|>", turn: func(b *strings.Builder, role, text string) {
		put(b, "<|start_header_id|>", role, "<|end_header_id|>\n\n", strings.TrimSpace(text), "<|eot_id|>")
	}, answer: "<|start_header_id|>assistant<|end_header_id|>\n\n"},
	"mistral": {begin: "<s>", turn: func(b *strings.Builder, role, text string) {
		if role == "assistant" {
			put(b, " ", text, "</s>")
		} else {
			put(b, "[INST] ", text, " [/INST]")
		}
	}, noSystem: true},
	"gemma": {begin: "<bos>", turn: func(b *strings.Builder, role, text string) {
		if role == "assistant" {
			role = "model"
		}
		put(b, "<start_of_turn>", role, "\n", strings.TrimSpace(text), "<end_of_turn>\n")
	}, answer: "<start_of_turn>model\n", noSystem: true},
	"phi3": {turn: func(b *strings.Builder, role, text string) {
		put(b, "<|", role, "|>\n", text, "<|end|>\n")
	}, answer: "<|assistant|>\n"},
	"plain": {turn: func(b *strings.Builder, role, text string) {
		put(b, role, ": ", text, "\n")
	}, answer: "assistant:"},
}

func put(b *strings.Builder, parts ...string) {
	for _, p := range parts {
		b.WriteString(p)
	}
}

func formatNames() string { return strings.Join(slices.Sorted(maps.Keys(formats)), ", ") }

// prompt writes the messages of r in the format.
func (f *format) prompt(r *Request) (string, *Error) {
	if r.tools != nil && !f.tools {
		return "", bad("tools", "this model takes no tools: its chat_template has no place for them")
	}
	var system []string
	var turns []message
	for i := range r.messages {
		m := r.messages[i]
		switch {
		case m.other != "":
			return "", bad("messages", "messages[%d] has a part of type '%s': this model takes text only", i, cut(m.other, 40))
		case m.Role == "system" || m.Role == "developer":
			system = append(system, m.text)
		case m.Role == "tool" || m.Role == "function":
			m.Role, m.text = "user", "<tool_response>\n"+m.text+"\n</tool_response>"
			if !f.tools {
				return "", bad("messages", "messages[%d] is of a tool, and the chat_template of this model has no place for it", i)
			}
			turns = append(turns, m)
		default:
			if len(m.Calls) > 0 {
				text := strings.Builder{}
				put(&text, m.text)
				for i := range m.Calls {
					called(&text, &m.Calls[i])
				}
				m.text = text.String()
			}
			turns = append(turns, m)
		}
	}
	if r.tools != nil {
		system = append(system, toolText(r))
	}
	var b strings.Builder
	b.WriteString(f.begin)
	if first := strings.Join(system, "\n\n"); first != "" {
		at := slices.IndexFunc(turns, func(m message) bool { return m.Role == "user" })
		if f.noSystem && at >= 0 {
			turns[at].text = first + "\n\n" + turns[at].text
		} else if !f.noSystem {
			f.turn(&b, "system", first)
		} else {
			f.turn(&b, "user", first)
		}
	}
	for i := range turns {
		f.turn(&b, turns[i].Role, turns[i].text)
	}
	b.WriteString(f.answer)
	return b.String(), nil
}

// called writes a call as the model has written it.
func called(b *strings.Builder, c *toolCall) {
	arguments := json.RawMessage(c.Function.Arguments)
	if !json.Valid(arguments) {
		arguments = appendJSON(nil, c.Function.Arguments)
	}
	text := appendJSON(nil, struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{c.Function.Name, arguments})
	put(b, "\n"+openMark+"\n", string(text), "\n"+closeMark)
}

// toolText tells the model its tools, and how to call one.
func toolText(r *Request) string {
	var text strings.Builder
	put(&text, "# Tools\n\nThese functions can be called; each line between <tools> and </tools> is the JSON description of one:\n<tools>\n")
	var each []json.RawMessage
	_ = json.Unmarshal(r.tools, &each) // it has been read before
	for _, t := range each {
		put(&text, string(appendJSON(nil, t)), "\n")
	}
	put(&text, "</tools>\n\nTo call a function, answer with its name and arguments as JSON within these tags:\n"+openMark+
		"\n{\"name\": ..., \"arguments\": {...}}\n"+closeMark)
	if r.choice == nil {
		return text.String()
	}
	switch name, _ := chosen(r.choice); name {
	case "auto":
	case "required":
		put(&text, "\nYou must call one of the functions now.")
	default:
		put(&text, "\nYou must call the function ", name, " now.")
	}
	return text.String()
}
