package inflight

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/internal/nesotest/transcript"
	"github.com/nesoserve/neso/tensor"
)

// TestTranscripts plays testdata/*.txt. Unindented lines are events, the indented lines
// below them what follows. BATCH is a number, REQUEST the BATCH and the index of the
// request in it (2.0), INSTANCE a name.
//
//	instance INSTANCE [ahead]    a fresh one; ahead: batches are sent before it can begin them
//	send BATCH INSTANCE [requests=N] [gathered] [context=C]
//	                             every input is a copy, named as its request
//	refuse INSTANCE [requests=N] a batch that cannot be sent
//	begun INSTANCE BATCH         the worker has begun all up to this one
//	frees BATCH                  the worker can take another one
//	look INSTANCE BATCH          the worker has begun all up to this one
//	recall INSTANCE, end INSTANCE
//	                             what it has not begun is forbidden; its connection has ended
//	back INSTANCE BATCH BATCH    it has begun all up to the first, and was forbidden all up to the second
//	not-begun BATCH              the worker says so
//	answering BATCH              a response to it has come
//	answer REQUEST               gives a response that is not the final one
//	final REQUEST                gives the final response
//	finished BATCH [later]       settles it; later: its model is decoupled
//	expire BATCH                 its timeout has passed
//	abandon BATCH                its worker does not give it back
//	returned BATCH               its worker has come back from it
//	cancel BATCH                 nobody waits for its requests any more
//	running INSTANCE, only INSTANCE, under C
//	                             what is asked
//	close                        the worker is gone
//	state                        of everything
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T, _, script string) string {
		p := &player{t: t}
		p.reset()
		defer p.end()
		return transcript.Events(script, &p.out, p.event)
	})
}

// player plays a script. It releases what it is given, as a user does.
type player struct {
	t         *testing.T
	out       bytes.Buffer
	account   Batches[string]
	pipelines map[string]*Pipeline[string]
	names     []string
	batches   map[uint64]*Batch[string]
	contexts  map[string]chan struct{}
	buffers   []*tensor.Buffer
}

func (p *player) reset() {
	p.account, p.pipelines, p.batches = New[string](), map[string]*Pipeline[string]{}, map[uint64]*Batch[string]{}
	p.contexts, p.names, p.buffers = map[string]chan struct{}{}, nil, nil
}

// end fails when a reference is left.
func (p *player) end() {
	for _, b := range p.buffers {
		if n := b.References(); n != 0 {
			p.t.Errorf("a copy has %d references at the end of the script", n)
		}
	}
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(&p.out, "  "+format+"\n", args...) }

// freed says that a copy is not read any more.
type freed struct {
	p    *player
	name string
}

func (f *freed) ReleaseBuffer(*tensor.Buffer) { f.p.say("%s is free", f.name) }

// told says what the scheduler hears of a batch.
type told struct {
	p  *player
	id uint64
}

func (*told) Taken()      {}
func (t *told) Waits()    { t.p.say("%d waits", t.id) }
func (t *told) Begins()   { t.p.say("%d begins", t.id) }
func (t *told) Recalled() { t.p.say("%d is recalled", t.id) }
func (t *told) Frees()    { t.p.say("%d makes room", t.id) }

// client is who asks; it may cease to wait.
type client struct{ gone bool }

func (c *client) Respond(*backend.Response, bool) error { return nil }
func (c *client) Cancelled() bool                       { return c.gone }

func (p *player) release(list []*tensor.Buffer) {
	for _, b := range list {
		b.Release()
	}
}

func (p *player) number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) handle(word string) uint64 {
	id, index, _ := strings.Cut(word, ".")
	return p.batches[p.number(id)].Handles[p.number(index)]
}

