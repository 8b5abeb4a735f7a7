package genai

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/library"
)

// engine is the library's: it runs all requests together, and takes in others between two tokens.
// It is of one thread, which does what comes over calls and runs it as long as it has requests.
type engine struct {
	network *network
	calls   chan func()
	stop    chan struct{}
	ending  sync.Once // closes stop
	done    chan struct{}

	// Of the thread alone.
	handle, events uintptr
	active         map[uintptr]*running
	over           map[uintptr]*running // have ended, and their tokens are still being read
	empty          int                  // runs in a row without an event
	out            *uint64              // where the library puts what it is asked for
	pins           runtime.Pinner

	mu  sync.Mutex
	err error // why there is no engine any more
}

// running is a request in the engine.
type running struct {
	mailbox
	engine *engine
	handle uintptr // of the thread alone
}

// What events say, and why a turn has ended.
const (
	flagToken    = 1 << 0
	flagFinished = 1 << 1
	flagBlocked  = 1 << 2
	flagFailed   = 1 << 3
	flagRetry    = 1 << 4

	finishEnd       = 1
	finishCancelled = 5
	finishFailed    = 6

	unserviceable = 4 // of the error codes those above it end the engine
)

// eventRoom is how many events are taken at once.
const eventRoom = 256

func newEngine(n *network) (*engine, error) {
	e := &engine{
		network: n, calls: make(chan func()), stop: make(chan struct{}), done: make(chan struct{}), active: map[uintptr]*running{},
		over: map[uintptr]*running{}, out: new(uint64),
	}
	started := make(chan error, 1)
	go e.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return e, nil
}

// run is the thread.
func (e *engine) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(e.done)
	e.pins.Pin(e.out)
	defer e.pins.Unpin()
	err := e.create()
	started <- err
	if err != nil {
		return
	}
	defer func() { e.destroy() }()
	pause, now := time.NewTimer(0), make(chan time.Time)
	defer pause.Stop()
	close(now)
	for rest := time.Duration(0); ; {
		var next <-chan time.Time // never while there is nothing to compute
		switch {
		case len(e.active) == 0:
		case rest == 0:
			next = now
		default:
			pause.Reset(rest)
			next = pause.C
		}
		select {
		case f := <-e.calls:
			f()
			rest = 0
			continue // those who wait come in before the next token
		case <-e.stop:
			return
		default:
		}
		select {
		case f := <-e.calls:
			f()
			rest = 0
		case <-e.stop:
			return
		case <-next:
			rest = e.step()
		}
	}
}

func (e *engine) create() (err error) {
	n := e.network
	if e.handle, err = n.make(fnCreateEngine, n.model); err != nil {
		return err
	}
	if e.events, err = n.make(fnCreateEventBuffer, e.handle, eventRoom); err != nil {
		e.destroy()
	}
	return err
}

// destroy ends the engine and all that it has.
func (e *engine) destroy() {
	for _, all := range []map[uintptr]*running{e.active, e.over} {
		for handle, r := range all {
			r.fail(backend.Errorf(backend.Unavailable, "the library's engine has ended")) // unless it has ended before
			e.network.free(fnDestroyRequest, handle)
		}
		clear(all)
	}
	e.network.free(fnDestroyEventBuffer, e.events)
	e.network.free(fnDestroyEngine, e.handle)
	e.events, e.handle = 0, 0
}

// close ends the engine. It may be called twice.
func (e *engine) close() {
	e.ending.Do(func() { close(e.stop) })
	<-e.done
}

// do runs f on the thread.
func (e *engine) do(f func()) error {
	over := make(chan struct{})
	select {
	case e.calls <- func() { defer close(over); f() }:
		<-over
		return nil
	case <-e.done:
		return e.ended()
	}
}

func (e *engine) ended() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	return backend.Errorf(backend.Unavailable, "the library's engine has ended")
}

// step computes one token of each request, as far as they fit, and hands the tokens on. It
// returns how long to wait for a call before the next one.
func (e *engine) step() time.Duration {
	n := e.network
	err := n.call(fnEngineRun, e.handle, e.events)
	count := int(n.plain(fnEventCount, e.events))
	waits := false
	for i := range count {
		blocked, fatal := e.take(n.plain(fnEventGet, e.events, uintptr(i)))
		waits = waits || blocked
		if fatal != nil && err == nil {
			err = fatal
		}
	}
	if err != nil {
		e.renew(err)
		return 0
	}
	return e.rest(count, waits)
}

// How long the thread waits at first where a run gave no event, and at most.
const (
	firstRest = 20 * time.Microsecond
	longRest  = time.Millisecond
)

// rest is how long to wait after a run that gave so many events: for one that waits for room, since
// what gives that back comes over calls, or with the next token; and where run after run gives none.
// A single one without may have read a part of a prompt.
func (e *engine) rest(count int, waits bool) time.Duration {
	switch {
	case count == 0:
		e.empty++
	case waits:
		e.empty = 0
		return longRest
	default:
		e.empty = 0
	}
	if e.empty < 2 {
		return 0
	}
	return min(firstRest<<min(e.empty-2, 10), longRest)
}

