package schedule

import (
	"fmt"
	"math/rand/v2"
)

// Sequences gives requests to sequences: each slot has one sequence at a time, and
// begins another with a fresh id when that one ends. It is not safe for concurrent
// use.
type Sequences struct {
	next, first, bound uint64 // ids; bound 0 is none
	length             int    // 0 plays a stream once
	variation          float64
	streams            []int // steps of each stream
	stream             int   // of the next sequence
	random             *rand.Rand
	slots              []slot
	ended              int
}

type slot struct {
	id                   uint64
	step, length, stream int
}

// Position is one request's place in its sequence.
type Position struct {
	ID         uint64
	Start, End bool
	// Stream and Step say which data it has.
	Stream, Step int
}

// SequenceOptions are what NewSequences needs to know.
type SequenceOptions struct {
	Slots int
	First uint64 // the first id
	Range uint64 // ids, 0 without bounds
	// Length of a sequence, give or take Variation percent; 0 plays a stream of the
	// data once.
	Length    int
	Variation float64
	Streams   []int
}

// NewSequences fails where ids would be used by two sequences at once.
func NewSequences(o SequenceOptions, random *rand.Rand) (*Sequences, error) {
	if o.Range > 0 && uint64(o.Slots) > o.Range {
		return nil, fmt.Errorf("sequence id range specified is smaller than the maximum possible number of concurrent sequences: %d ids for %d",
			o.Range, o.Slots)
	}
	return &Sequences{
		next: o.First, first: o.First, bound: o.Range, length: o.Length, variation: o.Variation, streams: o.Streams, random: random,
		slots: make([]slot, o.Slots),
	}, nil
}

// Next returns the place of the next request of a slot.
func (s *Sequences) Next(i int) Position {
	c := &s.slots[i]
	if c.step == c.length {
		*c = s.begin(i)
	}
	p := Position{ID: c.id, Start: c.step == 0, Stream: c.stream, Step: c.step % s.streams[c.stream]}
	c.step++
	p.End = c.step == c.length
	if p.End {
		s.ended++
	}
	return p
}

// Abandon has a slot begin a new sequence with its next request: the server has
// lost the one before.
func (s *Sequences) Abandon(i int) { s.slots[i].step = s.slots[i].length }

// Unfinished returns for each sequence under way a last request, with the data of its
// begin.
func (s *Sequences) Unfinished() []Position {
	var all []Position
	for _, c := range s.slots {
		if c.step > 0 && c.step < c.length {
			all = append(all, Position{ID: c.id, End: true, Stream: c.stream})
		}
	}
	return all
}

func (s *Sequences) begin(i int) slot {
	c := slot{id: s.freeID(i), stream: s.stream}
	s.stream = (s.stream + 1) % len(s.streams)
	c.length = s.streams[c.stream]
	if s.length > 0 {
		spread := float64(s.length) * s.variation / 100
		c.length = max(1, int(float64(s.length)+(2*s.random.Float64()-1)*spread+0.5))
	}
	return c
}

// freeID is the next id that no slot but i uses.
func (s *Sequences) freeID(i int) uint64 {
	for {
		id := s.next
		s.next++
		if s.bound > 0 && s.next >= s.first+s.bound || s.next == 0 {
			s.next = s.first
		}
		if !s.used(id, i) {
			return id
		}
	}
}

// used reports whether a slot other than i has an id. It has it until it begins another
// sequence: the last request of a sequence that has ended here may be on its way still.
func (s *Sequences) used(id uint64, i int) bool {
	for j := range s.slots {
		if j != i && s.slots[j].id == id && s.slots[j].length > 0 {
			return true
		}
	}
	return false
}
