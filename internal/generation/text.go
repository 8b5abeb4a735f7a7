package generation

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// DefaultOutput is the output of a model that writes texts, as vLLM's and
// TensorRT-LLM's models for Triton call it.
const DefaultOutput = "text_output"

// Names of the outputs, or else of the response's parameters, that tell how many tokens
// the prompt has, and how many this response.
const (
	PromptTokens = "num_input_tokens"
	OutputTokens = "num_output_tokens"
)

// Text is one that is being written, of one request. It belongs to one goroutine at a
// time. A nil Text counts nothing.
type Text struct {
	m       *model
	output  string
	begin   int64 // in the clock of backend.Now, as last
	last    int64 // of a piece; 0 before the first
	prompt  int64
	stopped bool
}

// Begin counts a text that waits, of a request that came at the given time of
// backend.Now. Its pieces come in the output of that name.
func (b *Book) Begin(name string, version int64, output string, came int64) *Text {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.models[key{name, version}]
	if m == nil {
		if len(b.models) >= mostModels {
			b.beyond.Add(1)
			return nil
		}
		if b.models == nil {
			b.models = map[key]*model{}
		}
		m = &model{}
		b.models[key{name, version}] = m
	}
	m.waiting.Add(1)
	if came == 0 {
		came = backend.Now()
	}
	return &Text{m: m, output: output, begin: came}
}

// Response counts what a response brings, which is borrowed.
func (t *Text) Response(resp *backend.Response) {
	if t == nil || resp == nil || resp.Err != nil {
		return
	}
	written, prompt, tokens := false, int64(-1), int64(-1)
	for i := range resp.Parameters {
		switch q := &resp.Parameters[i]; {
		case q.Kind != backend.IntParameter:
		case q.Name == PromptTokens:
			prompt = min(max(0, q.Int64()), math.MaxInt32)
		case q.Name == OutputTokens:
			tokens = min(max(0, q.Int64()), math.MaxInt32)
		}
	}
	for i := range resp.Outputs {
		switch o := &resp.Outputs[i]; o.Name {
		case t.output:
			written = written || o.Datatype == tensor.Bytes && someText(o)
		case PromptTokens:
			prompt = Tokens(o)
		case OutputTokens:
			tokens = Tokens(o)
		}
	}
	t.piece(backend.Now(), written, prompt, tokens)
}

func someText(t *tensor.Tensor) bool {
	for _, e := range tensor.Elements(t.Data) {
		if len(e) > 0 {
			return true
		}
	}
	return false
}

// Tokens adds up a tensor of integers; -1 for others.
func Tokens(t *tensor.Tensor) (n int64) {
	size := t.Datatype.Size()
	switch t.Datatype {
	case tensor.Int32, tensor.Uint32, tensor.Int64, tensor.Uint64:
	default:
		return -1
	}
	for d := t.Data; len(d) >= size; d = d[size:] {
		v := int64(int32(binary.LittleEndian.Uint32(d)))
		if size == 8 {
			v = int64(binary.LittleEndian.Uint64(d))
		}
		if v < 0 || v > math.MaxInt32 {
			return -1
		}
		n += v
	}
	return n
}

// piece counts a piece that has come, with so many tokens; prompt is how many the
// prompt has. Less than none is not known.
func (t *Text) piece(now int64, written bool, prompt, tokens int64) {
	if prompt > t.prompt { // models tell it with each piece
		t.m.prompt.Add(uint64(prompt - t.prompt))
		t.prompt = prompt
	}
	if tokens > 0 {
		t.m.tokens.Add(uint64(tokens))
	}
	if !written {
		return
	}
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if t.last == 0 {
		t.m.waiting.Add(-1)
		t.m.running.Add(1)
		t.m.first.add(FirstBounds, time.Duration(now-t.begin))
	} else {
		t.m.between.add(BetweenBounds, time.Duration(now-t.last))
	}
	t.last = now
}

// End ends the text, however it ends. It may be called twice.
func (t *Text) End() {
	if t == nil || t.stopped {
		return
	}
	t.stopped = true
	if t.last == 0 {
		t.m.waiting.Add(-1)
	} else {
		t.m.running.Add(-1)
	}
}
