package guest

import (
	"slices"
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
		size += a.Outputs[i].Size() // what lies on a GPU has no Data
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
	reports  []wire.Report
	returned bool
	held     []pending // until Execute has returned, or for a tick or two: most libraries return when they have answered all
}

// Report says what the model did for the request, or for the whole batch that it is in. It
// counts where it comes before the final response of the request has left, or before the
// end of the batch: one that comes later leaves with the next answer, if at all.
func (r *Request) Report(of wire.Report) {
	b := r.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if of.Flags&wire.ReportBatch == 0 {
		of.Handle = r.handle
	}
	b.reports = append(b.reports, of)
}

type pending struct {
	request      *Request
	answer       *Answer
	final, again bool
	looks        int // that flush has had at it
}

// patience is how many looks a final answer waits for its request to be released: most
// libraries report what they did for it between the two, and what comes later is too late.
// The second look is a tick after the first one.
const patience = 2

// holdLimit and holdBytes are how long answers wait for those of the batches behind
// theirs, which have been read already, to leave in one write, and how much may wait.
const (
	holdLimit = 100 * time.Microsecond
	holdBytes = 64 << 10
)

// flush sends what is held while the batch runs on.
func (b *batch) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.returned || len(b.held) == 0 {
		return
	}
	for i := range b.held {
		b.held[i].looks++ // so that none waits longer for those before it
	}
	n := 0
	for n < len(b.held) && !b.held[n].waitsForReport() {
		n++
	}
	if n > 0 {
		_ = b.writeLocked(b.held[:n], false, false) // where the channel is broken the reader says so
		b.held = slices.Delete(b.held, 0, n)
	}
}

func (p *pending) waitsForReport() bool {
	return p.final && !p.request.released && p.looks < patience
}

// end takes the return of Execute.
func (b *batch) end(requests []*Request, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
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
		if err := b.writeLocked(held, ends, ends && b.line.more()); err != nil {
			return err
		}
	}
	if ends {
		return nil
	}
	return b.line.guest.frame(wire.KindFree, b.line.number, b.id)
}

// writeLocked sends answers, with the end of the batch if they are the last ones. With
// hold they may wait for those of the next batch.
func (b *batch) writeLocked(list []pending, ends, hold bool) error {
	g, flags := b.line.guest, uint32(0)
	if ends {
		flags = wire.FlagEnds
	}
	g.mu.Lock()
	var err error
	all := g.roomLocked(len(list))
	for i := range list {
		b.outgoing(&all[i], &list[i])
	}
	if len(b.reports) > 0 { // before what ends the requests
		g.out = wire.AppendTimes(g.out, b.line.number, b.id, b.reports)
		b.reports = b.reports[:0]
	}
	if len(list) == 0 {
		g.out, err = wire.AppendDone(g.out, b.line.number, b.id, "", "")
	} else {
		g.out, err = g.enc.AppendResponses(g.out, wire.KindResponses, b.line.number, b.id, flags, all)
	}
	g.sending = all
	if err != nil || !hold || !g.holdsLocked() {
		err = g.sendLocked(err)
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

// roomLocked returns room for n responses.
func (g *Guest) roomLocked(n int) []wire.Outgoing {
	all := g.sending
	if cap(all) < n {
		return make([]wire.Outgoing, n)
	}
	all = all[:n]
	for i := range all {
		o := &all[i]
		clear(o.Outputs) // they hold what the frame has by now
		*o = wire.Outgoing{Outputs: o.Outputs[:0], Indices: o.Indices[:0], Places: o.Places[:0]}
	}
	return all
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
		o.Places = append(o.Places, t.Block.located())
	}
}
