package openai

import (
	"strconv"
	"unicode/utf8"
)

// Usage counts tokens, as the model says them.
type Usage struct {
	Prompt, Tokens int64
	// Known says that the model has told both; what it does not tell is not made up.
	Known bool
}

// Answer is a reply as it grows.
type Answer struct {
	r       *Request
	id      string
	created int64
	choices []choice
	written int64  // bytes
	sequent int    // events of the route of responses
	said    []byte // text of a streamed response, whose last events have all of it
	told    []token
}

// choice is one text of the model.
type choice struct {
	text           []byte // all of it; of a stream what has not been sent
	finish         string
	prompt, tokens int64
	logprobs       []token
	later          []token // of text that is not said yet, while there are strings to stop at
	place          int     // in the text, where the first of later begins
	cutter
	sent         int  // bytes of text, for the places of tokens
	marked       bool // a call of a tool has begun
	begun, ended bool
	calls        []toolCall
	vectors      []byte
	rows         int
}

// NewAnswer begins the reply to r. id is 24 characters that no other reply has,
// created in seconds since 1970.
func NewAnswer(r *Request, id string, created int64, calls int) *Answer {
	a := &Answer{r: r, id: map[Route]string{Completions: "cmpl-", Chat: "chatcmpl-", Responses: "resp_"}[r.Route] + id, created: created}
	a.choices = make([]choice, calls)
	for i := range a.choices {
		a.choices[i].prompt, a.choices[i].tokens = -1, -1
		a.choices[i].stops = r.stops
	}
	return a
}

// Open appends the events that r begins with, if it is a stream.
func (a *Answer) Open(b []byte) []byte {
	if !a.r.Stream {
		return b
	}
	switch a.r.Route {
	case Chat:
		for i := range a.choices {
			b = a.chunk(b, i, delta{Role: "assistant", Content: new(string)}, nil, "")
		}
	case Responses:
		b = a.openResponse(b)
	case Completions, Embeddings:
	}
	return b
}

// Add takes a piece of choice i and appends its events, if r is a stream.
func (a *Answer) Add(b []byte, i int, p *Piece) []byte {
	c := &a.choices[i]
	if c.done {
		return b
	}
	c.text = append(c.text, c.take(p.Text)...)
	a.written += int64(len(p.Text))
	if p.Finish != "" {
		c.finish = p.Finish
	}
	if c.done {
		c.finish = "stop"
	}
	if p.Prompt >= 0 {
		c.prompt = p.Prompt
	}
	if p.Tokens >= 0 {
		c.tokens = max(0, c.tokens) + p.Tokens
	}
	for j := range p.logprobs {
		t := &p.logprobs[j]
		t.Top = t.Top[:min(len(t.Top), max(0, a.r.logprobs))]
	}
	if a.r.logprobs >= 0 {
		c.tell(p.logprobs)
	}
	if p.vectors != nil {
		c.vectors, c.rows = p.vectors, p.rows
	}
	if !a.r.Stream {
		return b
	}
	return a.flush(b, i, false)
}

// Stopped says that choice i has come to a string that ends it: what the model says
// from there on is nobody's.
func (a *Answer) Stopped(i int) bool { return a.choices[i].done }

// tell takes tokens of the text, and keeps those back that begin in what is not said.
func (c *choice) tell(tokens []token) {
	if c.stops == nil {
		c.logprobs = append(c.logprobs, tokens...)
		return
	}
	c.later = append(c.later, tokens...)
	n := 0
	for ; n < len(c.later) && c.place < c.upTo; n++ {
		c.place += len(c.later[n].Token)
	}
	c.logprobs, c.later = append(c.logprobs, c.later[:n]...), c.later[n:]
}

