//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/board"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// progress notes what a batch is told, in letters.
type progress struct{ waits, begins, recalled, frees atomic.Int32 }

func (*progress) Taken()      {}
func (p *progress) Waits()    { p.waits.Add(1) }
func (p *progress) Begins()   { p.begins.Add(1) }
func (p *progress) Recalled() { p.recalled.Add(1) }
func (p *progress) Frees()    { p.frees.Add(1) }

// line is a worker with a board and batches of one request on their way to it.
type line struct {
	*fakeWorker
	inst    *Instance
	asked   []*answers
	told    []*progress
	results []chan error
	headers []wire.Header
	handles []uint64
}

// newLine sends so many batches ahead of each other, of which the worker has
// read all and begun none.
func newLine(t *testing.T, batches int) *line {
	t.Helper()
	if !board.CanFence() {
		t.Skip("this system has no membarrier")
	}
	l := &line{fakeWorker: newFake(t, nil)}
	text, _ := json.Marshal(wire.Hello{PID: 1, Protocol: 1, Board: true})
	l.sendBody(wire.KindHello, 0, text)
	if _, err := l.conn.Hello(t.Context()); err != nil {
		t.Fatal(err)
	}
	board := l.conn.NewBoard()
	if board == nil {
		t.Fatal("no board")
	}
	l.inst = l.instance(func(i *Instance) { i.Board = board })
	l.conn.mu.Lock()
	l.conn.state.work.boards.armed = true // as far as it knows: only the test looks at lines,
	l.conn.state.work.boards.timer.Stop() // also behind its own looks
	l.conn.state.work.boards.timer = time.AfterFunc(time.Hour, func() {})
	l.conn.mu.Unlock()
	for range batches {
		l.put()
	}
	return l
}

// put sends one more batch.
func (l *line) put() {
	l.t.Helper()
	a, p := newAnswers(), &progress{}
	r := request(a, fp32("IN", tensor.Shape{1, 2}))
	done := make(chan error, 1)
	go func() {
		done <- l.inst.Execute(context.Background(), &backend.Batch{Requests: []*backend.Request{r}, Size: 1, Progress: p})
	}()
	h, blocks := l.taken()
	l.asked, l.told, l.results = append(l.asked, a), append(l.told, p), append(l.results, done)
	l.headers, l.handles = append(l.headers, h), append(l.handles, blocks[0].Handle)
}

func (l *line) word(offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&l.maps[wire.BoardSegment][offset]))
}

// begin is what a worker does before it runs a batch.
func (l *line) begin(i int) bool {
	l.word(0).Store(l.headers[i].ID)
	return l.headers[i].ID > l.word(board.RecalledAt).Load()
}

func (l *line) answer(i int) {
	l.t.Helper()
	l.send(l.enc.AppendResponses(nil, wire.KindResponses, 0, l.headers[i].ID, wire.FlagEnds,
		[]wire.Outgoing{{Handle: l.handles[i], Flags: wire.ResponseFinal}}))
}

func (l *line) result(i int) error {
	l.t.Helper()
	select {
	case err := <-l.results[i]:
		return err
	case <-time.After(time.Minute):
		l.t.Fatalf("batch %d has not ended", i)
		return nil
	}
}

