package genai

import (
	"sync"
	"time"
)

// source gives the tokens of one answer.
type source interface {
	// next returns the next token, with so many of those that could have come in its place.
	next(candidates int) (piece, error)
	close()
}

// piece is one token of an answer.
type piece struct {
	token int32 // or tokenEnd, tokenNone
	done  bool  // it is the last one
	taken candidate
	best  []candidate // the most likely ones, where they were asked for
}

// What stands in place of a token at the end of a text: it has come to its end, or may not go on.
const (
	tokenEnd  int32 = -1
	tokenNone int32 = -2
)

// mailbox has the tokens of one answer on their way from the goroutine that computes those of all
// answers to the one that writes this. They wait until they are taken: there are no more than were
// asked for.
type mailbox struct {
	gone  func() bool
	every time.Duration // how often next calls gone while it waits

	mu     sync.Mutex
	pieces []piece
	ended  bool
	err    error
	some   chan struct{} // has room for one: there is something new
}

func newMailbox(gone func() bool, every time.Duration) mailbox {
	return mailbox{gone: gone, every: every, some: make(chan struct{}, 1)}
}

func (m *mailbox) put(p piece) {
	m.mu.Lock()
	if !m.ended {
		if last := len(m.pieces) - 1; p.token == tokenNone && last >= 0 {
			m.pieces[last].done = true
		} else {
			m.pieces = append(m.pieces, p)
		}
		m.ended = p.done
	}
	m.mu.Unlock()
	m.wake()
}

// fail ends the answer, unless it has ended before.
func (m *mailbox) fail(err error) {
	m.mu.Lock()
	if !m.ended {
		m.ended, m.err = true, err
	}
	m.mu.Unlock()
	m.wake()
}

func (m *mailbox) wake() {
	select {
	case m.some <- struct{}{}:
	default:
	}
}

// next implements source.
func (m *mailbox) next(int) (piece, error) {
	var tick *time.Ticker
	for {
		m.mu.Lock()
		if len(m.pieces) > 0 {
			p := m.pieces[0]
			m.pieces = m.pieces[1:]
			m.mu.Unlock()
			return p, nil
		}
		ended, err := m.ended, m.err
		m.mu.Unlock()
		switch {
		case err != nil:
			return piece{}, err
		case ended:
			return piece{token: tokenNone, done: true}, nil
		}
		if tick == nil {
			tick = time.NewTicker(m.every)
			defer tick.Stop()
		}
		select {
		case <-m.some:
		case <-tick.C:
			if m.gone() {
				return piece{}, errGone
			}
		}
	}
}