// End takes the end of choice i, and appends its events.
func (a *Answer) End(b []byte, i int) []byte {
	c := &a.choices[i]
	c.ended = true
	if !c.done {
		c.text = append(c.text, c.rest()...)
		c.logprobs, c.later = append(c.logprobs, c.later...), nil
	}
	if c.finish == "" {
		c.finish = "stop"
		if a.r.most > 0 && c.tokens >= a.r.most {
			c.finish = "length"
		}
	}
	if a.r.Stream {
		return a.flush(b, i, true)
	}
	if a.r.tools != nil {
		said, rest, marked := plain(string(c.text))
		if marked {
			if c.calls = calls(rest); c.calls != nil {
				c.text = []byte(said)
			}
		}
	}
	a.name(i)
	return b
}

// name gives calls of tools their ids. Of several the first one counts where no more
// than one is wanted.
func (a *Answer) name(i int) {
	c := &a.choices[i]
	if a.r.one && len(c.calls) > 1 {
		c.calls = c.calls[:1]
	}
	for j := range c.calls {
		c.calls[j].ID = "call_" + a.id[len(a.id)-24:] + strconv.Itoa(i) + "_" + strconv.Itoa(j)
	}
	if c.calls != nil {
		c.finish = "tool_calls"
	}
}

// flush appends the events of what can be said of choice i by now.
func (a *Answer) flush(b []byte, i int, last bool) []byte {
	c := &a.choices[i]
	say := c.text
	if a.r.tools != nil {
		n := 0
		if !c.marked {
			said, _, marked := plain(string(c.text))
			n, c.marked = len(said), marked
		}
		say = c.text[:n]
		if last {
			if c.calls = calls(string(c.text[n:])); c.calls == nil {
				say = c.text
			}
			a.name(i)
		}
	}
	if !last {
		say = say[:whole(say)]
	}
	if len(say) > 0 || len(c.logprobs) > 0 {
		b = a.text(b, i, string(say), c.logprobs)
		c.sent += len(say)
	}
	c.text, c.logprobs = append(c.text[:0], c.text[len(say):]...), nil
	if last {
		b = a.last(b, i)
	}
	return b
}

// whole returns how many bytes of b are whole characters: one may come in two pieces.
func whole(b []byte) int {
	for n := len(b) - 1; n >= 0 && n >= len(b)-utf8.UTFMax; n-- {
		if utf8.RuneStart(b[n]) {
			if !utf8.FullRune(b[n:]) {
				return n
			}
			break
		}
	}
	return len(b)
}

// delta is what a chunk of a chat adds.
type delta struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content,omitempty"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

// text appends the event of a piece of text.
func (a *Answer) text(b []byte, i int, text string, tokens []token) []byte {
	switch a.r.Route {
	case Chat:
		return a.chunk(b, i, delta{Content: &text}, tokens, "")
	case Responses:
		return a.textOfResponse(b, text, tokens)
	case Completions, Embeddings:
	}
	return a.chunk(b, i, text, tokens, "")
}

// last appends the events of the end of a choice.
func (a *Answer) last(b []byte, i int) []byte {
	c := &a.choices[i]
	switch a.r.Route {
	case Chat:
		if c.calls != nil {
			for j := range c.calls {
				n := j
				c.calls[j].Index = &n
			}
			b = a.chunk(b, i, delta{Calls: c.calls}, nil, "")
		}
		return a.chunk(b, i, delta{}, nil, c.finish)
	case Responses:
		return b // its end is that of the response
	case Completions, Embeddings:
	}
	return a.chunk(b, i, "", nil, c.finish)
}

// chunk appends the event of one choice of a chat or of completions.
func (a *Answer) chunk(b []byte, i int, what any, tokens []token, finish string) []byte {
	one := map[string]any{"index": i, "logprobs": nil, "finish_reason": nil}
	if finish != "" {
		one["finish_reason"] = finish
	}
	if a.r.Route == Chat {
		one["delta"] = what
		if tokens != nil {
			one["logprobs"] = map[string]any{"content": tokens, "refusal": nil}
		}
	} else {
		one["text"] = what
		if tokens != nil {
			one["logprobs"] = listed(tokens, a.choices[i].sent)
		}
	}
	return a.event(b, []any{one}, nil)
}