// rung is how often the bell rang since it was last asked.
func (l *line) rung() int {
	l.t.Helper()
	poll := []unix.PollFd{{Fd: int32(l.bell.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 0); err != nil || n == 0 {
		return 0
	}
	n, err := l.bell.Read(make([]byte, 1<<20))
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

func TestWhoHoldsAnswersIsRungFor(t *testing.T) {
	l := newLine(t, 2)
	look := func(want int, when string) {
		t.Helper()
		l.conn.lookAtPipelines()
		if got := l.rung(); got != want {
			t.Errorf("%s: rang %d times, want %d", when, got, want)
		}
	}
	l.begin(0)
	look(0, "the first batch runs")
	l.begin(1) // the answer to the first one is held
	look(1, "the next one was begun, and no answer came since the last look")
	look(1, "still none")
	l.answer(0)
	if err := l.result(0); err != nil {
		t.Fatal(err)
	}
	look(0, "it came")
	l.put()
	look(0, "another one was sent")
	l.begin(2)
	l.answer(1)
	if err := l.result(1); err != nil {
		t.Fatal(err)
	}
	look(0, "the answer came before the look")
	l.answer(2)
	if err := l.result(2); err != nil {
		t.Fatal(err)
	}
	l.conn.mu.Lock()
	for range 1 << 17 { // more than a pipe takes: a worker that does not listen holds nobody up
		l.conn.state.work.boards.memory.Ring()
	}
	l.conn.mu.Unlock()
	if l.rung() == 0 {
		t.Error("nothing rang")
	}
}

func TestWhatIsNotBegunComesBack(t *testing.T) {
	l := newLine(t, 1+aheadLimit) // as many as there ever are
	if !l.begin(0) {
		t.Fatal("the first one was recalled")
	}
	l.conn.lookAtPipelines()
	l.conn.lookAtPipelines() // between the two it has begun nothing
	for i := 1; i <= aheadLimit; i++ {
		if err := l.result(i); !errors.Is(err, backend.ErrNotBegun) {
			t.Errorf("batch %d: %v", i, err)
		}
		if p := l.told[i]; p.waits.Load() != 1 || p.begins.Load() != 0 || p.recalled.Load() != 1 {
			t.Errorf("batch %d: waited %d times, begun %d, recalled %d", i, p.waits.Load(), p.begins.Load(), p.recalled.Load())
		}
	}
	// A hostile worker answers it all the same, and says so twice: it is nobody's.
	l.answer(1)
	l.sendBody(wire.KindNotBegun, l.headers[2].ID, nil)
	if l.begin(2) {
		t.Error("the worker may run what was taken back")
	}
	l.word(0).Store(l.headers[0].ID)
	l.answer(0)
	if err := l.result(0); err != nil || l.told[0].waits.Load() != 0 {
		t.Errorf("the first one: %v, waited %d times", err, l.told[0].waits.Load())
	}
	if got := l.asked[0].await(t); got == nil || got.Err != nil {
		t.Errorf("answered %+v", got)
	}
	for _, i := range []int{1, 2} {
		select {
		case <-l.asked[i].done:
			t.Errorf("batch %d was answered", i)
		default:
		}
	}
	// What is sent later is not recalled.
	l.put()
	if !l.begin(1 + aheadLimit) {
		t.Fatal("a later one is recalled")
	}
	l.answer(1 + aheadLimit)
	if err := l.result(1 + aheadLimit); err != nil {
		t.Error(err)
	}
}

// A batch ends the waiting of the next one.
func TestTheNextBatchHasBegunWhenTheLastHasEnded(t *testing.T) {
	l := newLine(t, 2)
	l.answer(0)
	if err := l.result(0); err != nil {
		t.Fatal(err)
	}
	if p := l.told[1]; p.waits.Load() != 1 || p.begins.Load() != 1 {
		t.Errorf("waited %d times, begun %d", p.waits.Load(), p.begins.Load())
	}
	l.answer(1)
	if err := l.result(1); err != nil {
		t.Error(err)
	}
}

// A batch whose model answers later makes room, and the next one is begun before
// it ends.
func TestFreedBatch(t *testing.T) {
	l := newLine(t, 2)
	l.word(0).Store(l.headers[1].ID)
	l.sendBody(wire.KindFree, l.headers[0].ID, nil)
	l.answer(1)
	if err := l.result(1); err != nil {
		t.Error(err)
	}
	if l.told[0].frees.Load() != 1 || l.told[1].begins.Load() != 1 {
		t.Errorf("freed %d times, the next one begun %d times", l.told[0].frees.Load(), l.told[1].begins.Load())
	}
	l.answer(0)
	if err := l.result(0); err != nil {
		t.Error(err)
	}
}

// Both sides have seen the other's word: the server takes the batch for begun
// until it hears that it was not.
func TestNotBegunAfterAll(t *testing.T) {
	l := newLine(t, 2)
	l.conn.mu.Lock()
	taken := l.conn.state.work.recall([]*Instance{l.inst})
	l.conn.mu.Unlock()
	if l.begin(1) {
		t.Fatal("not recalled")
	}
	l.conn.takeBack(taken) // both are begun, it seems
	l.sendBody(wire.KindNotBegun, l.headers[1].ID, nil)
	if err := l.result(1); !errors.Is(err, backend.ErrNotBegun) {
		t.Errorf("got %v", err)
	}
	l.answer(0)
	if err := l.result(0); err != nil {
		t.Error(err)
	}
}

// What is recalled after a fence does not come back by that one: the worker may
// have begun it, unseen.
func TestEachRecallHasItsFence(t *testing.T) {
	l := newLine(t, 2)
	l.begin(0)
	recall := func() []recall {
		l.conn.mu.Lock()
		defer l.conn.mu.Unlock()
		return l.conn.state.work.recall([]*Instance{l.inst})
	}
	first := recall()
	l.put()
	second := recall()
	l.conn.takeBack(first)
	if err := l.result(1); !errors.Is(err, backend.ErrNotBegun) {
		t.Errorf("got %v", err)
	}
	l.conn.mu.Lock() // the batches that come back do so together
	if n := l.inst.pipeline.Len(); n != 2 {
		t.Errorf("%d batches are left, want the first and the last one", n)
	}
	l.conn.mu.Unlock()
	l.conn.takeBack(second)
	if err := l.result(2); !errors.Is(err, backend.ErrNotBegun) {
		t.Errorf("got %v", err)
	}
	l.answer(0)
	if err := l.result(0); err != nil {
		t.Error(err)
	}
}

// A dead worker takes along only what it had begun.
func TestDeathGivesBackWhatWasNotBegun(t *testing.T) {
	l := newLine(t, 4)
	l.begin(1) // the first one's answer is on its way
	_ = l.ctrl.Close()
	_ = l.fds.Close()
	for i := range 4 {
		err := l.result(i)
		if back := errors.Is(err, backend.ErrNotBegun); err == nil || back != (i > 1) {
			t.Errorf("batch %d: %v", i, err)
		}
	}
}

// The end of a context recalls what was not begun at once.
func TestInterruptedLine(t *testing.T) {
	l := newLine(t, 1)
	l.begin(0)
	ctx, cancel := context.WithCancel(t.Context())
	a := newAnswers()
	done := l.execute(ctx, l.inst, request(a, fp32("IN", tensor.Shape{1, 2})))
	l.taken()
	cancel()
	if err := <-done; !errors.Is(err, backend.ErrNotBegun) {
		t.Errorf("got %v", err)
	}
	l.answer(0)
	if err := l.result(0); err != nil {
		t.Error(err)
	}
}

func TestHostileNotBegun(t *testing.T) {
	for name, c := range map[string]struct {
		before func(l *line)
		want   string
	}{
		"not recalled": {func(*line) {}, "the batch was not recalled"},
		"answered": {func(l *line) {
			l.conn.mu.Lock()
			l.conn.state.work.recall([]*Instance{l.inst})
			l.conn.mu.Unlock()
			l.send(l.enc.AppendResponses(nil, wire.KindResponses, 0, l.headers[0].ID, 0,
				[]wire.Outgoing{{Handle: l.handles[0], Flags: wire.ResponseFinal}}))
		}, "the batch was answered"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t, 1)
			l.begin(0)
			c.before(l)
			l.sendBody(wire.KindNotBegun, l.headers[0].ID, nil)
			err := l.result(0)
			if err == nil || errors.Is(err, backend.ErrNotBegun) || !strings.Contains(l.conn.Err().Error(), c.want) {
				t.Errorf("got %v, the connection %v", err, l.conn.Err())
			}
		})
	}
}

// A worker that answers what it has not begun keeps it: nothing is run that has
// an answer.
func TestAnsweredButNotBegun(t *testing.T) {
	l := newLine(t, 2)
	l.begin(0)
	l.send(l.enc.AppendResponses(nil, wire.KindResponses, 0, l.headers[1].ID, 0,
		[]wire.Outgoing{{Handle: l.handles[1], Flags: wire.ResponseFinal}}))
	if got := l.asked[1].await(t); got == nil || got.Err != nil {
		t.Fatalf("answered %+v", got)
	}
	_ = l.ctrl.Close()
	_ = l.fds.Close()
	for i := range 2 {
		if err := l.result(i); err == nil || errors.Is(err, backend.ErrNotBegun) {
			t.Errorf("batch %d: %v", i, err)
		}
	}
}
