//go:build (amd64 || arm64) && !nopurego

package worker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// fakeDriver builds the fake GPU driver, once.
var fakeDriver = sync.OnceValues(func() (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", nil //nolint:nilerr // the tests are skipped
	}
	dir, err := os.MkdirTemp("", "neso-fakecuda-")
	if err != nil {
		return "", err
	}
	scratch = dir
	library := filepath.Join(dir, "libcuda.so.1")
	out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-pthread", "-o", library,
		"../../../internal/cuda/testdata/fakecuda.c").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return library, nil
})

// gpus is a machine with two GPUs, as a test has it.
type gpus struct {
	t    *testing.T
	pool *segment.DevicePool
	dir  string // what the processes share
}

func gpu(n int) tensor.GPU { return tensor.GPU(fmt.Appendf(nil, "neso-fake-gpu-%02d", n)) }

// newGPUs returns a pool on them. At the end nothing may be left, and nothing
// may have happened that a real driver would have made undefined.
func newGPUs(t *testing.T, limits map[int]int64) *gpus {
	t.Helper()
	return newGPUsWith(t, segment.DeviceOptions{Limits: limits})
}

func newGPUsWith(t *testing.T, opts segment.DeviceOptions) *gpus {
	t.Helper()
	library, err := fakeDriver()
	if err != nil {
		t.Fatal(err)
	}
	if library == "" {
		t.Skip("there is no C compiler for the fake driver")
	}
	opts.Library = library
	g := &gpus{t: t, dir: t.TempDir()}
	t.Setenv("FAKE_CUDA", g.dir)
	t.Setenv("FAKE_CUDA_COUNT", "2")
	g.pool = segment.NewDevicePool(opts)
	t.Cleanup(func() {
		g.pool.Close()
		if n := g.count("fault"); n > 0 {
			t.Errorf("%d faults:\n%s", n, g.log())
		}
		if left, _ := filepath.Glob(filepath.Join(g.dir, "mem-*")); len(left) > 0 {
			t.Errorf("not freed: %v", left)
		}
		if h := g.pool.Holdings(); h != (segment.Holdings{Opened: h.Opened}) {
			t.Errorf("left are %+v", h)
		}
	})
	return g
}

func (g *gpus) log() string {
	text, _ := os.ReadFile(filepath.Join(g.dir, "log"))
	return string(text)
}

// count returns how often the driver did something.
func (g *gpus) count(what string) (n int) {
	for line := range strings.Lines(g.log()) {
		if _, rest, _ := strings.Cut(line, " "); strings.HasPrefix(rest, what) {
			n++
		}
	}
	return n
}

// set makes the driver fail, or wait in, a function, until unset.
func (g *gpus) set(name, value string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(value), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gpus) unset(name string) { _ = os.Remove(filepath.Join(g.dir, name)) }

// until waits for what another process, or the driver, has to do.
func (g *gpus) until(what string, is func() bool) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatalf("%s does not come:\n%s", what, g.log())
		}
	}
}

// worker is one that sees GPUs; none is a worker that says nothing of them.
func (g *gpus) worker(host backend.Host, sees ...tensor.GPU) *fakeWorker {
	g.t.Helper()
	var f *fakeWorker
	f = newFakeWith(g.t, ConnOptions{Host: host, Devices: g.pool, Cause: func(err error) *backend.Error {
		f.kill() // as a Session does
		return backend.AsError(err)
	}})
	f.onDevice = f.deviceSegment
	f.sendBody(wire.KindHello, 0, []byte(`{"pid":1,"protocol":1,"lent":true}`))
	if len(sees) > 0 {
		body := binary.LittleEndian.AppendUint32(nil, uint32(len(sees)))
		for _, s := range sees {
			body = append(body, s[:]...)
		}
		f.sendBody(wire.KindDevices, 0, body)
		g.until("DEVICES", func() bool { return f.conn.seesDevice(sees[0]) })
	}
	if _, err := f.conn.Hello(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	return f
}

// lockedBuffer is what a logger writes to while a test reads.
type lockedBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

func takes(i *Instance) { i.TakesDevice = true }

// deviceSegment opens the memory that a handle names, as the driver does in
// another process.
func (f *fakeWorker) deviceSegment(number uint32, size uint64, rest []byte) {
	f.t.Helper()
	name := string(bytes.TrimRight(rest[16:], "\x00"))
	dir := os.Getenv("FAKE_CUDA")
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	m, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.t.Fatal(err)
	}
	mark := filepath.Join(dir, fmt.Sprintf("open-%s-%d.%p", name, os.Getpid(), f))
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		f.t.Fatal(err)
	}
	f.maps[number], f.open[number] = m, mark
}

