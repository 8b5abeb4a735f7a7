package wire

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/cuda"
	"github.com/nesoserve/neso/tensor"
)

// Hello is the body of HELLO.
type Hello struct {
	PID      int    `json:"pid"`
	Python   string `json:"python,omitempty"`
	Numpy    string `json:"numpy,omitempty"`
	Protocol int    `json:"protocol"`
	// Lent says that the worker can be given segments of other models to read, and
	// gives them back when it gets DROP.
	Lent bool `json:"lent,omitempty"`
	// Board says that the worker writes down what it begins, see Board.
	Board bool `json:"board,omitempty"`
	// Asks says that the worker's reader does not sleep at once when nothing has come:
	// it asks for the next frame for a moment.
	Asks bool `json:"asks,omitempty"`
}

// LoadBody is the body of LOAD.
type LoadBody struct {
	ModelPath        string          `json:"model_path"`
	ModelDirectory   string          `json:"model_directory"`
	VersionDirectory string          `json:"version_directory"`
	Name             string          `json:"name"`
	Version          int64           `json:"version"`
	Config           json.RawMessage `json:"config"`
	Complete         bool            `json:"complete"`
	Inputs           []string        `json:"inputs"`
	Outputs          []string        `json:"outputs"`
	InlineLimit      int             `json:"inline_limit"`
	// Framework is the backend of a model that no code of the user runs but the
	// worker itself; Settings are those of that backend.
	Framework string            `json:"framework,omitempty"`
	Settings  map[string]string `json:"settings,omitempty"`
}

// InitBody is the body of INIT.
type InitBody struct {
	Args      map[string]string `json:"args"`
	Config    json.RawMessage   `json:"config"`
	Inputs    []string          `json:"inputs"`
	Outputs   []string          `json:"outputs"`
	Decoupled bool              `json:"decoupled"`
	// Window, when above zero, has the worker keep count of what it sends for each
	// request of a decoupled model.
	Window int `json:"window,omitempty"`
	// Copied has the worker copy inputs that others read too, for models that
	// write to them.
	Copied bool `json:"copied,omitempty"`
	// Board is where the instance's words are on the board; nil without.
	Board *int `json:"board,omitempty"`
	// HostPolicy says where the process is to run; nil for anywhere.
	HostPolicy *backend.HostPolicy `json:"host_policy,omitempty"`
}

// FailedBody is the body of FAILED.
type FailedBody struct {
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
	// Code is a backend.Code, which only workers of the server's own code say; 0 is Internal.
	Code int `json:"code,omitempty"`
}

// ForkBody is the body of FORK.
type ForkBody struct {
	Env map[string]string `json:"env"`
	Cwd string            `json:"cwd,omitempty"`
	// Mark is what tells what the child starts, see leftovers_linux.go.
	Mark uint64 `json:"mark,omitempty"`
	// Apart keeps the child from other processes, see apart_linux.go.
	Apart bool `json:"apart,omitempty"`
}

// Block names a block of shared memory.
type Block struct {
	Segment uint32
	Offset  uint64
}

// Numbers of segments. Those that the server makes for inputs begin at 0.
const (
	// FirstOutputSegment is where the numbers of a worker's own segments start, so
	// that one number means one segment whatever its kind.
	FirstOutputSegment = 1 << 31
	// FirstLentSegment is where the numbers of segments of others start. A number
	// is used once, so that a late RELEASE can never mean another segment.
	FirstLentSegment = 1 << 30
	// BoardSegment is the number of the board's segment, BellSegment that of the
	// bell, which is announced as one.
	BoardSegment = FirstOutputSegment - 1
	BellSegment  = BoardSegment - 1
)

// Kinds of segments.
const (
	SegmentInputs  = 0
	SegmentOutputs = 1
	SegmentLent    = 2 // of another model: to read
	// Those on GPUs, which have a handle in place of a descriptor.
	SegmentDevice     = 3 // outputs
	SegmentDeviceLent = 4
	// SegmentBoard is that of the board, which no tensor lies in.
	SegmentBoard = 5
	// SegmentBell is no memory: the descriptor is the end of a pipe to read.
	SegmentBell = 6
)

