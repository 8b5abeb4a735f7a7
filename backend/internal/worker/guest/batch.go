package guest

import (
	"sync"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// Answer is a response on its way: outputs in memory of Guest.Allocate, or an error.
type Answer struct {
	Outputs    []Output
	Parameters []backend.Parameter
	Err        *backend.Error
}

// Output is one tensor of an answer, whose Data is that of the block.
type Output struct {
	tensor.Tensor
	Block *Block
}

// creditBytes is how many bytes of a response count as one of the window.
const creditBytes = 4 << 10

func (a *Answer) cost() int {
	size := 0
	for i := range a.Outputs {
		size += len(a.Outputs[i].Data)
	}
	return 1 + size/creditBytes
}

// Drop frees the outputs of an answer that is not sent. nil is none.
func (a *Answer) Drop() {
	if a == nil {
		return
	}
	for i := range a.Outputs {
		a.Outputs[i].Block.Free()
	}
	a.Outputs = nil
}

// batch is what a served instance was given at once.
type batch struct {
	line *line
	id   uint64

	mu       sync.Mutex
	open     int // requests without a final response
	returned bool
	held     []pending
	timer    *time.Timer
}

type pending struct {
	request      *Request
	answer       *Answer
	final, again bool
}

// holdLimit is how long answers wait for others of their batch, to leave in one
// frame. Most libraries answer all requests and return.
const holdLimit = 200 * time.Microsecond

func (b *batch) holdLocked(p pending) {
	b.held = append(b.held, p)
	if b.timer == nil {
		b.timer = time.AfterFunc(holdLimit, b.flush)
	} else if len(b.held) == 1 {
		b.timer.Reset(holdLimit)
	}
}

// flush sends what has waited long enough while the batch runs on.
func (b *batch) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.returned && len(b.held) > 0 {
		held := b.held
		b.held = nil
		_ = b.writeLocked(held, false) // where the channel is broken the reader says so
	}
}

// end takes the return of Execute.
func (b *batch) end(requests []*Request, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
	b.returned = true
	held := b.held
	b.held = nil
	if err != nil {
		failure := backend.AsError(err)
		for _, r := range requests {
			if !r.ended {
				r.ended, r.released = true, true
				b.open--
				held = append(held, pending{request: r, answer: &Answer{Err: failure}, final: true})
			}
		}
	}
	ends := b.line.served.Decoupled || b.open == 0
	if len(held) > 0 || ends {
		if err := b.writeLocked(held, ends); err != nil {
			return err
		}
	}
	if ends {
		return nil
	}
	g := b.line.guest
	g.mu.Lock()
	defer g.mu.Unlock()
	var failed error
	if g.out, failed = wire.AppendFrame(g.out[:0], wire.KindFree, b.line.number, b.id, nil); failed == nil {
		_, failed = g.descriptors.Write(g.out)
	}
	return failed
}

// writeLocked sends answers, with the end of the batch if they are the last ones.
func (b *batch) writeLocked(list []pending, ends bool) error {
	g, flags := b.line.guest, uint32(0)
	if ends {
		flags = wire.FlagEnds
	}
	all := make([]wire.Outgoing, len(list))
	for i := range list {
		b.outgoing(&all[i], &list[i])
	}
	g.mu.Lock()
	var err error
	if len(list) == 0 {
		g.out, err = wire.AppendDone(g.out[:0], b.line.number, b.id, "", "")
	} else {
		g.out, err = g.enc.AppendResponses(g.out[:0], wire.KindResponses, b.line.number, b.id, flags, all)
	}
	if err == nil {
		_, err = g.descriptors.Write(g.out)
	}
	for i := range list {
		if list[i].final || list[i].again {
			delete(g.served, list[i].request.handle)
		}
	}
	g.mu.Unlock()
	for i := range list {
		if a := list[i].answer; a != nil {
			for k := range a.Outputs {
				if a.Outputs[k].Block.inline() || err != nil {
					a.Outputs[k].Block.Free()
				}
			}
		}
	}
	return err
}

func (b *batch) outgoing(o *wire.Outgoing, p *pending) {
	o.Handle = p.request.handle
	switch {
	case p.again:
		o.Flags = wire.ResponseAgain | wire.ResponseNone
	case p.final:
		o.Flags = wire.ResponseFinal
		if r := p.request; !r.released && len(r.blocks) > 0 {
			r.retained = true
			o.Flags |= wire.ResponseRetained
		}
	}
	if p.answer == nil {
		o.Flags |= wire.ResponseNone
		return
	}
	if o.Parameters, o.Err = p.answer.Parameters, p.answer.Err; o.Err != nil {
		p.answer.Drop()
		return
	}
	for i := range p.answer.Outputs {
		t := &p.answer.Outputs[i]
		o.Outputs = append(o.Outputs, t.Tensor)
		o.Indices = append(o.Indices, b.line.served.Tables.Output(t.Name))
		o.Places = append(o.Places, t.Block.place)
	}
}
