package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/cuda"
	"github.com/nesoserve/neso/tensor"
)

var update = flag.Bool("update", false, "rewrite the golden frames in proto/worker/frames")

const framesDir = "../../../../proto/worker/frames"

// goldenFrames builds one frame for each case with the encoders of this package.
func goldenFrames(t testing.TB) map[string][]byte {
	t.Helper()
	frames := map[string][]byte{}
	keep := func(name string, frame []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frames[name] = frame
	}
	text := func(name string, kind Kind, instance uint32, id uint64, v any) {
		t.Helper()
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := AppendFrame(nil, kind, instance, id, body)
		keep(name, frame, err)
	}
	var e Encoder
	tables := &Tables{Inputs: []string{"IN0", "IN1", "TEXT"}, Outputs: []string{"OUT0", "OUT1"}}
	fp32 := func(name string, shape tensor.Shape, data ...byte) tensor.Tensor {
		return tensor.Tensor{Name: name, Datatype: tensor.FP32, Shape: shape, Data: data}
	}
	pi, one := []byte{0xdb, 0x0f, 0x49, 0x40}, []byte{0, 0, 0x80, 0x3f}
	words := tensor.AppendElement(tensor.AppendElement(tensor.AppendElement(nil, "héllo"), ""), "\x00\xff")
	inline := putFunc(func(*tensor.Tensor) Place { return Place{Segment: InlineSegment} })

	text("hello", KindHello, 0, 0, Hello{PID: 4711, Python: "3.11.7", Numpy: "2.4.6", Protocol: 1, Lent: true, Board: true})
	text("load", KindLoad, 0, 1, LoadBody{
		ModelPath: "/models/m/1/model.py", ModelDirectory: "/models/m", VersionDirectory: "/models/m/1", Name: "m", Version: 1,
		Config: json.RawMessage(`{"name":"m"}`), Complete: true, Inputs: []string{"IN0"}, Outputs: []string{"OUT0"}, InlineLimit: 8192,
	})
	text("init", KindInit, 0, 2, InitBody{
		Args: map[string]string{"model_name": "m", "model_version": "1"}, Config: json.RawMessage(`{"name":"m"}`),
		Inputs: []string{"IN0"}, Outputs: []string{"OUT0"}, Decoupled: false, Board: new(int),
	})
	text("ready", KindReady, 0, 2, map[string]any{"async": false})
	text("failed", KindFailed, 0, 2, FailedBody{Message: "ValueError: no", Traceback: "Traceback (most recent call last):\n"})

	frame, err := e.AppendExecute(nil, 0, 7, []*backend.Request{{
		BatchSize: 1, Inputs: []tensor.Tensor{fp32("IN0", tensor.Shape{1, 1}, pi...)}, Requested: []string{"OUT0", "OUT1"},
	}}, []uint64{1 << 32}, tables, inline)
	keep("execute_one", frame, err)
	big := tensor.Tensor{Name: "IN1", Datatype: tensor.Uint8, Shape: tensor.Shape{3, 4096}, Data: make([]byte, 3*4096)}
	frame, err = e.AppendExecute(nil, 3, 0x0123456789ABCDEF, []*backend.Request{
		{
			ID: "request-1", Correlation: backend.CorrelationID{Number: 42}, Flags: backend.SequenceStart, Priority: 2, Timeout: 1500000,
			Parameters: []backend.Parameter{
				backend.String("s", "a\"\\\n\u00e9"), backend.Int("i", -5), backend.Bool("b", true), backend.Double("d", 2), backend.Uint("u", 1<<63),
			},
			BatchSize: 3, Inputs: []tensor.Tensor{
				fp32("IN0", tensor.Shape{3, 0}), big,
				{Name: "TEXT", Datatype: tensor.Bytes, Shape: tensor.Shape{3}, Data: words},
			},
			Requested: []string{"OUT1"}, Trace: `{"traceparent":"00-x"}`,
		},
		{
			Correlation: backend.CorrelationID{Text: "seq-β"}, Flags: backend.SequenceEnd,
			BatchSize: 1, Inputs: []tensor.Tensor{fp32("IN0", tensor.Shape{}, one...), fp32("UNKNOWN", tensor.Shape{1}, pi...)},
			Requested: []string{"OUT1", "OUT0"},
		},
	}, []uint64{5, 1<<40 | 6}, tables, putFunc(func(t *tensor.Tensor) Place {
		if t.Name == "IN1" {
			return Place{Segment: 2, Offset: 65536}
		}
		return Place{Segment: InlineSegment}
	}))
	keep("execute_many", frame, err)
	frame, err = e.AppendExecute(nil, 0, 8, []*backend.Request{{BatchSize: 0, Requested: tables.Outputs}}, []uint64{9}, tables, inline)
	keep("execute_no_inputs", frame, err)
	frame, err = e.AppendExecute(nil, 0, 19, []*backend.Request{{
		BatchSize: 1,
		Inputs:    []tensor.Tensor{fp32("IN0", tensor.Shape{1, 1}, one...)},
	}}, []uint64{20}, tables, inline)
	keep("execute_no_outputs", frame, err)

	frame, err = e.AppendExecuteBatch(nil, 1, 10, &backend.Batch{
		Requests: []*backend.Request{{BatchSize: 2}, {BatchSize: 1}}, Size: 3,
		Inputs: []tensor.Tensor{fp32("IN0", tensor.Shape{3, 1}, append(append(append([]byte{}, pi...), one...), pi...)...), {
			Name: "TEXT", Datatype: tensor.Bytes, Shape: tensor.Shape{3}, Data: words,
		}},
	}, []uint64{11, 12}, tables, inline)
	keep("execute_batch", frame, err)

	// Of bound callables: an input block that nothing else reads, and outputs left in it.
	alone := putFunc(func(t *tensor.Tensor) Place {
		if t.Name == "IN1" {
			return Place{Segment: 2, Offset: 65536, Own: true}
		}
		return Place{Segment: InlineSegment}
	})
	frame, err = e.AppendExecute(nil, 4, 13, []*backend.Request{{
		BatchSize: 3, Inputs: []tensor.Tensor{fp32("IN0", tensor.Shape{3, 1}, append(append(append([]byte{}, pi...), one...), pi...)...), big},
		Requested: []string{"OUT0", "OUT1"},
	}}, []uint64{14}, tables, alone)
	keep("execute_own_block", frame, err)
	frame, err = e.AppendExecuteBatch(nil, 4, 15, &backend.Batch{
		Requests: []*backend.Request{{BatchSize: 1}, {BatchSize: 2}}, Size: 3, Inputs: []tensor.Tensor{big},
	}, []uint64{16, 17}, tables, alone)
	keep("execute_batch_own_block", frame, err)
	part := tensor.Tensor{Name: "OUT1", Datatype: tensor.Uint8, Shape: tensor.Shape{2, 4096}, Data: make([]byte, 2*4096)}
	frame, err = e.AppendResponses(nil, KindResponses, 4, 13, FlagEnds, []Outgoing{{
		Handle: 14, Flags: ResponseFinal | ResponseRetained, Outputs: []tensor.Tensor{big, part}, Indices: []int{0, 1},
		Places: []Place{{Segment: 2, Offset: 65536}, {Segment: 2, Offset: 65536 + 4096}},
	}})
	keep("responses_in_input", frame, err)
	frame, err = e.AppendResultBatch(nil, 4, 15, FlagEnds, []tensor.Tensor{big}, []int{0}, []Place{{Segment: 2, Offset: 65536}})
	keep("result_batch_in_input", frame, err)

	frame, err = e.AppendResponses(nil, KindResponses, 0, 7, FlagEnds, []Outgoing{{
		Handle: 1 << 32, Flags: ResponseFinal, Outputs: []tensor.Tensor{fp32("OUT0", tensor.Shape{1, 1}, one...)}, Indices: []int{0},
	}})
	keep("responses_one", frame, err)
	frame, err = e.AppendResponses(nil, KindResponses, 3, 8, 0, []Outgoing{
		{
			Handle: 5, Outputs: []tensor.Tensor{fp32("OUT1", tensor.Shape{2}, append(append([]byte{}, pi...), one...)...), big, {
				Name: "EXTRA", Datatype: tensor.Bytes, Shape: tensor.Shape{3}, Data: words,
			}}, Indices: []int{1, 0, -1}, Places: []Place{{Segment: InlineSegment}, {Segment: 0x80000000, Offset: 128}, {Segment: InlineSegment}},
			Parameters: []backend.Parameter{backend.String("k", "v"), backend.Int("n", 3)},
		},
		{Handle: 6, Flags: ResponseFinal, Err: backend.Errorf(backend.NotFound, "boom é")},
		{Handle: 7, Flags: ResponseFinal | ResponseNone | ResponseRetained},
	})
	keep("responses_many", frame, err)
	frame, err = e.AppendResponses(nil, KindResponses, 0, 9, FlagEnds, nil)
	keep("responses_none", frame, err)
	frame, err = e.AppendResponses(nil, KindResponses, 0, 9, 0, []Outgoing{{Handle: 22, Flags: ResponseAgain | ResponseNone}})
	keep("responses_again", frame, err)
	frame, err = e.AppendResultBatch(nil, 1, 10, FlagEnds, []tensor.Tensor{fp32("OUT0", tensor.Shape{3, 1}, append(append(append([]byte{},
		one...), pi...), one...)...)}, []int{0}, nil)
	keep("result_batch", frame, err)
	frame, err = AppendFrame(nil, KindDone, 0, 7, nil)
	keep("done", frame, err)
	frame, err = AppendDone(nil, 0, 7, "Failed: é", "Traceback")
	keep("done_error", frame, err)
	frame, err = AppendFrame(nil, KindCancel, 0, 1<<32, nil)
	keep("cancel", frame, err)

	frame, err = e.AppendInfer(nil, 0, 21, InferWindow, 0, &backend.Request{
		ID: "inner", ModelName: "other", ModelVersion: -1, Correlation: backend.CorrelationID{Number: 1}, Timeout: 10,
		Inputs:     []tensor.Tensor{fp32("X", tensor.Shape{1}, pi...), fp32("YY", tensor.Shape{1}, one...)},
		Parameters: []backend.Parameter{backend.Int("p", 1)},
	}, []string{"A", "BB"}, inline)
	keep("infer", frame, err)
	frame, err = e.AppendResponses(nil, KindInferResponses, 0, 21, 0, []Outgoing{{
		Handle: 21, Flags: ResponseFinal, Outputs: []tensor.Tensor{fp32("A", tensor.Shape{1}, pi...), fp32("BB", tensor.Shape{1}, one...)},
	}})
	keep("infer_responses", frame, err)

	keep("segment_inputs", AppendSegment(nil, 0, SegmentInputs, 64<<20), nil)
	keep("segment_lent", AppendSegment(nil, FirstLentSegment, SegmentLent, 16<<20), nil)
	keep("drop", AppendDrop(nil, FirstLentSegment), nil)
	memory := goldenGPU([]byte("\x00\x01gpu-of-golden\xff"))
	var handle cuda.Handle
	for i := range handle {
		handle[i] = byte(255 - i)
	}
	keep("segment_device", AppendDeviceSegment(nil, FirstOutputSegment+1, SegmentDevice, 8<<20, memory.GPU(), handle), nil)
	keep("segment_device_lent", AppendDeviceSegment(nil, FirstLentSegment, SegmentDeviceLent, 8<<20, memory.GPU(), handle), nil)
	frame, err = AppendFrame(nil, KindGrow, 0, 4, append(binary.LittleEndian.AppendUint64(nil, 2<<20), memory[:]...))
	keep("grow_device", frame, err)
	frame, err = AppendFrame(nil, KindDropped, 0, 0, binary.LittleEndian.AppendUint32(nil, FirstLentSegment))
	keep("dropped", frame, err)
	frame, err = AppendFrame(nil, KindDevices, 0, 0, append(append([]byte{2, 0, 0, 0}, memory[:]...), "neso-fake-gpu-01"...))
	keep("devices", frame, err)
	keep("segment_board", AppendSegment(nil, BoardSegment, SegmentBoard, 8192), nil)
	keep("segment_bell", AppendSegment(nil, BellSegment, SegmentBell, 0), nil)
	frame, err = AppendFrame(nil, KindNotBegun, 3, 15, nil)
	keep("not_begun", frame, err)
	frame, err = AppendFrame(nil, KindFree, 3, 15, nil)
	keep("free", frame, err)
	keep("times", AppendTimes(nil, 3, 15, []Report{
		{Handle: 1<<32 | 7, Times: [4]uint64{1_000, 1_100, 2_500, 2_600}},
		{Handle: 8, Flags: ReportFailed},
		{Flags: ReportBatch, Size: 2, Times: [4]uint64{900, 1_100, 2_500, 2_700}},
	}), nil)
	keep("activity", AppendActivity(nil, 3_000, "#7", "tokenized"), nil)
	keep("pinned", AppendPinned(nil, 21, 3), nil)
	frame, err = e.AppendInfer(nil, 0, 23, 0, InferAlone|InferDevice, &backend.Request{
		ModelName: "other", ModelVersion: -1, Inputs: []tensor.Tensor{fp32("X", tensor.Shape{1}, pi...)},
	}, nil, inline)
	keep("infer_device", frame, err)
	onDevice := fp32("IN0", tensor.Shape{1, 16384})
	onDevice.Buffer = &tensor.Buffer{}
	onDevice.Buffer.Reset(nil, tensor.Region{Arena: memory, Offset: 4096}, nil)
	frame, err = e.AppendExecute(nil, 0, 18, []*backend.Request{{
		BatchSize: 1, Inputs: []tensor.Tensor{onDevice},
		Requested: []string{"OUT0", "OUT1"},
	}},
		[]uint64{19}, tables, putFunc(func(*tensor.Tensor) Place { return Place{Segment: FirstLentSegment, Offset: 4096} }))
	keep("execute_device", frame, err)
	onDevice.Name = "OUT0"
	frame, err = e.AppendResponses(nil, KindResponses, 0, 18, FlagEnds, []Outgoing{{
		Handle: 19, Flags: ResponseFinal | ResponseRetained, Outputs: []tensor.Tensor{onDevice}, Indices: []int{0},
		Places: []Place{{Segment: FirstOutputSegment, Offset: 128}},
	}})
	keep("responses_device", frame, err)
	keep("segment_outputs", AppendSegment(nil, FirstOutputSegment, SegmentOutputs, 16<<20), nil)
	frame, err = AppendFrame(nil, KindGrow, 0, 3, []byte{0, 0, 16, 0, 0, 0, 0, 0})
	keep("grow", frame, err)
	keep("release", AppendRelease(nil, []Block{{0, 4096}, {FirstOutputSegment, 1 << 33}}), nil)
	frame, err = AppendLog(nil, LogWarn, "model.py", 12, "hello")
	keep("log", frame, err)
	text("metric", KindMetric, 0, 31, MetricBody{Op: "family", Name: "m_total", Description: "d", Kind: "counter"})
	text("control", KindControl, 0, 32, ControlBody{Op: "is_ready", Model: "other", Version: -1})
	text("bind", KindBind, 0, 33, map[string]any{"name": "m"})
	text("unbind", KindUnbind, 0, 34, map[string]any{"name": "m"})
	for name, kind := range map[string]Kind{"unload": KindUnload, "exit": KindExit} {
		frame, err = AppendFrame(nil, kind, 0, 0, nil)
		keep(name, frame, err)
	}
	text("fork", KindFork, 0, 1, ForkBody{Env: map[string]string{"A": "b"}, Cwd: "/"})
	frame, err = AppendFrame(nil, KindForked, 0, 1, []byte{0x67, 0x12, 0, 0})
	keep("forked", frame, err)
	frame, err = AppendFrame(nil, KindExited, 0, 0, []byte{0x67, 0x12, 0, 0, 9, 0, 0, 0})
	keep("exited", frame, err)
	keep("credit", AppendCredit(nil, 2, 1<<32|7, 300), nil)
	return frames
}

