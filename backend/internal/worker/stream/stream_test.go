package stream

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// reading is a client that takes a response for every send to next.
type reading struct {
	next  chan struct{}
	taken int
	final bool
}

func (r *reading) Respond(resp *backend.Response, final bool) error {
	<-r.next
	resp.Release()
	r.taken++
	r.final = r.final || final
	return nil
}

func (r *reading) Cancelled() bool { return false }

// part is one response, whose release counts.
func part(released *int) *backend.Response {
	return &backend.Response{Outputs: []tensor.Tensor{{Buffer: tensor.NewBuffer(make([]byte, 1), countReleases{released})}}}
}

type countReleases struct{ n *int }

func (c countReleases) ReleaseBuffer(*tensor.Buffer) { *c.n++ }

func TestStreamReturnsCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &reading{next: make(chan struct{})}
		returned, released := 0, 0
		s := New(&backend.Request{Responder: client}, func(taken int) { returned += taken })
		done := make(chan struct{})
		go func() { defer close(done); s.Deliver() }()
		const responses = 3 * Window
		for range responses { // a worker that exceeds its window
			s.Push(Item{Resp: part(&released), Cost: 1}, nil)
		}
		synctest.Wait()
		if returned != 0 || client.taken != 0 {
			t.Fatalf("%d returned, %d taken before the client reads", returned, client.taken)
		}
		for range creditStep - 1 {
			client.next <- struct{}{}
		}
		synctest.Wait()
		if returned != 0 {
			t.Errorf("%d returned for less than a step", returned)
		}
		for range Window - creditStep + 1 {
			client.next <- struct{}{}
		}
		synctest.Wait()
		if returned != Window {
			t.Errorf("%d returned, want %d", returned, Window)
		}
		s.Push(Item{Final: true}, nil)
		for range responses - Window + 1 {
			client.next <- struct{}{}
		}
		<-done
		if returned != Window || !client.final || client.taken != responses+1 || released != responses {
			t.Errorf("at the end: %d returned, final %v, %d taken, %d released", returned, client.final, client.taken, released)
		}
	})
}

// TestStreamWithoutWindow checks that the reader waits when a worker that keeps
// no count is too far ahead, and that the end of the connection frees it.
func TestStreamWithoutWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &reading{next: make(chan struct{})}
		released, pushed := 0, 0
		s := New(&backend.Request{Responder: client}, nil)
		done, closing, reader := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() { defer close(done); s.Deliver() }()
		go func() {
			defer close(reader)
			for range 10 * Room {
				s.Push(Item{Resp: part(&released), Cost: 1}, closing)
				pushed++
			}
		}()
		synctest.Wait()
		if pushed > 2*Room+1 {
			t.Errorf("%d responses queued", pushed)
		}
		stuck := pushed
		close(closing)
		<-reader
		s.Push(Item{Resp: &backend.Response{Err: &backend.Error{}}, Final: true}, closing)
		for range stuck {
			client.next <- struct{}{}
		}
		client.next <- struct{}{}
		<-done
		if released != 10*Room || !client.final {
			t.Errorf("%d released, final %v", released, client.final)
		}
	})
}

// TestCallWindow checks that a called model waits for the one that called it,
// and that a call which is cancelled ends the waiting.
func TestCallWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &CallWindow{more: make(chan struct{}, 1)}
		large := &backend.Response{Outputs: []tensor.Tensor{{Data: make([]byte, 3*CreditBytes)}}} // costs 4
		ctx, cancel := context.WithCancel(t.Context())
		sent, done := 0, make(chan struct{})
		go func() {
			defer close(done)
			for w.Spend(ctx, large) {
				sent++
			}
		}()
		synctest.Wait()
		if sent != Window/4 {
			t.Errorf("%d responses sent ahead", sent)
		}
		w.Credit(7)
		synctest.Wait()
		if sent != Window/4+2 {
			t.Errorf("%d responses after credit for nearly two", sent)
		}
		cancel()
		<-done
	})
}
