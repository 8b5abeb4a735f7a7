package instance

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/stats"
	"github.com/nesoserve/neso/tensor"
)

// hanging is a model whose first instance executes until release is closed,
// deaf to its context unless heeds is set; later instances answer at once.
type hanging struct {
	fake
	heeds   bool
	release chan struct{}

	mu           sync.Mutex
	made, closed int
	failing      int // so many instances after the first cannot be made
}

type hangingInstance struct {
	m     *hanging
	hangs bool
}

func (m *hanging) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made++
	if m.made > 1 && m.failing > 0 {
		m.failing--
		return nil, backend.Errorf(backend.Internal, "no memory")
	}
	return &hangingInstance{m, m.made == 1}, nil
}

func (m *hanging) count() (made, closed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made, m.closed
}

func (i *hangingInstance) Execute(ctx context.Context, b *backend.Batch) error {
	if i.hangs {
		var done <-chan struct{}
		if i.m.heeds {
			done = ctx.Done()
		}
		select {
		case <-i.m.release:
		case <-done:
			i.hangs = false
			return ctx.Err()
		}
	}
	for _, r := range b.Requests {
		_ = r.Respond(&backend.Response{}, true) // the late one is refused
	}
	return nil
}

func (i *hangingInstance) Close() error {
	i.m.mu.Lock()
	defer i.m.mu.Unlock()
	i.m.closed++
	return nil
}

// patrol looks at the pool until the test ends.
func patrol(t *testing.T, p *Pool) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, 100*time.Millisecond) {
			p.Watch(backend.Now())
		}
	}()
	return func() { cancel(); <-done }
}

// executeOne runs one request as a scheduler does, with room of its own.
func executeOne(t *testing.T, p *Pool) (*drop, *infer.Request) {
	t.Helper()
	i, err := p.Acquire(t.Context(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	sink := &drop{}
	r := request(sink, 1)
	p.ExecuteOne(i, r)
	p.Release(i)
	return sink, r
}

// A backend that ignores its interruption is abandoned: the request is answered,
// another instance takes over, and what the request holds stays until the
// backend comes back.
func TestHungInstanceIsReplaced(t *testing.T) {
	for name, failing := range map[string]int{"at once": 0, "after failures": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &hanging{release: make(chan struct{}), failing: failing}
				p := openHanging(t, m)
				stop := patrol(t, p)
				defer stop()
				var released noted
				buf := tensor.NewBuffer(make([]byte, 1), &released)
				sink := &drop{}
				r := request(sink, 1, tensor.Tensor{Name: "A", Datatype: tensor.Uint8, Shape: tensor.Shape{1}, Buffer: buf, Data: buf.Bytes()})
				abandoned := 0
				r.OnAbandoned = func(*infer.Request) { abandoned++ }
				i, _ := p.TryAcquire()
				begin := time.Now()
				p.ExecuteOne(i, r)
				took := time.Since(begin)
				p.Release(i)
				if len(sink.errs) != 1 || !strings.Contains(sink.errs[0].Message, "instance-hang-timeout") ||
					!strings.Contains(sink.errs[0].Message, "m_0_0") {
					t.Fatalf("answers %v", sink.errs)
				}
				if took < time.Second || took > time.Second+grace+time.Second {
					t.Errorf("answered after %v", took)
				}
				if abandoned != 1 || released.Load() {
					t.Errorf("abandoned %d times, inputs released: %v", abandoned, released.Load())
				}
				if sink, _ := executeOne(t, p); len(sink.errs) != 0 {
					t.Errorf("the new instance answered %v", sink.errs)
				}
				if h := p.Health(); h.Hangs != 1 || h.Replacing != 0 {
					t.Errorf("health %+v", h)
				}
				if made, closed := m.count(); made != 2+failing || closed != 0 {
					t.Errorf("%d made, %d closed, want %d and none", made, closed, 2+failing)
				}
				close(m.release)
				synctest.Wait()
				if _, closed := m.count(); closed != 1 || !released.Load() {
					t.Errorf("after it came back: %d closed, inputs released: %v", closed, released.Load())
				}
				if len(sink.errs) != 1 {
					t.Errorf("a second answer: %v", sink.errs)
				}
			})
		})
	}
}

