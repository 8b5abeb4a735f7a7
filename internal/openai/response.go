package openai

import (
	"strconv"
)

// The route of responses, in its stateless part: one item with the text, then one
// for each call of a tool. Each event has its name and number.

// named appends an event of a stream of responses.
func (a *Answer) named(b []byte, name string, v map[string]any) []byte {
	v["type"], v["sequence_number"] = name, a.sequent
	a.sequent++
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	return append(appendJSON(b, v), "\n\n"...)
}

// whole is the response as it stands.
func (a *Answer) whole(status string, output []any) map[string]any {
	v := map[string]any{
		"id": a.id, "object": "response", "created_at": a.created, "model": a.r.Model, "status": status, "output": output, "store": false,
		"error": nil, "incomplete_details": nil, "previous_response_id": nil, "instructions": nil, "metadata": map[string]string{},
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "temperature": nil, "top_p": nil, "max_output_tokens": nil,
		"usage": nil, "text": map[string]any{"format": map[string]string{"type": "text"}}, "background": false, "truncation": "disabled",
		"reasoning": map[string]any{"effort": nil, "summary": nil}, "top_logprobs": 0,
	}
	for name, raw := range a.r.echo {
		v[name] = raw
	}
	if status == "in_progress" {
		return v
	}
	if status == "incomplete" {
		v["incomplete_details"] = map[string]string{"reason": "max_output_tokens"}
	}
	if u := a.Usage(); u.Known {
		v["usage"] = map[string]any{
			"input_tokens": u.Prompt, "output_tokens": u.Tokens, "total_tokens": u.Prompt + u.Tokens,
			"input_tokens_details": map[string]int{"cached_tokens": 0}, "output_tokens_details": map[string]int{"reasoning_tokens": 0},
		}
	}
	return v
}

func (a *Answer) message(status string, content []any) map[string]any {
	return map[string]any{"type": "message", "id": "msg_" + a.id[len("resp_"):], "role": "assistant", "status": status, "content": content}
}

func part(text string, tokens []token) map[string]any {
	return map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": list(tokens)}
}

// list is an array, also of none.
func list(tokens []token) []token { return append([]token{}, tokens...) }

func (a *Answer) openResponse(b []byte) []byte {
	b = a.named(b, "response.created", map[string]any{"response": a.whole("in_progress", []any{})})
	return a.named(b, "response.in_progress", map[string]any{"response": a.whole("in_progress", []any{})})
}

// place says which part of which item an event is about.
func (a *Answer) place(more map[string]any) map[string]any {
	more["item_id"], more["output_index"], more["content_index"] = "msg_"+a.id[len("resp_"):], 0, 0
	return more
}

// textOfResponse appends a piece of text, after what begins the item.
func (a *Answer) textOfResponse(b []byte, text string, tokens []token) []byte {
	if c := &a.choices[0]; !c.begun {
		c.begun = true
		b = a.named(b, "response.output_item.added", map[string]any{"output_index": 0, "item": a.message("in_progress", []any{})})
		b = a.named(b, "response.content_part.added", a.place(map[string]any{"part": part("", nil)}))
	}
	a.said, a.told = append(a.said, text...), append(a.told, tokens...)
	return a.named(b, "response.output_text.delta", a.place(map[string]any{"delta": text, "logprobs": list(tokens)}))
}

// closeResponse appends the end of the stream, or the whole response.
func (a *Answer) closeResponse(b []byte) []byte {
	c := &a.choices[0]
	status := "completed"
	if c.finish == "length" {
		status = "incomplete"
	}
	text, tokens, output := string(c.text), c.logprobs, []any{}
	if a.r.Stream {
		text, tokens = string(a.said), a.told
	}
	if c.begun || !a.r.Stream && (text != "" || c.calls == nil) {
		output = append(output, a.message(status, []any{part(text, tokens)}))
	}
	if c.begun {
		b = a.named(b, "response.output_text.done", a.place(map[string]any{"text": text, "logprobs": list(tokens)}))
		b = a.named(b, "response.content_part.done", a.place(map[string]any{"part": part(text, tokens)}))
		b = a.named(b, "response.output_item.done", map[string]any{"output_index": 0, "item": output[0]})
	}
	for i := range c.calls {
		f := &c.calls[i].Function
		id, at := "fc_"+a.id[len("resp_"):]+strconv.Itoa(i), len(output)
		item := func(status, arguments string) map[string]any {
			return map[string]any{
				"type": "function_call", "id": id, "call_id": c.calls[i].ID, "name": f.Name, "arguments": arguments,
				"status": status,
			}
		}
		output = append(output, item("completed", f.Arguments))
		if a.r.Stream {
			b = a.named(b, "response.output_item.added", map[string]any{"output_index": at, "item": item("in_progress", "")})
			b = a.named(b, "response.function_call_arguments.delta", map[string]any{"item_id": id, "output_index": at, "delta": f.Arguments})
			b = a.named(b, "response.function_call_arguments.done",
				map[string]any{"item_id": id, "output_index": at, "name": f.Name, "arguments": f.Arguments})
			b = a.named(b, "response.output_item.done", map[string]any{"output_index": at, "item": output[at]})
		}
	}
	whole := a.whole(status, output)
	if a.r.Stream {
		return a.named(b, "response."+status, map[string]any{"response": whole})
	}
	return appendJSON(b, whole)
}
