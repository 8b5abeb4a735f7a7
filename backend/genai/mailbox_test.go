package genai

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestMailbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMailbox(never, lookAgain)
		go func() {
			for i := range int32(3) {
				time.Sleep(time.Second)
				m.put(piece{token: i, done: i == 2})
			}
			m.put(piece{token: 9}) // it has ended
			m.fail(errGone)
		}()
		for i := range int32(3) {
			if p, err := m.next(0); err != nil || p.token != i || p.done != (i == 2) {
				t.Errorf("token %d: %+v, %v", i, p, err)
			}
		}
		if p, err := m.next(0); err != nil || p.token != tokenNone || !p.done {
			t.Errorf("after the end: %+v, %v", p, err)
		}
	})
}

// TestMailboxWithoutAToken: an end that comes by itself is the last token's, if that has not been taken.
func TestMailboxWithoutAToken(t *testing.T) {
	m := newMailbox(never, lookAgain)
	m.put(piece{token: 1})
	m.put(piece{token: tokenNone, done: true})
	if p, err := m.next(0); err != nil || p.token != 1 || !p.done {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestMailboxFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := errors.New("wrong")
		m := newMailbox(never, lookAgain)
		m.put(piece{token: 1})
		m.fail(wrong)
		if p, err := m.next(0); err != nil || p.token != 1 {
			t.Errorf("what came before: %+v, %v", p, err)
		}
		if _, err := m.next(0); !errors.Is(err, wrong) {
			t.Errorf("got %v", err)
		}
		begin := time.Now()
		m = newMailbox(func() bool { return time.Since(begin) > time.Second }, lookAgain)
		if _, err := m.next(0); !errors.Is(err, errGone) {
			t.Errorf("nobody waits any more: %v", err)
		}
	})
}