func (p *player) batch(id uint64, instance string, o map[string]string) *Batch[string] {
	b := &Batch[string]{Instance: instance, Batch: &backend.Batch{Progress: &told{p, id}}}
	if name := o["context"]; name != "" {
		if p.contexts[name] == nil {
			p.contexts[name] = make(chan struct{})
		}
		b.Context = p.contexts[name]
	}
	for i := range transcript.Number(o["requests"], 1) {
		b.Batch.Requests = append(b.Batch.Requests, &backend.Request{Responder: &client{}})
		buf := tensor.NewBuffer(make([]byte, 8), &freed{p, fmt.Sprintf("%d.%d", id, i)})
		p.buffers = append(p.buffers, buf)
		b.Copies = append(b.Copies, Copy{Request: i, Buffer: buf})
	}
	return b
}

func (p *player) event(words []string) {
	switch words[0] {
	case "instance":
		p.names = append(p.names, words[1])
		p.pipelines[words[1]] = NewPipeline[string](slices.Contains(words, "ahead"))
	case "send", "refuse", "finished", "not-begun", "abandon", "returned", "close", "answer", "final", "expire", "cancel":
		p.change(words)
	default:
		p.ask(words)
	}
}

func (p *player) change(words []string) {
	o := transcript.Options(words[1:])
	switch words[0] {
	case "send":
		id := p.number(words[1])
		b := p.batch(id, words[2], o)
		_, gathered := o["gathered"]
		p.account.Enter(b)
		p.batches[id] = b
		if p.account.Sent(b, id, p.pipelines[words[2]], gathered) {
			p.say("to be looked at")
		}
	case "refuse":
		b := p.batch(0, words[1], o)
		p.account.Enter(b)
		p.account.Refuse(b)
		p.release(b.dropCopies())
	case "finished":
		_, later := o["later"]
		b := p.account.Finished(p.number(words[1]))
		if b == nil {
			p.say("not here")
			return
		}
		p.settle(b, later)
	case "not-begun":
		b := p.account.Find(p.number(words[1]))
		switch {
		case b == nil:
			p.say("not here")
		case !p.pipelines[b.Instance].Recalled(b.ID):
			p.say("was not recalled")
		case !p.account.Untouched(b):
			p.say("was answered")
		default:
			p.notBegun(b)
		}
	case "abandon":
		b := p.account.Abandon(p.number(words[1]))
		if b == nil {
			p.say("not here")
			return
		}
		p.settle(b, false)
	case "returned":
		p.release(p.account.Returned(p.number(words[1])))
	case "close":
		batches, kept := p.account.Close()
		slices.SortFunc(batches, func(a, b *Batch[string]) int { return int(a.ID) - int(b.ID) })
		for _, b := range batches {
			p.settle(b, false)
		}
		p.release(kept)
	default:
		p.request(words)
	}
}

func (p *player) request(words []string) {
	switch words[0] {
	case "answer":
		p.account.Request(p.handle(words[1])).Sent = true
	case "final":
		h := p.handle(words[1])
		if p.account.Request(h) != nil {
			p.release(p.account.Answered(h))
			return
		}
		r, ok := p.account.Late(h, wire.ResponseFinal)
		if !ok {
			p.say("nobody's")
			return
		}
		p.say("late")
		p.release(r.Copies)
	case "expire":
		b := p.account.Expire(p.number(words[1]))
		if b == nil {
			p.say("nothing to do")
			return
		}
		for i, h := range b.Handles {
			if r, ok := p.account.ExpireRequest(h); ok {
				p.say("%d.%d is answered, sent before: %v", b.ID, i, r.Sent)
			}
		}
	case "cancel":
		for _, r := range p.batches[p.number(words[1])].Batch.Requests {
			r.Responder.(*client).gone = true
		}
	}
}

func (p *player) settle(b *Batch[string], later bool) {
	copies, open := p.account.Settle(b, later)
	p.say("%d has ended, %d of its requests are open", b.ID, open)
	p.release(copies)
}

func (p *player) notBegun(b *Batch[string]) {
	copies := p.account.NotBegun(b)
	p.say("%d has ended, may go elsewhere: %v", b.ID, errors.Is(b.Err, backend.ErrNotBegun))
	p.release(copies)
}

