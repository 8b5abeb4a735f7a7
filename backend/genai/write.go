package genai

import (
	"errors"

	"github.com/nesoserve/neso/backend"
)

// begin makes the source of a task, waiting for its turn to compute where it has a generator of its own.
func (m *model) begin(t *task, gone func() bool) (source, error) {
	switch {
	case m.engine != nil:
		return m.engine.begin(t, gone)
	case m.together != nil && t.beams <= 1:
		return m.together.begin(t, gone)
	}
	m.computing <- struct{}{}
	defer func() { <-m.computing }()
	if gone() {
		return nil, errGone
	}
	n, done := m.network, func() {}
	if m.together != nil {
		var err error
		if n, err = m.beams.take(); err != nil {
			return nil, err
		}
		done = m.beams.giveBack
	}
	g, err := n.newGenerator(&t.options, t.prompt)
	if err != nil {
		done()
		return nil, err
	}
	return limited{g, m.computing, done}, nil
}

// limited is a generator that computes when it is its turn: each token waits behind those of the
// others that came before.
type limited struct {
	*generator
	computing chan struct{}
	done      func() // gives its network back
}

func (l limited) close() {
	l.generator.close()
	l.done()
}

func (l limited) next(candidates int) (piece, error) {
	l.computing <- struct{}{}
	defer func() { <-l.computing }()
	return l.generator.next(candidates)
}

// writer is one answer on its way.
type writer struct {
	model  *model
	task   *task
	words  *words
	stop   stopper
	answer answer // what is not sent yet
	reason string // why the text has ended, "" as long as it has not
}

// write answers a request: with one response, or with one for each piece. It returns what the
// request is to be answered with when it fails.
func (in *instance) write(r *backend.Request, t *task, gone func() bool) error {
	m := in.model
	if t.beams > 1 {
		return m.search(r, t, gone)
	}
	tokens, err := m.begin(t, gone)
	if err != nil {
		return wrong(err)
	}
	defer tokens.close()
	w := &writer{model: m, task: t, stop: stopper{stops: t.stop, keep: t.keepStop}}
	if w.words, err = m.network.newWords(); err != nil {
		return wrong(err)
	}
	defer w.words.close()
	w.answer.prompt = len(t.prompt)
	for w.reason == "" {
		if gone() {
			return errGone
		}
		if err := w.token(tokens); err != nil {
			return wrong(err)
		}
		if w.reason == "" && (!t.stream || w.answer.texts == nil) {
			continue
		}
		if err := w.send(r, w.reason != ""); err != nil {
			return err
		}
	}
	return nil
}

// token takes one token, and what it adds to the text.
func (w *writer) token(from source) error {
	p, err := from.next(w.task.logprobs)
	if err != nil {
		return err
	}
	end := w.model.network.settings.ends(p.token)
	if !end && p.token >= 0 {
		if err := w.add(&p); err != nil {
			return err
		}
	}
	switch {
	case w.reason != "":
	case end || p.token == tokenEnd:
		w.reason = "stop"
	case p.done:
		w.reason = "length"
	}
	if w.reason != "" {
		w.put(w.stop.rest())
	}
	return nil
}

// add puts a token that is text into the answer.
func (w *writer) add(p *piece) error {
	words, err := w.words.decode(p.token)
	if err != nil {
		return err
	}
	w.answer.tokens++
	if w.task.logprobs > 0 {
		w.answer.logprobs = append(w.answer.logprobs, "[,"[min(1, len(w.answer.logprobs))])
		w.answer.logprobs = appendLogprobs(w.answer.logprobs, p.taken, p.best, w.model.network.textOf)
	}
	out, found := w.stop.push(words)
	w.put(out)
	if found {
		w.reason = "stop"
		w.stop.rest()
	}
	return nil
}

// put adds to the text that is not sent yet.
func (w *writer) put(text string) {
	if text == "" {
		return
	}
	if w.answer.texts == nil {
		w.answer.texts = []string{text}
		return
	}
	w.answer.texts[0] += text
}

// send answers with what there is, the last time with why the text has ended.
func (w *writer) send(r *backend.Request, final bool) error {
	a := &w.answer
	if a.texts == nil {
		a.texts = []string{""}
	}
	a.finish = w.reason
	if a.logprobs != nil {
		a.logprobs = append(a.logprobs, ']')
	} else if w.task.logprobs > 0 {
		a.logprobs = []byte("[]")
	}
	resp, err := w.model.response(r, a)
	if err != nil {
		return err
	}
	*a = answer{prompt: a.prompt}
	err = r.Respond(resp, final)
	if err != nil && !final {
		return errGone // who does not take a piece has gone
	}
	return nil
}

// search answers with the best of several beams.
func (m *model) search(r *backend.Request, t *task, gone func() bool) error {
	tokens, err := m.begin(t, gone)
	if err != nil {
		return wrong(err)
	}
	defer tokens.close()
	for done := false; !done; {
		if gone() {
			return errGone
		}
		p, err := tokens.next(0)
		if err != nil {
			return wrong(err)
		}
		done = p.done
	}
	g, ok := tokens.(limited)
	if !ok {
		return backend.Errorf(backend.Unsupported, "the library's engine searches no beams")
	}
	a := &answer{prompt: len(t.prompt), finish: "length"}
	for i := range max(1, t.sequences) {
		all := g.sequence(i)
		if len(all) < len(t.prompt) {
			return backend.Errorf(backend.Internal, "the library lost the prompt of a beam")
		}
		all = all[len(t.prompt):]
		for k, token := range all {
			if m.network.settings.ends(token) {
				all = all[:k]
				if i == 0 {
					a.finish = "stop"
				}
				break
			}
		}
		text, err := m.network.decode(all)
		if err != nil {
			return wrong(err)
		}
		a.texts, a.tokens = append(a.texts, text), a.tokens+len(all)
	}
	resp, err := m.response(r, a)
	if err != nil {
		return err
	}
	_ = r.Respond(resp, true) // nobody waits where this fails
	return nil
}

// wrong is the error of a request for one of the library's: what it does not take is in the
// request, since the model has written before.
func wrong(err error) error {
	if e, ok := errors.AsType[*libraryError](err); ok {
		return backend.Errorf(backend.InvalidArg, "ONNX Runtime GenAI: %s", e.text)
	}
	return err
}

// textOf is the text of one token, by itself.
func (n *network) textOf(token int32) string {
	s, err := n.decode([]int32{token})
	if err != nil {
		return ""
	}
	return s
}
