package worker

import (
	"encoding/binary"
	"encoding/json"

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
	// Limits are those of the child.
	Limits Limits `json:"limits,omitzero"`
	// Mark is what tells what the child starts, see leftovers_linux.go.
	Mark uint64 `json:"mark,omitempty"`
}

// blockKey names a block of shared memory.
type blockKey struct {
	segment uint32
	offset  uint64
}

// Kinds of segments.
const (
	segmentInputs  = 0
	segmentOutputs = 1
	segmentLent    = 2 // of another model: to read
	// Those on GPUs, which have a handle in place of a descriptor.
	segmentDevice     = 3 // outputs
	segmentDeviceLent = 4
	// segmentBoard is that of the board, which no tensor lies in.
	segmentBoard = 5
)

func appendSegment(dst []byte, number, kind uint32, size uint64) []byte {
	dst, base := beginFrame(dst, KindSegment, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	dst = binary.LittleEndian.AppendUint32(dst, kind)
	dst = binary.LittleEndian.AppendUint64(dst, size)
	dst, _ = endFrame(dst, base)
	return dst
}

// decodeSegment reads the body of SEGMENT; it is for workers in Go and the tests.
func decodeSegment(body []byte) (number, kind uint32, size uint64, err error) {
	c := cursor{kind: KindSegment, body: body}
	number, kind, size = c.u32("number"), c.u32("kind"), c.u64("bytes")
	switch {
	case kind > segmentBoard:
		c.fail("kind", 4, "%d is unknown", kind)
	case kind == segmentDevice, kind == segmentDeviceLent:
		c.take(len(tensor.GPU{})+len(cuda.Handle{}), "device")
	}
	return number, kind, size, c.end()
}

func appendDeviceSegment(dst []byte, number, kind uint32, m *deviceMemory) []byte {
	dst, base := beginFrame(dst, KindSegment, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, number)
	dst = binary.LittleEndian.AppendUint32(dst, kind)
	dst = binary.LittleEndian.AppendUint64(dst, m.size)
	gpu := m.GPU()
	dst = append(append(dst, gpu[:]...), m.handle[:]...)
	dst, _ = endFrame(dst, base)
	return dst
}

// decodeGrow reads the body of GROW: `<Q` bytes, and for memory on a GPU its
// UUID.
func decodeGrow(body []byte) (need uint64, gpu *tensor.GPU, err error) {
	c := cursor{kind: KindGrow, body: body}
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

// decodeDevices reads the body of DEVICES: `<I` n, then n UUIDs, of 16 bytes each.
func decodeDevices(body []byte) ([]tensor.GPU, error) {
	c := cursor{kind: KindDevices, body: body}
	n := c.u32("count")
	if n > maxDevices {
		c.fail("count", 0, "%d devices, at most %d", n, maxDevices)
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

// appendCredit appends a CREDIT frame: so much of the request's responses has
// been taken.
func appendCredit(dst []byte, instance uint32, handle uint64, taken int) []byte {
	dst, base := beginFrame(dst, KindCredit, instance, handle)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(taken))
	dst, _ = endFrame(dst, base)
	return dst
}

// decodeCredit is for workers in Go and the tests.
func decodeCredit(body []byte) (int, error) {
	c := cursor{kind: KindCredit, body: body}
	taken := c.u32("taken")
	return int(taken), c.end()
}

func appendRelease(dst []byte, blocks []blockKey) []byte {
	dst, base := beginFrame(dst, KindRelease, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(blocks)))
	for _, b := range blocks {
		dst = binary.LittleEndian.AppendUint32(dst, b.segment)
		dst = binary.LittleEndian.AppendUint64(dst, b.offset)
	}
	dst, _ = endFrame(dst, base)
	return dst
}

// decodeRelease calls f for every block.
func decodeRelease(body []byte, f func(blockKey)) error {
	c := cursor{kind: KindRelease, body: body}
	n := c.u32("count")
	if c.err == nil && uint64(n)*12 != uint64(len(body)-4) {
		c.fail("count", 0, "%d blocks in a body of %d bytes", n, len(body))
	}
	for range n {
		if c.err != nil {
			break
		}
		k := blockKey{segment: c.u32("segment"), offset: c.u64("offset")}
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
	logInfo uint8 = iota
	logWarn
	logError
	logVerbose
)

func decodeLog(body []byte) (r LogRecord, err error) {
	c := cursor{kind: KindLog, body: body}
	if b := c.take(11, "head"); b != nil {
		r.Level, r.Line = b[0], binary.LittleEndian.Uint32(b[1:])
		file, message := binary.LittleEndian.Uint16(b[5:]), binary.LittleEndian.Uint32(b[7:])
		if r.Level > logVerbose {
			c.fail("level", 0, "%d is unknown", r.Level)
		}
		r.File, r.Message = c.take(int(file), "file"), c.take(int(message), "message")
	}
	return r, c.end()
}

// decodeDone reads the body of DONE: both texts view the frame.
func decodeDone(body []byte) (message, traceback []byte, err error) {
	if len(body) == 0 {
		return nil, nil, nil
	}
	c := cursor{kind: KindDone, body: body}
	m, t := c.u32("message"), c.u32("traceback")
	message, traceback = c.take(int(m), "message"), c.take(int(t), "traceback")
	return message, traceback, c.end()
}

func appendDone(dst []byte, instance uint32, id uint64, message, traceback string) ([]byte, error) {
	dst, base := beginFrame(dst, KindDone, instance, id)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(message)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(traceback)))
	dst = append(append(dst, message...), traceback...)
	return endFrame(dst, base)
}

func decodeForked(body []byte) (pid uint32, err error) {
	c := cursor{kind: KindForked, body: body}
	pid = c.u32("pid")
	return pid, c.end()
}

func decodeExited(body []byte) (pid uint32, status int32, err error) {
	c := cursor{kind: KindExited, body: body}
	pid, status = c.u32("pid"), int32(c.u32("status"))
	return pid, status, c.end()
}

// inferWindow in the head of INFER says that the call is decoupled and that the
// worker returns credit for the responses that the model has taken.
const inferWindow = 2

// InferCall is a decoded INFER body.
type InferCall struct {
	Decoupled bool
	Window    bool // credit comes back
	// Alone says that the worker sends nothing more before the answer.
	Alone bool
	// Device says that the outputs may lie on a GPU.
	Device    bool
	Model     []byte
	Version   int64
	Requested [][]byte
	Request   RequestBlock
}

// Flags of INFER.
const (
	inferAlone  = 1
	inferDevice = 2
)

// decodeInfer reads the body of INFER: `<BBHIq` decoupled, flags, bytes of
// the model name, number of wanted outputs, version; then the model name, per
// wanted output a u16 length and the name, padding to 8, and one request block.
func decodeInfer(body []byte) (call InferCall, err error) {
	c := cursor{kind: KindInfer, body: body}
	b := c.take(16, "head")
	if b == nil {
		return call, c.err
	}
	le := binary.LittleEndian
	if b[0] > inferWindow {
		c.fail("decoupled", 0, "%d, expected 0 to %d", b[0], inferWindow)
	}
	if b[1]&^(inferAlone|inferDevice) != 0 {
		c.fail("flags", 1, "%d has unknown bits", b[1])
	}
	call.Decoupled, call.Window = b[0] != 0, b[0] == inferWindow
	call.Alone, call.Device = b[1]&inferAlone != 0, b[1]&inferDevice != 0
	call.Version = int64(le.Uint64(b[8:]))
	wanted := le.Uint32(b[4:])
	call.Model = c.take(int(le.Uint16(b[2:])), "model name")
	if uint64(wanted)*2 > uint64(len(body)) {
		c.fail("requested", 4, "%d names do not fit", wanted)
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
		c.fail("flags", c.off, "outputs of a call are named, not numbered")
	}
	for i := range r.Inputs {
		if r.Inputs[i].Index >= 0 {
			c.fail("index", c.off, "inputs of a call are named, not numbered")
		}
	}
	call.Request = r
	return call, c.skipInline(inline)
}

// appendInfer is the other direction of decodeInfer, for workers written in Go
// and the tests. decoupled is 0, 1 or inferWindow.
func (e *encoder) appendInfer(dst []byte, id uint64, decoupled byte, r *backend.Request, requested []string, at placer) ([]byte, error) {
	begin := len(dst)
	dst, base := beginFrame(dst, KindInfer, 0, id)
	le := binary.LittleEndian
	dst = append(dst, decoupled, 0)
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