// AppendSegment appends the SEGMENT of memory whose descriptor is passed beside it.
func AppendSegment(dst []byte, number, kind uint32, size uint64) []byte {
	dst, base := beginFrame(dst, KindSegment, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	dst = binary.LittleEndian.AppendUint32(dst, kind)
	dst = binary.LittleEndian.AppendUint64(dst, size)
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeSegment reads the body of SEGMENT; it is for workers in Go and the tests.
func DecodeSegment(body []byte) (number, kind uint32, size uint64, err error) {
	c := Cursor{kind: KindSegment, body: body}
	number, kind, size = c.u32("number"), c.u32("kind"), c.u64("bytes")
	switch {
	case kind > SegmentBell:
		c.Fail("kind", 4, "%d is unknown", kind)
	case kind == SegmentDevice, kind == SegmentDeviceLent:
		c.take(len(tensor.GPU{})+len(cuda.Handle{}), "device")
	}
	return number, kind, size, c.end()
}

// AppendDeviceSegment appends the SEGMENT of memory on a GPU: what opens it there
// is a handle of the driver's.
func AppendDeviceSegment(dst []byte, number, kind uint32, size uint64, gpu tensor.GPU, handle cuda.Handle) []byte {
	dst, base := beginFrame(dst, KindSegment, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	dst = binary.LittleEndian.AppendUint32(dst, kind)
	dst = binary.LittleEndian.AppendUint64(dst, size)
	dst = append(append(dst, gpu[:]...), handle[:]...)
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeGrow reads the body of GROW: `<Q` bytes, and for memory on a GPU its
// UUID.
func DecodeGrow(body []byte) (need uint64, gpu *tensor.GPU, err error) {
	c := Cursor{kind: KindGrow, body: body}
	need = c.u64("bytes")
	if len(body) > 8 {
		if b := c.take(len(tensor.GPU{}), "device"); b != nil {
			gpu = (*tensor.GPU)(b)
		}
	}
	return need, gpu, c.end()
}

// maxDevices bounds DEVICES.
const maxDevices = 64

// DecodeDevices reads the body of DEVICES: `<I` n, then n UUIDs, of 16 bytes each.
func DecodeDevices(body []byte) ([]tensor.GPU, error) {
	c := Cursor{kind: KindDevices, body: body}
	n := c.u32("count")
	if n > maxDevices {
		c.Fail("count", 0, "%d devices, at most %d", n, maxDevices)
	}
	var gpus []tensor.GPU
	for range n {
		b := c.take(len(tensor.GPU{}), "device")
		if b == nil {
			return nil, c.err
		}
		gpus = append(gpus, tensor.GPU(b))
	}
	return gpus, c.end()
}

// AppendCredit appends a CREDIT frame: so much of the request's responses has
// been taken.
func AppendCredit(dst []byte, instance uint32, handle uint64, taken int) []byte {
	dst, base := beginFrame(dst, KindCredit, instance, handle)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(taken))
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeCredit is for workers in Go and the tests.
func DecodeCredit(body []byte) (int, error) {
	c := Cursor{kind: KindCredit, body: body}
	taken := c.u32("taken")
	return int(taken), c.end()
}

// AppendDrop appends a DROP: the worker is to let go of a segment that it was lent.
func AppendDrop(dst []byte, number uint32) []byte {
	dst, base := beginFrame(dst, KindDrop, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeDropped reads the body of DROPPED.
func DecodeDropped(body []byte) (uint32, error) {
	c := Cursor{kind: KindDropped, body: body}
	number := c.u32("segment")
	return number, c.end()
}

// DecodeDrop reads the body of DROP; it is for workers in Go and the tests.
func DecodeDrop(body []byte) (uint32, error) {
	c := Cursor{kind: KindDrop, body: body}
	number := c.u32("segment")
	return number, c.end()
}

// AppendRelease appends a RELEASE: the other side may use the blocks again.
func AppendRelease(dst []byte, blocks []Block) []byte {
	dst, base := beginFrame(dst, KindRelease, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(blocks)))
	for _, b := range blocks {
		dst = binary.LittleEndian.AppendUint32(dst, b.Segment)
		dst = binary.LittleEndian.AppendUint64(dst, b.Offset)
	}
	dst, _ = endFrame(dst, base)
	return dst
}

// DecodeRelease calls f for every block.
func DecodeRelease(body []byte, f func(Block)) error {
	c := Cursor{kind: KindRelease, body: body}
	n := c.u32("count")
	if c.err == nil && uint64(n)*12 != uint64(len(body)-4) {
		c.Fail("count", 0, "%d blocks in a body of %d bytes", n, len(body))
	}
	for range n {
		if c.err != nil {
			break
		}
		k := Block{Segment: c.u32("segment"), Offset: c.u64("offset")}
		if c.err == nil && f != nil {
			f(k)
		}
	}
	return c.end()
}

// LogRecord is a decoded LOG frame; its byte fields view the frame.
type LogRecord struct {
	Level         uint8
	Line          uint32
	File, Message []byte
}

// Levels of LOG.
const (
	LogInfo uint8 = iota
	LogWarn
	LogError
	LogVerbose
)

// MaxLogMessage is how many bytes of a text AppendLog takes.
const MaxLogMessage = 1 << 20

// AppendLog appends a LOG. Texts that are too long lose their end.
func AppendLog(dst []byte, level uint8, file string, line int, message string) ([]byte, error) {
	file, message = file[:min(len(file), math.MaxUint16)], message[:min(len(message), MaxLogMessage)]
	dst, base := beginFrame(dst, KindLog, 0, 0)
	dst = append(dst, level)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(max(line, 0)))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(file)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(message)))
	dst = append(append(dst, file...), message...)
	return endFrame(dst, base)
}

// DecodeLog reads the body of LOG: the texts view the frame.
func DecodeLog(body []byte) (r LogRecord, err error) {
	c := Cursor{kind: KindLog, body: body}
	if b := c.take(11, "head"); b != nil {
		r.Level, r.Line = b[0], binary.LittleEndian.Uint32(b[1:])
		file, message := binary.LittleEndian.Uint16(b[5:]), binary.LittleEndian.Uint32(b[7:])
		if r.Level > LogVerbose {
			c.Fail("level", 0, "%d is unknown", r.Level)
		}
		r.File, r.Message = c.take(int(file), "file"), c.take(int(message), "message")
	}
	return r, c.end()
}

// DecodeDone reads the body of DONE: both texts view the frame.
func DecodeDone(body []byte) (message, traceback []byte, err error) {
	if len(body) == 0 {
		return nil, nil, nil
	}
	c := Cursor{kind: KindDone, body: body}
	m, t := c.u32("message"), c.u32("traceback")
	message, traceback = c.take(int(m), "message"), c.take(int(t), "traceback")
	return message, traceback, c.end()
}

// AppendDone appends a DONE for a batch that has failed.
func AppendDone(dst []byte, instance uint32, id uint64, message, traceback string) ([]byte, error) {
	dst, base := beginFrame(dst, KindDone, instance, id)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(message)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(traceback)))
	dst = append(append(dst, message...), traceback...)
	return endFrame(dst, base)
}