// kill ends the worker's process, which has nothing open after that.
func (f *fakeWorker) kill() {
	marks, _ := filepath.Glob(filepath.Join(os.Getenv("FAKE_CUDA"), fmt.Sprintf("open-*.%p", f)))
	for _, mark := range marks {
		_ = os.Remove(mark)
	}
}

// die is a death that the server notices.
func (f *fakeWorker) die() {
	_, _ = f.ctrl.Close(), f.fds.Close()
	<-f.conn.Done()
}

func growBody(n uint64, on tensor.GPU) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, n), on[:]...)
}

// growDevice asks for memory on a GPU and returns its number.
func (f *fakeWorker) growDevice(n uint64, on tensor.GPU) uint32 {
	f.t.Helper()
	f.sendBody(wire.KindGrow, 1, growBody(n, on))
	_, body := f.next(wire.KindSegment)
	number, kind, size, err := wire.DecodeSegment(body)
	if err != nil || kind != wire.SegmentDevice || size < n || number < wire.FirstOutputSegment || tensor.GPU(body[16:32]) != on {
		f.t.Fatalf("segment %d of kind %d with %d bytes, %v", number, kind, size, err)
	}
	return number
}

// refused asks for memory on a GPU and returns why there is none.
func (f *fakeWorker) refused(n uint64, on tensor.GPU) string {
	f.t.Helper()
	f.sendBody(wire.KindGrow, 9, growBody(n, on))
	h, body := f.next(wire.KindFailed)
	if h.ID != 9 {
		f.t.Fatalf("FAILED of %d", h.ID)
	}
	return string(body)
}

// onGPU writes bytes to a GPU and returns the server's tensor of them.
func (f *fakeWorker) onGPU(segment uint32, offset uint64, data []byte) tensor.Tensor {
	f.t.Helper()
	copy(f.maps[segment][offset:], data)
	buf, err := f.conn.mem.View(segment, offset, uint64(len(data)))
	if err != nil {
		f.t.Fatal(err)
	}
	t := tensor.Tensor{Name: "IN", Datatype: tensor.Uint8, Shape: tensor.Shape{int64(len(data))}, Buffer: buf}
	if !t.OnDevice() || t.Size() != len(data) {
		f.t.Fatalf("%+v", t)
	}
	return t
}

// answer ends the batch of one request with outputs that lie on a GPU, or with
// none.
func (f *fakeWorker) answer(h wire.Header, handle uint64, flags uint32, places []wire.Place, outputs ...tensor.Tensor) {
	f.t.Helper()
	indices := make([]int, len(outputs))
	f.send(f.enc.AppendResponses(nil, wire.KindResponses, 0, h.ID, wire.FlagEnds, []wire.Outgoing{{
		Handle: handle, Flags: wire.ResponseFinal | flags, Outputs: outputs, Indices: indices, Places: places,
	}}))
}

// drop takes the next DROP and does what a worker has to.
func (f *fakeWorker) drop() uint32 {
	f.t.Helper()
	_, body := f.next(wire.KindDrop)
	number, err := wire.DecodeDrop(body)
	if err != nil || f.open[number] == "" {
		f.t.Fatalf("dropped %d, %v", number, err)
	}
	_ = os.Remove(f.open[number])
	delete(f.open, number)
	f.sendBody(wire.KindDropped, 0, body)
	return number
}

func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i>>8)
	}
	return data
}

