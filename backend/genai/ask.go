package genai

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// task is what one request asks for.
type task struct {
	options
	stream bool // pieces as they come, else the whole text at once
	prompt []int32
}

// read makes a task of a request. What the request has is not looked at later.
func (m *model) read(r *backend.Request) (*task, error) {
	t := &task{}
	var err error
	if t.stream, err = flag(r, inStream); err != nil {
		return nil, err
	}
	if object, ok, err := text(r, inSampling); err != nil {
		return nil, err
	} else if ok && strings.TrimSpace(object) != "" {
		if err := t.readObject(object); err != nil {
			return nil, err
		}
	}
	if err := t.readParameters(r.Parameters); err != nil {
		return nil, err
	}
	if tools, ok, err := text(r, inTools); err != nil {
		return nil, err
	} else if ok && tools != "" {
		t.tools = json.RawMessage(tools)
	}
	prompt, err := m.prompt(r, t)
	if err != nil {
		return nil, err
	}
	if t.prompt, err = m.network.encode(prompt); err != nil {
		return nil, backend.Errorf(backend.InvalidArg, "the prompt cannot be tokenized: %v", err)
	}
	return t, m.fit(t)
}

// prompt is the text that the model goes on with.
func (m *model) prompt(r *backend.Request, t *task) (string, error) {
	prompt, has, err := text(r, inText)
	if err != nil {
		return "", err
	}
	messages, chat, err := text(r, inMessages)
	switch {
	case err != nil:
		return "", err
	case has == chat:
		return "", backend.Errorf(backend.InvalidArg, "model '%s' takes '%s' or '%s', and one of them", m.cfg.Name, inText, inMessages)
	case has:
		return prompt, nil
	}
	plain, err := plainMessages(messages)
	if err != nil {
		return "", err
	}
	tools := ""
	if t.tools != nil && !t.noTools {
		if !json.Valid(t.tools) {
			return "", backend.Errorf(backend.InvalidArg, "'%s' is no JSON", inTools)
		}
		tools = string(t.tools)
	}
	if prompt, err = m.network.template.fill(plain, tools); err != nil {
		if _, told := errors.AsType[*backend.Error](err); told {
			return "", err
		}
		return "", backend.Errorf(backend.InvalidArg, "the chat template of model '%s' does not take these messages: %v", m.cfg.Name, err)
	}
	return prompt, nil
}

// maxMessages bounds a chat.
const maxMessages = 10000

// plainMessages checks the messages of a chat, and writes their contents as one text each, which
// is what templates know.
func plainMessages(text string) (string, error) {
	var all []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return "", backend.Errorf(backend.InvalidArg, "input '%s' is no JSON array of objects", inMessages)
	}
	if len(all) == 0 || len(all) > maxMessages {
		return "", backend.Errorf(backend.InvalidArg, "input '%s' has %d messages, expected 1 to %d", inMessages, len(all), maxMessages)
	}
	for i, m := range all {
		var role string
		if json.Unmarshal(m["role"], &role) != nil || role == "" {
			return "", backend.Errorf(backend.InvalidArg, "message %d of input '%s' has no role", i, inMessages)
		}
		if role == "developer" {
			m["role"] = json.RawMessage(`"system"`)
		}
		content, err := plainContent(m["content"])
		if err != nil {
			return "", backend.Errorf(backend.InvalidArg, "message %d of input '%s': %v", i, inMessages, err)
		}
		m["content"] = quoted(content)
	}
	out, err := json.Marshal(all)
	return string(out), err
}

func plainContent(v json.RawMessage) (string, error) {
	if len(v) == 0 || bytes.Equal(v, []byte("null")) {
		return "", nil
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s, plainText("content", s)
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(v, &parts) != nil {
		return "", backend.Errorf(backend.InvalidArg, "its content is neither a text nor an array of parts")
	}
	for _, p := range parts {
		if p.Type != "text" && p.Type != "input_text" && p.Type != "output_text" {
			return "", backend.Errorf(backend.InvalidArg, "its content has a part of type '%s', and the model takes text only", cut(p.Type, 40))
		}
		s += p.Text
	}
	return s, plainText("content", s)
}

// fit checks a task against the model, and says how many tokens it may have.
func (m *model) fit(t *task) error {
	s, context := m.network.settings, m.network.settings.context()
	switch n := len(t.prompt); {
	case n == 0:
		return backend.Errorf(backend.InvalidArg, "the prompt has no tokens")
	case n >= context:
		return backend.Errorf(backend.InvalidArg, "the prompt has %d tokens, and model '%s' has room for %d of prompt and answer together", n,
			m.cfg.Name, context)
	}
	if rest := context - len(t.prompt); t.maxTokens == 0 || t.maxTokens > rest {
		t.maxTokens = rest
	}
	if t.ignoreEnd {
		t.minTokens = t.maxTokens
	}
	if t.minTokens > t.maxTokens {
		return backend.Errorf(backend.InvalidArg, "min_tokens is %d, and there is room for %d", t.minTokens, t.maxTokens)
	}
	if t.beams == 0 && s.Search.Beams > 1 && s.Search.Beams <= maxBeams {
		t.beams = s.Search.Beams
	}
	beams := max(1, t.beams)
	switch {
	case t.sequences > beams:
		return backend.Errorf(backend.InvalidArg, "num_return_sequences is %d, and num_beams %d", t.sequences, beams)
	case beams > 1 && t.stream:
		return backend.Errorf(backend.InvalidArg, "num_beams is %d: the best beam is known at the end, so nothing can be streamed", beams)
	case beams > 1 && (t.logprobs > 0 || t.guidance != "" || len(t.stop) > 0):
		return backend.Errorf(backend.InvalidArg, "logprobs, stop and what guides an answer do not go with num_beams")
	}
	if t.adapter != "" {
		if err := m.hasAdapter(t.adapter); err != nil {
			return err
		}
	}
	if s.Engine.Dynamic != nil {
		for _, no := range []struct {
			what string
			is   bool
		}{{"num_beams", beams > 1}, {"logprobs", t.logprobs > 0}, {"adapter", t.adapter != ""}} {
			if no.is {
				return backend.Errorf(backend.InvalidArg, "'%s' is not for model '%s': the library's engine runs it, which has none",
					no.what, m.cfg.Name)
			}
		}
	}
	return nil
}

func (m *model) hasAdapter(name string) error {
	if slices.Contains(m.network.names, name) {
		return nil
	}
	have := "it has none"
	if len(m.network.names) > 0 {
		have = "it has " + strings.Join(m.network.names, ", ")
	}
	return backend.Errorf(backend.NotFound, "model '%s' has no adapter '%s': %s", m.cfg.Name, cut(name, 60), have)
}
