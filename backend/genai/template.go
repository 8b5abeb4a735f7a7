package genai

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// templateLimit is how long a chat template may take. It is a program of the model's, which may
// loop, and nothing ends a call of the library's.
const templateLimit = 10 * time.Second

// template is the chat template of a model. It fills one chat in at a time, apart from the lock of
// the tokenizer: one that does not end holds up nobody but chats.
type template struct {
	apply func(messages, tools string) (string, error)
	turn  chan struct{} // has room for who fills in
	stuck atomic.Bool   // who fills in takes longer than it may
}

func newTemplate(apply func(messages, tools string) (string, error)) *template {
	return &template{apply: apply, turn: make(chan struct{}, 1)}
}

// fill returns the prompt of a chat. A call that does not end in time goes on by itself, and others
// are refused at once until it has ended.
func (t *template) fill(messages, tools string) (string, error) {
	late := backend.Errorf(backend.Unavailable, "the chat template of the model did not end within %v", templateLimit)
	if t.stuck.Load() {
		return "", backend.Errorf(backend.Unavailable, "%s, and is still busy with an earlier chat", late.Message)
	}
	timer := time.NewTimer(templateLimit)
	defer timer.Stop()
	select {
	case t.turn <- struct{}{}:
	case <-timer.C:
		return "", late
	}
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := t.apply(messages, tools)
		done <- result{text, err}
		t.stuck.Store(false)
		<-t.turn
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-timer.C:
	}
	t.stuck.Store(true)
	select {
	case r := <-done: // it came to its end meanwhile, perhaps before stuck was set
		t.stuck.Store(false)
		return r.text, r.err
	default:
		return "", late
	}
}

// ended reports whether nobody fills in any more; it gives who does a moment.
func (t *template) ended() bool {
	select {
	case t.turn <- struct{}{}:
		return true
	case <-time.After(time.Second):
		return false
	}
}

// applyTemplate fills the model's own template in. Tools may be "".
func (n *network) applyTemplate(messages, tools string) (string, error) {
	var with *byte
	if tools != "" {
		with = library.CString(tools)
	}
	const goOn = 1
	text, err := n.make(fnApplyChatTemplate, n.tokenizer, 0, uintptr(unsafe.Pointer(library.CString(messages))),
		uintptr(unsafe.Pointer(with)), goOn)
	return n.text(text), err
}
