package worker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/channel"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// fakeWorker is the other end of a connection, driven by a test.
type fakeWorker struct {
	t    *testing.T
	conn *Conn
	ctrl *os.File
	fds  *os.File
	rd   wire.Reader
	enc  wire.Encoder
	maps map[uint32][]byte
	bell *os.File
	// open are the marks that the fake GPU driver looks for, of what it has open
	// there.
	open     map[uint32]string
	onDevice func(number uint32, size uint64, rest []byte)
}

type placeFunc func(*tensor.Tensor) wire.Place

func (f placeFunc) Put(of []tensor.Tensor, i int) wire.Place { return f(&of[i]) }

var inline = placeFunc(func(*tensor.Tensor) wire.Place { return wire.Place{Segment: wire.InlineSegment} })

func newFake(t *testing.T, host backend.Host) *fakeWorker {
	t.Helper()
	return newFakeWith(t, ConnOptions{Host: host})
}

func newFakeWith(t *testing.T, opts ConnOptions) *fakeWorker {
	t.Helper()
	opts.Grace = 50 * time.Millisecond
	control, theirs, err := channel.NewPair("control")
	if err != nil {
		t.Fatal(err)
	}
	descriptors, theirDescriptors, err := channel.NewPair("descriptors")
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewConn(channel.Ends{Control: control, Descriptors: descriptors}, opts)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeWorker{
		t: t, conn: c, ctrl: theirs, fds: theirDescriptors, rd: wire.NewReader(theirs, nil, nil), maps: map[uint32][]byte{},
		open: map[uint32]string{},
	}
	t.Cleanup(func() {
		_ = f.ctrl.Close()
		_ = f.fds.Close()
		c.Close()
		f.rd.Close()
		for _, m := range f.maps {
			segment.Unmap(m)
		}
		if f.bell != nil {
			_ = f.bell.Close()
		}
	})
	return f
}

// next returns the next frame that is not RELEASE or SEGMENT; those are
// handled as a worker does.
func (f *fakeWorker) next(kind wire.Kind) (wire.Header, []byte) {
	f.t.Helper()
	for {
		h, body, err := f.rd.Next()
		if err != nil {
			f.t.Fatalf("waiting for %s: %v", kind, err)
		}
		if h.Kind == wire.KindSegment {
			f.segment(body)
		}
		if h.Kind != kind {
			if h.Kind == wire.KindSegment || h.Kind == wire.KindRelease {
				continue
			}
			f.t.Fatalf("got %s, want %s", h.Kind, kind)
		}
		return h, append([]byte(nil), body...)
	}
}

// wrote waits until nobody writes: who has written a frame that is here already
// may stand still before it looks what else there is to write, for longer than
// the grace of a cancelled batch.
func (f *fakeWorker) wrote() {
	writing := func() bool {
		f.conn.mu.Lock()
		defer f.conn.mu.Unlock()
		return f.conn.state.out.writing
	}
	for writing() {
		time.Sleep(time.Millisecond)
	}
}

func (f *fakeWorker) segment(body []byte) {
	f.t.Helper()
	number, kind, size, err := wire.DecodeSegment(body)
	if err != nil {
		f.t.Fatal(err)
	}
	if kind == wire.SegmentDevice || kind == wire.SegmentDeviceLent {
		f.onDevice(number, size, body[16:])
		return
	}
	file, err := channel.ReceiveFile(f.fds)
	if err != nil {
		f.t.Fatal(err)
	}
	if kind == wire.SegmentBell {
		f.bell = file
		return
	}
	defer file.Close()
	m, err := segment.Map(file, int(size), kind != wire.SegmentLent)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := file.Truncate(0); err == nil {
		f.t.Error("the worker can shrink a segment")
	}
	f.maps[number] = m
}

func (f *fakeWorker) send(frame []byte, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.fds.Write(frame); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeWorker) sendBody(kind wire.Kind, id uint64, body []byte) {
	f.t.Helper()
	f.send(wire.AppendFrame(nil, kind, 0, id, body))
}

// grow asks for output memory and returns its number.
func (f *fakeWorker) grow(n uint64) uint32 {
	f.t.Helper()
	f.sendBody(wire.KindGrow, 1, binary.LittleEndian.AppendUint64(nil, n))
	_, body := f.next(wire.KindSegment)
	number, _, _, _ := wire.DecodeSegment(body)
	return number
}

// answers is a Responder that keeps what it is given.
type answers struct {
	mu        sync.Mutex
	got       []*backend.Response
	done      chan struct{}
	cancelled bool
	block     chan struct{}
}

func (a *answers) Respond(resp *backend.Response, final bool) error {
	if a.block != nil {
		<-a.block
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if resp != nil {
		a.got = append(a.got, resp)
	}
	if final {
		close(a.done)
	}
	return nil
}

func (a *answers) Cancelled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cancelled
}