// take hands one event on. It returns what ends the engine.
func (e *engine) take(event uintptr) (blocked bool, fatal error) {
	flags := uint32(e.ask(fnEventFlags, event))
	code := uint32(0)
	if flags&(flagBlocked|flagFailed|flagRetry) != 0 {
		code = uint32(e.ask(fnEventError, event))
	}
	if flags&flagFailed != 0 && code > unserviceable {
		fatal = fmt.Errorf("its engine failed (code %d)", code)
	}
	r := e.active[uintptr(e.ask(fnEventRequest, event))]
	if r == nil {
		return flags&(flagBlocked|flagRetry) != 0, fatal
	}
	if flags&flagToken != 0 {
		r.put(piece{token: int32(uint32(e.ask(fnEventToken, event)))})
	}
	if flags&flagFinished != 0 {
		// It computes nothing any more, but is the library's until it is closed.
		delete(e.active, r.handle)
		e.over[r.handle] = r
		switch uint32(e.ask(fnEventFinish, event)) {
		case finishFailed:
			r.fail(backend.Errorf(backend.Unavailable, "the library's engine could not serve the request (code %d)", code))
		case finishCancelled:
			r.fail(errGone)
		case finishEnd: // the engine keeps the token that ends a text to itself
			r.put(piece{token: tokenEnd, done: true})
		default:
			r.put(piece{token: tokenNone, done: true})
		}
	}
	return flags&(flagBlocked|flagRetry) != 0, fatal
}

// ask reads a value of an event; 0 where the library has none.
func (e *engine) ask(fn int, event uintptr) uint64 {
	*e.out = 0
	if err := e.network.call(fn, event, uintptr(unsafe.Pointer(e.out))); err != nil {
		return 0
	}
	return *e.out
}

// renew makes another engine in place of one that has failed; its requests have failed with it.
func (e *engine) renew(err error) {
	for _, r := range e.active {
		r.fail(backend.Errorf(backend.Internal, "ONNX Runtime GenAI: %v", err))
	}
	e.destroy()
	if err := e.create(); err != nil {
		e.mu.Lock()
		e.err = backend.Errorf(backend.Unavailable, "the library makes no engine any more: %v", err)
		e.mu.Unlock()
		e.ending.Do(func() { close(e.stop) })
	}
}

// begin hands a task to the engine.
func (e *engine) begin(t *task, gone func() bool) (source, error) {
	r := &running{engine: e, mailbox: newMailbox(gone, lookAgain)}
	var failed error
	if err := e.do(func() { failed = e.admit(r, t) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return r, nil
}

// admit is begin on the thread.
func (e *engine) admit(r *running, t *task) (err error) {
	n := e.network
	if r.handle, err = n.make(fnEngineCreateRequest, e.handle, 0); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			n.free(fnDestroyRequest, r.handle)
		}
	}()
	options, err := n.make(fnCreateTurnOptions, r.handle)
	if err != nil {
		return err
	}
	defer n.free(fnDestroyTurnOptions, options)
	if err := e.configure(options, t); err != nil {
		return err
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&t.prompt[0])
	if err := n.call(fnBeginTurn, r.handle, options, uintptr(unsafe.Pointer(&t.prompt[0])), uintptr(len(t.prompt)),
		uintptr(unsafe.Pointer(e.out))); err != nil {
		return err
	}
	e.active[r.handle] = r
	return nil
}

// configure says how the text is written.
func (e *engine) configure(options uintptr, t *task) error {
	n := e.network
	call := func(fn int, v uintptr) func() error { return func() error { return n.call(fn, options, v) } }
	float := func(i int, v *float64) func() error {
		return func() error {
			if v == nil {
				return nil
			}
			return n.failure(n.setTurnFloat[i](options, float32(*v)))
		}
	}
	set := []func() error{call(fnTurnMaxTokens, uintptr(t.maxTokens)), float(2, t.repetition)}
	if t.minTokens > 0 {
		set = append(set, call(fnTurnMinTokens, uintptr(t.minTokens)))
	}
	if t.noRepeat != nil {
		set = append(set, call(fnTurnNoRepeat, uintptr(*t.noRepeat)))
	}
	sample := t.samples(n.settings)
	set = append(set, call(fnTurnSample, word(sample)))
	if sample {
		set = append(set, float(0, t.temperature), float(1, t.topP))
		if t.topK != nil {
			set = append(set, call(fnTurnTopK, uintptr(*t.topK)))
		}
		if t.seed != nil {
			set = append(set, call(fnTurnSeed, uintptr(*t.seed)))
		}
	}
	for _, f := range set {
		if err := f(); err != nil {
			return err
		}
	}
	if t.guidance == "" {
		return nil
	}
	return n.call(fnTurnGuidance, options, uintptr(unsafe.Pointer(library.CString(t.guidance))),
		uintptr(unsafe.Pointer(library.CString(t.grammar))))
}

// close takes the request out of the engine, with what it had of the cache.
func (r *running) close() {
	e := r.engine
	_ = e.do(func() {
		if e.active[r.handle] != r && e.over[r.handle] != r {
			return // the engine has ended it
		}
		delete(e.active, r.handle)
		delete(e.over, r.handle)
		_ = e.network.call(fnCloseRequest, r.handle) // what fails here was ended before
		e.network.free(fnDestroyRequest, r.handle)
	}) // where the thread has ended all is freed
}