func (a *Answer) event(b []byte, choices []any, usage any) []byte {
	v := a.head(true)
	v["choices"] = choices
	if a.r.Usage {
		v["usage"] = usage
	}
	return append(appendJSON(append(b, "data: "...), v), "\n\n"...)
}

func (a *Answer) head(chunk bool) map[string]any {
	object := "text_completion"
	if a.r.Route == Chat {
		object = "chat.completion"
		if chunk {
			object += ".chunk"
		}
	}
	return map[string]any{"id": a.id, "object": object, "created": a.created, "model": a.r.Model}
}

// listed is the form that completions have of log probabilities.
func listed(tokens []token, offset int) map[string]any {
	texts, values, tops, offsets := []string{}, []float64{}, []map[string]float64{}, []int{}
	for i := range tokens {
		t := &tokens[i]
		texts, values, offsets = append(texts, t.Token), append(values, t.Logprob), append(offsets, offset)
		offset += len(t.Token)
		top := map[string]float64{}
		for j := range t.Top {
			top[t.Top[j].Token] = t.Top[j].Logprob
		}
		tops = append(tops, top)
	}
	return map[string]any{"tokens": texts, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}
}

// Usage adds up the tokens of all choices. The prompt of choices of one text counts
// once.
func (a *Answer) Usage() Usage {
	u := Usage{Known: true}
	for i := range a.choices {
		c := &a.choices[i]
		u.Known = u.Known && c.prompt >= 0 && (c.tokens >= 0 || a.r.Route == Embeddings)
		if i%a.r.n == 0 {
			u.Prompt += max(0, c.prompt)
		}
		u.Tokens += max(0, c.tokens)
	}
	return u
}

// Cost is what the reply counts for a quota of tokens: those that the model tells;
// of one that does not tell, a token for each four bytes that it has read and
// written, begun ones too.
func (a *Answer) Cost() int64 {
	if u := a.Usage(); u.Known {
		return u.Prompt + u.Tokens
	}
	read := int64(len(a.r.raw))
	for _, t := range a.r.texts {
		read += int64(len(t))
	}
	return (read + a.written + 3) / 4
}

func (a *Answer) usage() any {
	u := a.Usage()
	if !u.Known {
		return nil
	}
	return map[string]int64{"prompt_tokens": u.Prompt, "completion_tokens": u.Tokens, "total_tokens": u.Prompt + u.Tokens}
}

// Close appends the end of a stream, or the whole reply.
func (a *Answer) Close(b []byte) ([]byte, *Error) {
	switch {
	case a.r.Route == Embeddings:
		return a.vectors(b)
	case a.r.Route == Responses:
		return a.closeResponse(b), nil
	case a.r.Stream:
		if usage := a.usage(); a.r.Usage && usage != nil {
			b = a.event(b, []any{}, usage)
		}
		return append(b, "data: [DONE]\n\n"...), nil
	}
	v := a.head(false)
	choices := make([]any, len(a.choices))
	for i := range a.choices {
		choices[i] = a.choice(i)
	}
	v["choices"] = choices
	if u := a.usage(); u != nil {
		v["usage"] = u
	}
	return appendJSON(b, v), nil
}

// choice is one of a reply that is no stream.
func (a *Answer) choice(i int) map[string]any {
	c := &a.choices[i]
	one := map[string]any{"index": i, "finish_reason": c.finish, "logprobs": nil}
	if a.r.Route == Completions {
		one["text"] = string(c.text)
		if a.r.logprobs >= 0 {
			one["logprobs"] = listed(c.logprobs, 0)
		}
		return one
	}
	m := map[string]any{"role": "assistant", "content": string(c.text), "refusal": nil}
	if c.calls != nil {
		m["tool_calls"] = c.calls
		if len(c.text) == 0 {
			m["content"] = nil
		}
	}
	one["message"] = m
	if a.r.logprobs >= 0 {
		one["logprobs"] = map[string]any{"content": append([]token{}, c.logprobs...), "refusal": nil}
	}
	return one
}