// TestDeviceTensor: what one worker has on a GPU another reads there, whoever
// brings the request, and the first gets its block back when the other has let
// go of it. Nothing is copied to the host.
func TestDeviceTensor(t *testing.T) {
	g := newGPUs(t, nil)
	two := g.worker(nil, gpu(0), gpu(1))
	one := g.worker(nil, gpu(1)) // its GPU has another number than the server's
	number := one.growDevice(1<<20, gpu(1))
	data := pattern(1 << 20)

	first := one.instance(nil)
	a := newAnswers()
	r := request(a)
	r.TakesDevice = func(on tensor.GPU) bool { return on == gpu(1) }
	done := one.execute(t.Context(), first, r)
	h, handle, _ := one.inputs()
	copy(one.maps[number][4096:], data)
	out := one.onGPU(number, 4096, data)
	one.answer(h, handle, 0, []wire.Place{{Segment: number, Offset: 4096}}, out)
	out.Release()
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	<-a.done
	in := a.got[0].Outputs[0]
	if !in.OnDevice() || in.Data != nil || in.Device().GPU() != gpu(1) || in.Size() != len(data) {
		t.Fatalf("%+v", in)
	}

	in.Name = "IN"
	for round := range 2 { // the segment is known at the second
		last := round == 1
		inst := two.instance(takes)
		done = two.execute(t.Context(), inst, request(newAnswers(), in))
		h, handle, inputs := two.inputs()
		e := inputs[0]
		if e.Segment != wire.FirstLentSegment || e.Offset != 4096 || e.Length != uint64(len(data)) || !bytes.Equal(two.read(&e), data) {
			t.Fatalf("%+v", e)
		}
		two.answer(h, handle, wire.ResponseRetained, nil)
		if err := result(t, done); err != nil {
			t.Fatal(err)
		}
		if n := in.Buffer.References(); n != 2 {
			t.Errorf("%d references while the worker keeps it", n)
		}
		if last {
			in.Release()
		}
		two.send(wire.AppendRelease(nil, []wire.Block{{Segment: e.Segment, Offset: e.Offset}}), nil)
	}
	_, body := one.next(wire.KindRelease) // two blocks: the view of onGPU is one
	if err := wire.DecodeRelease(body, func(k wire.Block) {
		if k != (wire.Block{Segment: number, Offset: 4096}) {
			t.Errorf("released %+v", k)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if n := g.count("dtoh"); n != 0 {
		t.Errorf("%d copies to the host", n)
	}
	one.die()
	if got := two.drop(); got != wire.FirstLentSegment {
		t.Errorf("dropped %d", got)
	}
	g.until("free", func() bool { return g.count("free") == 1 })
}

// TestDeviceAnswer: the answer to a call stays on its GPU if the caller has said
// that it takes it there, and is bytes otherwise.
func TestDeviceAnswer(t *testing.T) {
	g := newGPUs(t, nil)
	one := g.worker(nil, gpu(0))
	number := one.growDevice(1<<16, gpu(0))
	data := pattern(1 << 16)
	takes := false
	host := &fakeHost{infer: func(r *backend.Request) error {
		takes = r.TakesDevice != nil && r.TakesDevice(gpu(0))
		return r.Respond(&backend.Response{Outputs: []tensor.Tensor{one.onGPU(number, 0, data)}}, true)
	}}
	for name, c := range map[string]struct {
		flag byte
		sees []tensor.GPU
		want bool
	}{
		"takes it":           {wire.InferDevice, []tensor.GPU{gpu(1), gpu(0)}, true},
		"does not":           {0, []tensor.GPU{gpu(0)}, false},
		"on another GPU":     {wire.InferDevice, []tensor.GPU{gpu(1)}, false},
		"knows of no GPU":    {wire.InferDevice, nil, false},
		"waits for it alone": {wire.InferDevice | wire.InferAlone, []tensor.GPU{gpu(0)}, true},
	} {
		before := g.count("dtoh")
		f := g.worker(host, c.sees...)
		f.instance(nil)
		frame, err := f.enc.AppendInfer(nil, 0, 3, 0, 0, &backend.Request{ModelName: "m", ModelVersion: -1}, nil, inline)
		frame[wire.HeaderSize+1] = c.flag
		f.send(frame, err)
		_, body := f.next(wire.KindInferResponses)
		all, _, err := wire.DecodeResponses(wire.KindInferResponses, body)
		if err != nil {
			t.Fatal(err)
		}
		e := all[0].Entries[0]
		lent := e.Segment >= wire.FirstLentSegment && e.Segment < wire.FirstOutputSegment && f.open[e.Segment] != ""
		if lent != c.want || takes != c.want || !bytes.Equal(f.read(&e), data) || g.count("dtoh")-before != btoi(!c.want) {
			t.Errorf("%s: %+v, asked %v", name, e, takes)
		}
		f.send(wire.AppendRelease(nil, []wire.Block{{Segment: e.Segment, Offset: e.Offset}}), nil)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestDeviceToHost: who does not take a tensor on a GPU gets its bytes.
func TestDeviceToHost(t *testing.T) {
	for _, size := range []int{64, 1 << 16} { // also what would go inline
		for name, takes := range map[string]func(tensor.GPU) bool{
			"a client":    nil,
			"another GPU": func(on tensor.GPU) bool { return on == gpu(1) },
		} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) { outputToHost(t, pattern(size), takes) })
		}
		for name, c := range map[string]struct {
			edit func(*Instance)
			sees []tensor.GPU
		}{
			"an instance that takes none": {nil, []tensor.GPU{gpu(0)}},
			"an instance on another GPU":  {takes, []tensor.GPU{gpu(1)}},
			"a worker without DEVICES":    {takes, nil},
		} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) { inputToHost(t, pattern(size), c.edit, c.sees) })
		}
	}
}