type putFunc func(*tensor.Tensor) Place

func (f putFunc) Put(of []tensor.Tensor, i int) Place { return f(&of[i]) }

// goldenGPU is the memory of a GPU of which only the name matters.
type goldenGPU tensor.GPU

func (g goldenGPU) GPU() tensor.GPU { return tensor.GPU(g) }

func (goldenGPU) ToHost([]byte, uint64) error { return errors.ErrUnsupported }

type goldenEntry struct {
	Index    int     `json:"index"`
	Name     string  `json:"name,omitempty"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	Segment  uint32  `json:"segment"`
	Offset   uint64  `json:"offset"`
	Length   uint64  `json:"length"`
	Own      bool    `json:"own,omitempty"`
	Data     *string `json:"data_hex,omitempty"`
}

func describeEntries(body []byte, entries []Entry) []goldenEntry {
	all := []goldenEntry{}
	for i := range entries {
		e := &entries[i]
		g := goldenEntry{
			Index: e.Index, Name: string(e.Name), Datatype: e.Datatype.String(), Shape: append([]int64{}, e.Shape...),
			Segment: e.Segment, Offset: e.Offset, Length: e.Length, Own: e.Own,
		}
		if e.Inline() {
			s := hex.EncodeToString(body[e.Offset : e.Offset+e.Length])
			g.Data = &s
		}
		all = append(all, g)
	}
	return all
}

func describeRequest(body []byte, r RequestBlock) map[string]any {
	return map[string]any{
		"handle": r.Handle, "correlation": r.Correlation, "timeout": r.Timeout, "priority": r.Priority, "flags": r.Flags,
		"batch_size": r.BatchSize, "id": string(r.ID), "correlation_text": string(r.CorrelationText), "parameters": string(r.Parameters),
		"trace": string(r.Trace), "requested": append([]int{}, r.Requested...), "inputs": describeEntries(body, r.Inputs),
	}
}

// describe decodes a frame with the decoders of this package into the value
// that the .json file holds.
func describe(t testing.TB, frame []byte) map[string]any {
	t.Helper()
	h, err := ParseHeader(frame)
	if err != nil {
		t.Fatal(err)
	}
	body := frame[HeaderSize:]
	var v any
	switch h.Kind {
	case KindExecute:
		var rs []RequestBlock
		if rs, err = DecodeExecute(body); err == nil {
			list := []any{}
			for _, r := range rs {
				list = append(list, describeRequest(body, r))
			}
			v = map[string]any{"requests": list}
		}
	case KindExecuteBatch:
		var b BatchBlock
		b, err = DecodeExecuteBatch(body)
		v = map[string]any{"handles": b.Handles, "rows": b.Rows, "total": b.Total, "inputs": describeEntries(body, b.Inputs)}
	case KindResultBatch:
		var es []Entry
		var ends bool
		var flags uint32
		es, flags, err = DecodeResultBatch(body)
		ends = flags&FlagEnds != 0
		v = map[string]any{"ends": ends, "outputs": describeEntries(body, es)}
	case KindResponses, KindInferResponses:
		var rs []DecodedResponse
		var ends bool
		rs, ends, err = DecodeResponses(h.Kind, body)
		list := []any{}
		for _, r := range rs {
			list = append(list, map[string]any{
				"handle": r.Handle, "flags": r.Flags, "code": r.Code, "message": string(r.Message), "parameters": string(r.Parameters),
				"outputs": describeEntries(body, r.Entries),
			})
		}
		v = map[string]any{"ends": ends, "responses": list}
	case KindDone:
		var m, tb []byte
		m, tb, err = DecodeDone(body)
		v = map[string]any{"message": string(m), "traceback": string(tb)}
	case KindInfer:
		var c InferCall
		if c, err = DecodeInfer(body); err == nil {
			names := []string{}
			for _, n := range c.Requested {
				names = append(names, string(n))
			}
			v = map[string]any{
				"decoupled": c.Decoupled, "alone": c.Alone, "device": c.Device, "model": string(c.Model), "version": c.Version,
				"requested": names, "request": describeRequest(body, c.Request),
			}
		}
	case KindSegment:
		var number, kind uint32
		var size uint64
		number, kind, size, err = DecodeSegment(body)
		fields := map[string]any{"segment": number, "kind": kind, "bytes": size}
		if kind == SegmentDevice || kind == SegmentDeviceLent {
			fields["device"], fields["handle"] = hex.EncodeToString(body[16:32]), hex.EncodeToString(body[32:])
		}
		v = fields
	case KindGrow:
		var n uint64
		var gpu *tensor.GPU
		n, gpu, err = DecodeGrow(body)
		fields := map[string]any{"bytes": n}
		if gpu != nil {
			fields["device"] = hex.EncodeToString(gpu[:])
		}
		v = fields
	case KindDevices:
		var gpus []tensor.GPU
		gpus, err = DecodeDevices(body)
		list := []string{}
		for _, g := range gpus {
			list = append(list, hex.EncodeToString(g[:]))
		}
		v = map[string]any{"devices": list}
	case KindDropped:
		var number uint32
		number, err = DecodeDropped(body)
		v = map[string]any{"segment": number}
	case KindRelease:
		list := []any{}
		err = DecodeRelease(body, func(k Block) { list = append(list, map[string]any{"segment": k.Segment, "offset": k.Offset}) })
		v = map[string]any{"blocks": list}
	case KindLog:
		var r LogRecord
		r, err = DecodeLog(body)
		v = map[string]any{"level": r.Level, "line": r.Line, "file": string(r.File), "message": string(r.Message)}
	case KindForked:
		var pid uint32
		pid, err = DecodeForked(body)
		v = map[string]any{"pid": pid}
	case KindExited:
		var pid uint32
		var status int32
		pid, status, err = DecodeExited(body)
		v = map[string]any{"pid": pid, "status": status}
	case KindCredit:
		var taken int
		taken, err = DecodeCredit(body)
		v = map[string]any{"taken": taken}
	case KindDrop:
		var number uint32
		number, err = DecodeDrop(body)
		v = map[string]any{"segment": number}
	case KindTimes:
		var reports []any
		err = DecodeTimes(body, func(r Report) {
			reports = append(reports, map[string]any{"request": r.Handle, "flags": r.Flags, "size": r.Size, "times": r.Times})
		})
		v = map[string]any{"reports": reports}
	case KindActivity:
		var at uint64
		var trace, name []byte
		at, trace, name, err = DecodeActivity(body)
		v = map[string]any{"at": at, "trace": string(trace), "name": string(name)}
	case KindPinned:
		var version int64
		version, err = DecodePinned(body)
		v = map[string]any{"version": version}
	case KindCancel, KindExit, KindUnload, KindNotBegun, KindFree:
		v = nil
	default:
		err = json.Unmarshal(body, &v)
	}
	if err != nil {
		t.Fatalf("%s: %v", h.Kind, err)
	}
	return map[string]any{"kind": h.Kind.String(), "instance": h.Instance, "id": h.ID, "length": h.Length, "body": v}
}

// TestGoldenFrames holds the codec to the files that the Python tests read
// too: encoding gives the .bin file, decoding it gives the .json file.
func TestGoldenFrames(t *testing.T) {
	frames := goldenFrames(t)
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			text, err := json.MarshalIndent(describe(t, frame), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, '\n')
			bin, desc := filepath.Join(framesDir, name+".bin"), filepath.Join(framesDir, name+".json")
			if *update {
				if err := os.MkdirAll(framesDir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(bin, frame, 0o644); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(desc, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for file, got := range map[string][]byte{bin: frame, desc: text} {
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s differs\n got %q\nwant %q", file, got, want)
				}
			}
		})
	}
	files, err := filepath.Glob(filepath.Join(framesDir, "*.bin"))
	if err != nil || len(files) != len(frames) {
		t.Errorf("%d golden files for %d frames (%v)", len(files), len(frames), err)
	}
}

// TestGoldenFramesCut feeds every prefix of every frame, and every frame with
// each byte flipped, to its decoder: errors are fine, panics are not.
func TestGoldenFramesCut(t *testing.T) {
	for _, frame := range goldenFrames(t) {
		h, err := ParseHeader(frame)
		if err != nil {
			t.Fatal(err)
		}
		body := frame[HeaderSize:]
		for n := range body {
			decodeAny(h.Kind, body[:n])
			flipped := bytes.Clone(body)
			flipped[n] ^= 0xFF
			decodeAny(h.Kind, flipped)
		}
	}
}

// decodeAny runs the decoder of the kind.
func decodeAny(kind Kind, body []byte) {
	switch kind { //nolint:exhaustive // the others carry JSON
	case KindExecute:
		_, _ = DecodeExecute(body)
	case KindExecuteBatch:
		_, _ = DecodeExecuteBatch(body)
	case KindResultBatch:
		_, _, _ = DecodeResultBatch(body)
	case KindResponses, KindInferResponses:
		_, _, _ = DecodeResponses(kind, body)
	case KindDone:
		_, _, _ = DecodeDone(body)
	case KindInfer:
		_, _ = DecodeInfer(body)
	case KindSegment:
		_, _, _, _ = DecodeSegment(body)
	case KindGrow:
		_, _, _ = DecodeGrow(body)
	case KindDevices:
		_, _ = DecodeDevices(body)
	case KindDropped:
		_, _ = DecodeDropped(body)
	case KindRelease:
		_ = DecodeRelease(body, nil)
	case KindLog:
		_, _ = DecodeLog(body)
	case KindForked:
		_, _ = DecodeForked(body)
	case KindExited:
		_, _, _ = DecodeExited(body)
	case KindCredit:
		_, _ = DecodeCredit(body)
	case KindDrop:
		_, _ = DecodeDrop(body)
	}
}

// FuzzFrames feeds foreign bodies to every decoder.
func FuzzFrames(f *testing.F) {
	for _, frame := range goldenFrames(f) {
		f.Add(frame)
	}
	f.Fuzz(func(_ *testing.T, frame []byte) {
		h, err := ParseHeader(frame)
		if err != nil {
			return
		}
		decodeAny(h.Kind, frame[HeaderSize:])
	})
}

// FuzzParameters checks that what parses is written and parsed again the same.
func FuzzParameters(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":"x\u00e9","c":true,"d":1.5,"e":18446744073709551615}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		params, err := ParseParameters(text)
		if err != nil || len(params) == 0 {
			return
		}
		again, err := ParseParameters(appendParameters(nil, params))
		if err != nil || len(again) != len(params) {
			t.Fatalf("%q: %v, %d parameters, then %d", text, err, len(params), len(again))
		}
		for i := range params {
			if params[i] != again[i] {
				t.Fatalf("%q: got %v, want %v", text, again[i], params[i])
			}
		}
	})
}