// DecodeForked reads the body of FORKED.
func DecodeForked(body []byte) (pid uint32, err error) {
	c := Cursor{kind: KindForked, body: body}
	pid = c.u32("pid")
	return pid, c.end()
}

// DecodeExited reads the body of EXITED; status is that of wait(2).
func DecodeExited(body []byte) (pid uint32, status int32, err error) {
	c := Cursor{kind: KindExited, body: body}
	pid, status = c.u32("pid"), int32(c.u32("status"))
	return pid, status, c.end()
}

// InferWindow in the head of INFER says that the call is decoupled and that the
// worker returns credit for the responses that the model has taken.
const InferWindow = 2

// InferCall is a decoded INFER body.
type InferCall struct {
	Decoupled bool
	Window    bool // credit comes back
	// Alone says that the worker sends nothing more before the answer.
	Alone bool
	// Device says that the outputs may lie on a GPU, Pinned that the worker is told which
	// version serves the call.
	Device, Pinned bool
	Model          []byte
	Version        int64
	Requested      [][]byte
	Request        RequestBlock
}

// Flags of INFER.
const (
	InferAlone  = 1
	InferDevice = 2
	InferPinned = 4
)

// DecodeInfer reads the body of INFER: `<BBHIq` decoupled, flags, bytes of
// the model name, number of wanted outputs, version; then the model name, per
// wanted output a u16 length and the name, padding to 8, and one request block.
func DecodeInfer(body []byte) (call InferCall, err error) {
	c := Cursor{kind: KindInfer, body: body}
	b := c.take(16, "head")
	if b == nil {
		return call, c.err
	}
	le := binary.LittleEndian
	if b[0] > InferWindow {
		c.Fail("decoupled", 0, "%d, expected 0 to %d", b[0], InferWindow)
	}
	if b[1]&^(InferAlone|InferDevice|InferPinned) != 0 {
		c.Fail("flags", 1, "%d has unknown bits", b[1])
	}
	call.Decoupled, call.Window = b[0] != 0, b[0] == InferWindow
	call.Alone, call.Device, call.Pinned = b[1]&InferAlone != 0, b[1]&InferDevice != 0, b[1]&InferPinned != 0
	call.Version = int64(le.Uint64(b[8:]))
	wanted := le.Uint32(b[4:])
	call.Model = c.take(int(le.Uint16(b[2:])), "model name")
	if uint64(wanted)*2 > uint64(len(body)) {
		c.Fail("requested", 4, "%d names do not fit", wanted)
	}
	for range wanted {
		n := c.take(2, "requested name length")
		if n == nil {
			return call, c.err
		}
		call.Requested = append(call.Requested, c.take(int(le.Uint16(n)), "requested name"))
	}
	c.align()
	r, inline := c.requestBlock()
	if c.err == nil && r.OnlyRequested() {
		c.Fail("flags", c.off, "outputs of a call are named, not numbered")
	}
	for i := range r.Inputs {
		if r.Inputs[i].Index >= 0 {
			c.Fail("index", c.off, "inputs of a call are named, not numbered")
		}
	}
	call.Request = r
	return call, c.skipInline(inline)
}

// AppendInfer is the other direction of DecodeInfer, for workers written in Go
// and the tests. decoupled is 0, 1 or InferWindow.
func (e *Encoder) AppendInfer(
	dst []byte, instance uint32, id uint64, decoupled, flags byte, r *backend.Request, requested []string, at Placer,
) ([]byte, error) {
	begin := len(dst)
	dst, base := beginFrame(dst, KindInfer, instance, id)
	le := binary.LittleEndian
	dst = append(dst, decoupled, flags)
	dst = le.AppendUint16(dst, uint16(len(r.ModelName)))
	dst = le.AppendUint32(dst, uint32(len(requested)))
	dst = le.AppendUint64(dst, uint64(r.ModelVersion))
	dst = append(dst, r.ModelName...)
	for _, name := range requested {
		dst = append(le.AppendUint16(dst, uint16(len(name))), name...)
	}
	dst = pad8(dst, base)
	dst, err := e.requestBlock(dst, base, 0, r, nil, at)
	if err != nil {
		e.reset()
		return dst[:begin], err
	}
	return endFrame(e.inline(dst, base), base)
}