func outputToHost(t *testing.T, data []byte, takes func(tensor.GPU) bool) {
	g := newGPUs(t, nil)
	g.worker(nil, gpu(0))
	one := g.worker(nil)
	number := one.growDevice(uint64(len(data)), gpu(0))
	a := newAnswers()
	r := request(a)
	r.TakesDevice = takes
	done := one.execute(t.Context(), one.instance(nil), r)
	h, handle, _ := one.inputs()
	out := one.onGPU(number, 0, data)
	one.answer(h, handle, 0, []wire.Place{{Segment: number}}, out)
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if got := a.got[0].Outputs[0]; got.OnDevice() || !bytes.Equal(got.Data, data) || g.count("dtoh") != 1 {
		t.Errorf("%d bytes, %d copies", len(got.Data), g.count("dtoh"))
	}
	a.got[0].Release()
	out.Release()
}

func inputToHost(t *testing.T, data []byte, edit func(*Instance), sees []tensor.GPU) {
	g := newGPUs(t, nil)
	one := g.worker(nil, gpu(0))
	in := one.onGPU(one.growDevice(uint64(len(data)), gpu(0)), 0, data)
	two := g.worker(nil, sees...)
	done := two.execute(t.Context(), two.instance(edit), request(newAnswers(), in))
	h, handle, inputs := two.inputs()
	if e := inputs[0]; e.Segment >= wire.FirstLentSegment || !bytes.Equal(two.read(&e), data) || g.count("dtoh") != 1 {
		t.Errorf("%+v", e)
	}
	two.answer(h, handle, 0, nil)
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	in.Release()
	one.next(wire.KindRelease)
}

// TestDeviceCopyFails: the driver's error is that of the request, and of nothing
// else.
func TestDeviceCopyFails(t *testing.T) {
	g := newGPUs(t, nil)
	one := g.worker(nil, gpu(0))
	number := one.growDevice(1<<16, gpu(0))
	inst := one.instance(nil)
	g.set("fail-cuMemcpyDtoH_v2", "700")
	a := newAnswers()
	done := one.execute(t.Context(), inst, request(a))
	h, handle, _ := one.inputs()
	out := one.onGPU(number, 0, pattern(1<<16))
	one.answer(h, handle, 0, []wire.Place{{Segment: number}}, out)
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if err := a.got[0].Err; err == nil || err.Message != "failed to bring tensor 'OUT' from the GPU: cuMemcpyDtoH_v2: CUDA error 700" {
		t.Errorf("got %v", err)
	}
	done = one.execute(t.Context(), inst, request(newAnswers(), out))
	if err := result(t, done); err == nil || err.Error() != "failed to bring input 'IN' from the GPU: cuMemcpyDtoH_v2: CUDA error 700" {
		t.Errorf("got %v", err)
	}
	g.unset("fail-cuMemcpyDtoH_v2")
	done = one.execute(t.Context(), inst, request(newAnswers(), out))
	h, handle, inputs := one.inputs()
	if !bytes.Equal(one.read(&inputs[0]), pattern(1<<16)) {
		t.Error("other bytes")
	}
	one.answer(h, handle, 0, nil)
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	out.Release()
}

