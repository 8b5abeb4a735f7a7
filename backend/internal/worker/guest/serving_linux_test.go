package guest

import (
	"encoding/json"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	workerboard "github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// server is the other side of a Guest with served instances, frame by frame.
type server struct {
	t       *testing.T
	control io.WriteCloser
	in      wire.Reader
	ended   chan error
	enc     wire.Encoder
	handler *serving
	board   *workerboard.Board
}

// serving attaches the instances that it is told of.
type serving struct {
	guest  *Guest
	run    func(instance uint32, batch []*Request) error
	window int
	exited atomic.Bool
}

func (s *serving) Call(kind wire.Kind, instance uint32, body json.RawMessage) (any, error) {
	switch kind {
	case wire.KindInit:
		var i struct{ Board *int }
		if err := json.Unmarshal(body, &i); err != nil {
			return nil, err
		}
		return nil, s.guest.Attach(instance, Served{
			Tables: wire.Tables{Inputs: []string{"IN"}, Outputs: []string{"OUT"}}, Board: i.Board, InlineLimit: 8192,
			Decoupled: s.window > 0, Window: s.window, Execute: func(b []*Request) error { return s.run(instance, b) },
		})
	default:
		s.guest.Detach(instance)
		return nil, nil
	}
}
func (s *serving) Instance(uint32) (Instance, bool) { return Instance{}, false }
func (s *serving) Exit()                            { s.exited.Store(true) }

func serve(t *testing.T, h *serving) *server {
	control, theirs, err := channel.NewPair("control")
	if err != nil {
		t.Fatal(err)
	}
	descriptors, theirDescriptors, err := channel.NewPair("descriptors")
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewServing(theirs, theirDescriptors, h)
	if err != nil {
		t.Fatal(err)
	}
	h.guest = g
	s := &server{t: t, control: control, in: wire.NewReader(descriptors, nil, nil), ended: make(chan error, 1), handler: h}
	_ = descriptors.SetReadDeadline(time.Now().Add(time.Minute))
	t.Cleanup(func() {
		_, _, _ = control.Close(), descriptors.Close(), g.descriptors.Close()
		s.in.Close()
	})
	made, heard, err := workerboard.New()
	if err != nil {
		t.Fatal(err)
	}
	s.board = made
	t.Cleanup(made.Close)
	go func() { s.ended <- g.Serve() }()
	s.expect(wire.KindHello)
	s.send(wire.AppendSegment(nil, wire.BoardSegment, wire.SegmentBoard, made.Segment().Size()), nil)
	if err := channel.SendFiles(descriptors, made.Segment().File()); err != nil {
		t.Fatal(err)
	}
	s.send(wire.AppendSegment(nil, wire.BellSegment, wire.SegmentBell, 0), nil)
	if err := channel.SendFiles(descriptors, heard); err != nil {
		t.Fatal(err)
	}
	_ = heard.Close()
	return s
}

func (s *server) send(frame []byte, err error) {
	s.t.Helper()
	if err == nil {
		_, err = s.control.Write(frame)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// expect returns the body of the next frame, which is of that kind.
func (s *server) expect(kind wire.Kind) (wire.Header, []byte) {
	s.t.Helper()
	h, body, err := s.in.Next()
	if err != nil || h.Kind != kind {
		s.t.Fatalf("got %v %q, want %v: %v", h.Kind, body, kind, err)
	}
	return h, body
}

// add makes an instance, with words on the board.
func (s *server) add(number uint32) *workerboard.Slot {
	s.t.Helper()
	slot := s.board.Take(0)
	body, _ := json.Marshal(map[string]any{"board": *slot.Offset()})
	s.send(wire.AppendFrame(nil, wire.KindInit, number, 1, body))
	s.expect(wire.KindReady)
	return slot
}

type inline struct{}

func (inline) Put([]tensor.Tensor, int) wire.Place { return wire.Place{Segment: wire.InlineSegment} }

// batch is an EXECUTE of one request, whose handle is the number of the batch.
func (s *server) batch(instance uint32, id uint64) []byte {
	s.t.Helper()
	r := &backend.Request{Inputs: []tensor.Tensor{{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Data: []byte{byte(id)}}}}
	frame, err := s.enc.AppendExecute(nil, instance, id, []*backend.Request{r}, []uint64{id}, &wire.Tables{Inputs: []string{"IN"}}, inline{})
	if err != nil {
		s.t.Fatal(err)
	}
	return frame
}

// answered expects the answer to a batch. Where the clock ticks between the answer and the
// end of the execution, the end comes by itself.
func (s *server) answered(id uint64) {
	s.t.Helper()
	h, body := s.expect(wire.KindResponses)
	all, ends, err := wire.DecodeResponses(h.Kind, body)
	if h.ID != id || len(all) != 1 || err != nil {
		s.t.Fatalf("answer to %d with %d responses (the end: %v): %v; want that to %d", h.ID, len(all), ends, err, id)
	}
	if !ends {
		if h, _ := s.expect(wire.KindDone); h.ID != id {
			s.t.Fatalf("the end of %d, want that of %d", h.ID, id)
		}
	}
}

// exit has the worker end.
func (s *server) exit() {
	s.t.Helper()
	s.send(wire.AppendFrame(nil, wire.KindExit, 0, 0, nil))
	if err := <-s.ended; err != nil || !s.handler.exited.Load() {
		s.t.Fatalf("%v, exited: %v", err, s.handler.exited.Load())
	}
}

func echo(_ uint32, batch []*Request) error {
	for _, r := range batch {
		_, _ = r.Release(), r.Answer(&Answer{}, true)
	}
	return nil
}

// One instance after the other comes and goes while its thread reads, and batches are
// answered meanwhile.
func TestServedComeAndGo(t *testing.T) {
	s := serve(t, &serving{run: echo})
	id := uint64(1)
	for round := range 50 {
		slots := []*workerboard.Slot{s.add(1)}
		if round%2 == 1 {
			slots = append(slots, s.add(2))
		}
		for range 3 {
			id++
			s.send(s.batch(1, id), nil)
			s.answered(id)
		}
		for k, slot := range slots {
			s.send(wire.AppendFrame(nil, wire.KindUnload, uint32(k+1), 1, nil))
			s.expect(wire.KindReady)
			s.board.Free(slot)
		}
	}
	s.exit()
}

// What is sent while the library runs is read: the cancellation of its request.
func TestServedIsCancelled(t *testing.T) {
	begun := make(chan struct{})
	s := serve(t, &serving{run: func(_ uint32, batch []*Request) error {
		close(begun)
		for !batch[0].Cancelled() {
			time.Sleep(100 * time.Microsecond) // as a library polls
		}
		return backend.Errorf(backend.Cancelled, "cancelled")
	}})
	s.add(1)
	s.send(s.batch(1, 7), nil)
	<-begun
	s.send(wire.AppendFrame(nil, wire.KindCancel, 1, 7, nil))
	s.answered(7)
	s.exit()
}

// A request that is cancelled before it is begun is cancelled when it is.
func TestServedIsCancelledAhead(t *testing.T) {
	first, free := make(chan struct{}), make(chan struct{})
	var seen atomic.Bool
	s := serve(t, &serving{run: func(instance uint32, batch []*Request) error {
		if batch[0].handle == 61 {
			close(first)
			<-free
		} else {
			seen.Store(batch[0].Cancelled())
		}
		return echo(instance, batch)
	}})
	s.add(1)
	s.send(append(s.batch(1, 61), s.batch(1, 62)...), nil)
	<-first
	s.send(wire.AppendFrame(nil, wire.KindCancel, 1, 62, nil))
	s.add(2) // is read behind it
	close(free)
	s.answered(61)
	s.answered(62)
	if !seen.Load() {
		t.Error("not cancelled")
	}
	s.exit()
}

// What is for another instance does not wait for what one runs, and neither does the end.
func TestServedDoNotWait(t *testing.T) {
	first, free := make(chan struct{}), make(chan struct{})
	s := serve(t, &serving{run: func(instance uint32, batch []*Request) error {
		if instance == 1 {
			close(first)
			<-free
		}
		return echo(instance, batch)
	}})
	s.add(1)
	s.send(s.batch(1, 10), nil) // its thread has read it
	<-first
	s.add(2)
	s.send(s.batch(2, 11), nil)
	s.answered(11)
	close(free)
	s.answered(10)
	s.send(s.batch(2, 12), nil)
	s.answered(12)
	s.exit()
}

// What was sent ahead is run in order, or not at all where it was recalled. An answer
// that waits for that of the next batch leaves while that runs.
func TestServedAhead(t *testing.T) {
	second, free := make(chan struct{}), make(chan struct{})
	ran := make(chan uint64, 10)
	s := serve(t, &serving{run: func(instance uint32, batch []*Request) error {
		if batch[0].handle == 22 {
			close(second)
			<-free
		}
		ran <- batch[0].handle
		return echo(instance, batch)
	}})
	slot := s.add(1)
	s.send(append(append(append(s.batch(1, 21), s.batch(1, 22)...), s.batch(1, 23)...), s.batch(1, 24)...), nil)
	<-second
	if slot.Begun() != 22 {
		t.Errorf("batch %d is begun", slot.Begun())
	}
	s.answered(21)
	slot.Recall(23)
	close(free)
	s.answered(22)
	if h, _ := s.expect(wire.KindNotBegun); h.ID != 23 || h.Instance != 1 {
		t.Errorf("not begun: %+v", h)
	}
	s.answered(24)
	for _, id := range []uint64{21, 22, 24} {
		if got := <-ran; got != id {
			t.Errorf("%d ran, want %d", got, id)
		}
	}
	s.exit()
}

// An answer that a library gives before it goes on to something long leaves meanwhile.
func TestServedAnswersInTheMiddle(t *testing.T) {
	free := make(chan struct{})
	s := serve(t, &serving{run: func(instance uint32, batch []*Request) error {
		err := echo(instance, batch)
		<-free
		return err
	}})
	s.add(1)
	s.send(s.batch(1, 30), nil)
	h, body := s.expect(wire.KindResponses)
	if all, ends, err := wire.DecodeResponses(h.Kind, body); h.ID != 30 || len(all) != 1 || ends || err != nil {
		t.Errorf("%+v, %d responses, the end: %v, %v", h, len(all), ends, err)
	}
	close(free)
	if h, _ := s.expect(wire.KindDone); h.ID != 30 {
		t.Errorf("%+v", h)
	}
	s.exit()
}

// The thread of the instance waits for credit in the middle of an execution, so somebody
// else reads it.
func TestServedHasCredit(t *testing.T) {
	const responses = 20
	s := serve(t, &serving{window: 2, run: func(_ uint32, batch []*Request) error {
		for range responses {
			if err := batch[0].Answer(&Answer{}, false); err != nil {
				return err
			}
		}
		_, err := batch[0].Release(), batch[0].Answer(nil, true)
		return err
	}})
	s.add(1)
	s.send(s.batch(1, 40), nil)
	for range responses {
		s.expect(wire.KindResponses)
		s.send(wire.AppendCredit(nil, 1, 40, 1), nil)
	}
	s.expect(wire.KindResponses) // the final one
	s.expect(wire.KindDone)
	s.exit()
}

// The end of the server ends the worker, whoever reads, and whatever the library does.
func TestServedServerDies(t *testing.T) {
	for _, busy := range []bool{false, true} {
		begun, free := make(chan struct{}), make(chan struct{})
		s := serve(t, &serving{run: func(_ uint32, _ []*Request) error {
			close(begun)
			<-free
			return nil
		}})
		s.add(1)
		if busy {
			s.send(s.batch(1, 50), nil)
			<-begun
		}
		_ = s.control.Close()
		if err := <-s.ended; err != nil {
			t.Errorf("busy %v: %v", busy, err)
		}
		close(free)
	}
}

// A board that is none, and words outside it, are refused.
func TestBoardIsChecked(t *testing.T) {
	b := board{data: make([]byte, 128)}
	for _, at := range []int{-8, 4, 64, 128, 1 << 40} {
		if w, err := b.words(&at); err == nil {
			t.Errorf("words at %d: %+v", at, w)
		}
	}
	at := 0
	if w, err := b.words(&at); err != nil || !w.begin(1) || w.begun.Load() != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := (&board{}).words(nil); w != nil || err != nil || !w.begin(1) {
		t.Errorf("none: %+v, %v", w, err)
	}
}