func (p *player) ask(words []string) {
	switch words[0] {
	case "begun":
		p.pipelines[words[1]].Begun(p.number(words[2]))
	case "answering":
		if p.account.Answering(p.number(words[1])) == nil {
			p.say("not here")
		}
	case "frees":
		p.account.Frees(p.number(words[1]))
	case "look":
		held, late := p.pipelines[words[1]].Look(p.number(words[2]))
		p.say("holds an answer: %v, late: %v", held, late)
	case "recall":
		p.say("up to %d", p.pipelines[words[1]].Recall())
	case "end":
		p.pipelines[words[1]].RecallAll()
	case "back":
		for _, b := range p.account.Recalled(p.pipelines[words[1]], p.number(words[2]), p.number(words[3])) {
			p.notBegun(b)
		}
	case "running":
		running, cancelled := p.pipelines[words[1]].Running()
		p.say("runs a batch: %v, cancelled: %v", running, cancelled)
	case "only":
		if b := p.pipelines[words[1]].Only(); b != nil {
			p.say("%d", b.ID)
		} else {
			p.say("none, or not known")
		}
	case "under":
		var ids []uint64
		for b := range p.account.Under(p.contexts[words[1]]) {
			ids = append(ids, b.ID)
		}
		slices.Sort(ids)
		p.say("%v", ids)
	case "state":
		p.state()
	default:
		p.t.Fatalf("unknown event %q", words)
	}
}

func (p *player) state() {
	for _, name := range p.names {
		in := p.pipelines[name]
		var ids []uint64
		for _, b := range in.batches {
			ids = append(ids, b.ID)
		}
		first := uint64(0)
		if b := in.First(); b != nil {
			first = b.ID
		}
		if in.Len() != len(ids) || first != append(slices.Clone(ids), 0)[0] {
			p.t.Errorf("%s: %v, first %d of %d", name, ids, first, in.Len())
		}
		p.say("%s has %v, overdue %d, stuck %v", name, ids, in.Overdue(), in.Stuck())
	}
	p.say("open %d, busy %v", p.account.Open(), p.account.Busy())
}

// TestStaleHandles: a slot is used again, and who has the old handle of it finds nobody.
func TestStaleHandles(t *testing.T) {
	var table requests[string]
	first, other := &backend.Request{}, &backend.Request{}
	old := table.add(first, "a")
	if _, ok := table.remove(old); !ok {
		t.Fatal("not there")
	}
	handle := table.add(other, "b")
	if uint32(handle) != uint32(old) || handle == old {
		t.Errorf("handle %#x after %#x: want the same slot with another generation", handle, old)
	}
	if table.find(old) != nil {
		t.Error("the old handle finds a request")
	}
	if r := table.find(handle); r == nil || r.Request != other || r.Instance != "b" {
		t.Errorf("found %+v", r)
	}
	for _, nobody := range []uint64{0, 1 << 32, handle + 1, ^uint64(0)} {
		if nobody != handle && table.find(nobody) != nil {
			t.Errorf("handle %#x finds a request", nobody)
		}
	}
	if _, ok := table.remove(old); ok || table.live != 1 {
		t.Errorf("removed twice; %d live", table.live)
	}
	for h, r := range table.all() {
		if h != handle || r.Request != other {
			t.Errorf("all yields %#x", h)
		}
	}
}

// TestCopyOf: an input is known by where it begins and by its size.
func TestCopyOf(t *testing.T) {
	data := make([]byte, 16)
	c := Copy{Data: &data[0], Buffer: tensor.NewBuffer(make([]byte, 16), nil)}
	for want, in := range map[bool][]byte{true: data, false: data[:8]} {
		if got := c.Of(&tensor.Tensor{Data: in, Datatype: tensor.Uint8, Shape: tensor.Shape{int64(len(in))}}); got != want {
			t.Errorf("%d bytes: %v", len(in), got)
		}
	}
}