// TestDevicePool: what is granted, and why something is not.
func TestDevicePool(t *testing.T) {
	var log lockedBuffer
	g := newGPUsWith(t, segment.DeviceOptions{Limits: map[int]int64{0: 16 << 20, 1: 0}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	one := g.worker(nil)
	if got := one.refused(1, gpu(0)); !strings.Contains(got, "no model that runs takes tensors on this GPU") {
		t.Error(got)
	}
	if n := g.count("alloc"); n != 0 || g.pool.Holdings().Opened {
		t.Error("the driver was opened")
	}
	g.worker(nil, gpu(0), gpu(1), gpu(7))
	for _, c := range []struct {
		n    uint64
		on   tensor.GPU
		want string
	}{
		{1, gpu(1), "1 bytes on GPU 1: the pool of 0 bytes (cuda-memory-pool-byte-size) has 0 left"},
		{0, gpu(0), "0 bytes on GPU 0"},
		{16<<20 + 1, gpu(0), "has 16777216 left"},
		{1<<64 - 1, gpu(0), "has 16777216 left"},
		{1, gpu(7), "the server sees no GPU with the UUID GPU-6e65736f-2d66-616b-652d-6770752d3037"},
	} {
		if got := one.refused(c.n, c.on); !strings.Contains(got, c.want) {
			t.Errorf("%d: %s", c.n, got)
		}
	}
	for _, f := range []string{"cuDevicePrimaryCtxRetain", "cuMemAlloc_v2", "cuIpcGetMemHandle", "cuCtxPushCurrent_v2"} {
		g.set("fail-"+f, "2")
		if got := one.refused(1, gpu(0)); !strings.Contains(got, f+": CUDA error 2") {
			t.Error(got)
		}
		g.unset("fail-" + f)
	}
	// What is asked, in pages, at least half of what it has, or what is left.
	for i, want := range []int{2 << 20, 8 << 20, 4 << 20, 2 << 20} {
		number := one.growDevice([]uint64{1, 6<<20 + 1, 1, 1}[i], gpu(0))
		if number != wire.FirstOutputSegment+uint32(i) || len(one.maps[number]) != want {
			t.Errorf("segment %d: %d bytes", number, len(one.maps[number]))
		}
	}
	if number := one.grow(1); number != wire.FirstOutputSegment+4 { // one space of numbers
		t.Errorf("segment %d of the host", number)
	}
	if got := one.refused(1, gpu(0)); !strings.Contains(got, "has 0 left") {
		t.Error(got)
	}
	one.die()
	two := g.worker(nil)
	g.until("what was given back", func() bool { return g.count("free") == 1+4 }) // one export failed
	two.growDevice(16<<20, gpu(0))
	// Logged when it begins: after the start, and after what was granted.
	if got := log.String(); strings.Count(got, "tensors between models go through host memory") != 2 ||
		!strings.Contains(got, "(cuda-memory-pool-byte-size) has 0 left") {
		t.Errorf("logged\n%s", got)
	}
}

// TestNoDriver: a machine without a driver, and a worker that may have nothing.
func TestNoDriver(t *testing.T) {
	pool := segment.NewDevicePool(segment.DeviceOptions{Library: "libneso-no-such-driver.so"})
	g := &gpus{t: t, pool: pool}
	one := g.worker(nil, gpu(0))
	if got := one.refused(1, gpu(0)); !strings.Contains(got, "libneso-no-such-driver.so") {
		t.Error(got)
	}
	pool.Close()
	if got := one.refused(1, gpu(0)); !strings.Contains(got, "the server is stopping") {
		t.Error(got)
	}
	two := newFake(t, nil)
	two.sendBody(wire.KindDevices, 0, append([]byte{1, 0, 0, 0}, "neso-fake-gpu-00"...))
	if got := two.refused(1, gpu(0)); !strings.Contains(got, "this worker has no memory on GPUs") {
		t.Error(got)
	}
}