func openHanging(t *testing.T, m *hanging) *Pool {
	t.Helper()
	return open(t, Options{
		Model: m, Stats: stats.NewVersion(nil), Instances: []backend.InstanceConfig{{Name: "m_0_0"}},
		Settings: Settings{HangTimeout: time.Second},
	})
}

// An instance that heeds its interruption is kept.
func TestInterruptedInstanceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &hanging{heeds: true, release: make(chan struct{})}
		p := openHanging(t, m)
		stop := patrol(t, p)
		defer stop()
		if sink, _ := executeOne(t, p); len(sink.errs) != 1 || !strings.Contains(sink.errs[0].Message, "no progress for 1s") {
			t.Errorf("answers %v", sink.errs)
		}
		if sink, _ := executeOne(t, p); len(sink.errs) != 0 {
			t.Errorf("afterwards: %v", sink.errs)
		}
		if made, closed := m.count(); made != 1 || closed != 0 {
			t.Errorf("%d made, %d closed", made, closed)
		}
	})
}

// A pool that is being closed makes no instance anew.
func TestCloseEndsTheReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &hanging{release: make(chan struct{}), failing: 1 << 30}
		p := openHanging(t, m)
		stop := patrol(t, p)
		sink, _ := executeOne(t, p)
		if len(sink.errs) != 1 {
			t.Fatal(sink.errs)
		}
		time.Sleep(time.Minute) // of fake time: it goes on failing
		if h := p.Health(); h.Replacing != 1 || h.Stuck != 1 {
			t.Errorf("health %+v", h)
		}
		stop()
		close(m.release)
		synctest.Wait()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, closed := m.count(); closed != 1 {
			t.Errorf("%d closed", closed)
		}
	})
}

// streaming is a decoupled model that responds for longer than the timeout, to a
// client that is slow.
type streaming struct{ fake }

func (streaming) NewInstance(context.Context, backend.InstanceConfig) (backend.Instance, error) {
	return streamer{}, nil
}

type streamer struct{ instanceOf }

func (streamer) Execute(_ context.Context, b *backend.Batch) error {
	for range 5 {
		time.Sleep(700 * time.Millisecond)
		if err := b.Requests[0].Respond(&backend.Response{}, false); err != nil {
			return err
		}
	}
	return b.Requests[0].Respond(nil, true)
}

type slowReader struct {
	drop
	read, ended int
}

func (s *slowReader) Deliver(r *infer.Request, resp *backend.Response, final bool) {
	s.drop.Deliver(r, resp, false)
	if resp != nil {
		s.read++
	}
	if final {
		s.ended++
		return
	}
	time.Sleep(10 * time.Second)
}

// Responses are progress, and a client that is slow to read them is no fault of
// the instance.
func TestStreamsAreProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := Open(t.Context(), Options{
			Model: streaming{}, Stats: stats.NewVersion(nil), Instances: []backend.InstanceConfig{{Name: "m_0_0"}},
			Settings:  Settings{HangTimeout: time.Second},
			Decoupled: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := patrol(t, p)
		sink := &slowReader{}
		p.ExecuteOne(0, request(sink, 1))
		stop()
		if len(sink.errs) != 0 || sink.read != 5 || sink.ended != 1 || p.Health().Hangs != 0 {
			t.Errorf("errors %v, %d read, %d ends, health %+v", sink.errs, sink.read, sink.ended, p.Health())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Without a timeout a quiet instance is reported and otherwise left alone.
func TestQuietInstanceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPool(t, Options{}, 1, func(b *backend.Batch) error {
			<-release
			return b.Requests[0].Respond(&backend.Response{}, true)
		})
		sink := &drop{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.ExecuteOne(0, request(sink, 1))
		}()
		stop := patrol(t, p)
		time.Sleep(quietReport / 2)
		if h := p.Health(); h.Stuck != 0 {
			t.Errorf("too early: %+v", h)
		}
		time.Sleep(quietReport)
		if h := p.Health(); h.Stuck != 1 || h.Hangs != 0 {
			t.Errorf("health %+v", h)
		}
		close(release)
		<-done
		time.Sleep(time.Second)
		if h := p.Health(); h.Stuck != 0 || len(sink.errs) != 0 {
			t.Errorf("afterwards %+v, %v", h, sink.errs)
		}
		stop()
	})
}

// noted is set when its buffer is let go.
type noted struct{ atomic.Bool }

func (n *noted) ReleaseBuffer(*tensor.Buffer) { n.Store(true) }