func newAnswers() *answers { return &answers{done: make(chan struct{})} }

func fp32(name string, shape tensor.Shape) tensor.Tensor {
	n, _ := shape.Elements()
	return tensor.Tensor{Name: name, Datatype: tensor.FP32, Shape: shape, Data: make([]byte, 4*n)}
}

// execute starts one batch and returns the channel of its result.
func (f *fakeWorker) execute(ctx context.Context, inst *Instance, requests ...*backend.Request) chan error {
	f.t.Helper()
	b := &backend.Batch{Requests: requests}
	for _, r := range requests {
		b.Size += max(1, r.BatchSize)
	}
	if inst.Gather {
		b.Inputs = []tensor.Tensor{fp32("IN", tensor.Shape{int64(b.Size), 2})}
	}
	result := make(chan error, 1)
	go func() {
		err := inst.Execute(ctx, b)
		for _, o := range requests {
			a := o.Responder.(*answers)
			select {
			case <-a.done:
			default:
				if err != nil {
					_ = o.Respond(&backend.Response{Err: backend.AsError(err)}, true)
				}
			}
		}
		result <- err
	}()
	return result
}

func (f *fakeWorker) instance(edit func(*Instance)) *Instance {
	arena := segment.NewArena(nil, segment.DefaultInlineLimit, 0)
	f.t.Cleanup(arena.Close)
	i := Instance{
		Name: "m_0_0", Tables: wire.Tables{Inputs: []string{"IN"}, Outputs: []string{"OUT", "TEXT"}}, Arena: arena,
		InlineLimit: segment.DefaultInlineLimit,
	}
	if edit != nil {
		edit(&i)
	}
	return f.conn.Attach(i)
}

func request(a *answers, inputs ...tensor.Tensor) *backend.Request {
	return &backend.Request{Inputs: inputs, Responder: a, Requested: []string{"OUT", "TEXT"}, Ctx: context.Background()}
}

// fakeHost is a server with one model.
type fakeHost struct {
	infer   func(*backend.Request) error
	metrics map[string]float64
	loaded  []string
	mu      sync.Mutex
}

func (h *fakeHost) Allocator() tensor.Allocator            { return nil }
func (h *fakeHost) Logger() *slog.Logger                   { return slog.New(slog.DiscardHandler) }
func (h *fakeHost) Infer(r *backend.Request) error         { return h.infer(r) }
func (h *fakeHost) Ready(model string, version int64) bool { return model == "there" && version == -1 }

func (h *fakeHost) Load(_ context.Context, model, _ string, files map[string][]byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loaded = append(h.loaded, model+string(files["file:1/x"]))
	return nil
}

func (h *fakeHost) Unload(context.Context, string, bool) error { return errors.New("no such model") }

func (h *fakeHost) Activity(trace, name string, _ int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loaded = append(h.loaded, trace+name)
}

func (h *fakeHost) Document(q backend.Question) ([]byte, error) {
	if q.Model == "secret" {
		return nil, backend.Errorf(backend.NotFound, "no such model")
	}
	return json.Marshal(q)
}

func (h *fakeHost) MetricFamily(f backend.MetricFamily) (func(), error) {
	if f.Name == "taken" {
		return nil, errors.New("another kind")
	}
	return func() { h.metrics["families released"]++ }, nil
}

func (h *fakeHost) Metric(f backend.MetricFamily, _ map[string]string) (backend.Metric, error) {
	return &fakeMetric{h, f.Name}, nil
}

type fakeMetric struct {
	h    *fakeHost
	name string
}

func (m *fakeMetric) Increment(v float64) error { m.h.metrics[m.name] += v; return nil }
func (m *fakeMetric) Set(float64) error         { return errors.New("a counter cannot be set") }
func (m *fakeMetric) Observe(float64) error     { return nil }
func (m *fakeMetric) Value() (float64, error)   { return m.h.metrics[m.name], nil }
func (m *fakeMetric) Release()                  { m.h.metrics["released"]++ }

// taken takes the next EXECUTE.
func (f *fakeWorker) taken() (wire.Header, []wire.RequestBlock) {
	f.t.Helper()
	h, body := f.next(wire.KindExecute)
	blocks, err := wire.DecodeExecute(body)
	if err != nil {
		f.t.Fatal(err)
	}
	return h, blocks
}

func (f *fakeWorker) call(kind wire.Kind, id uint64, v any) (wire.Kind, map[string]any) {
	f.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		f.t.Fatal(err)
	}
	f.sendBody(kind, id, text)
	h, body, err := f.rd.Next()
	if err != nil || h.ID != id {
		f.t.Fatalf("answer %d to call %d: %v", h.ID, id, err)
	}
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		f.t.Fatal(err)
	}
	return h.Kind, out
}
