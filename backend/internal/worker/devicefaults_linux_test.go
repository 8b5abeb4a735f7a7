//go:build (amd64 || arm64) && !nopurego

package worker

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nesoserve/neso/backend/internal/worker/segment"
	"github.com/nesoserve/neso/backend/internal/worker/wire"
	"github.com/nesoserve/neso/tensor"
)

// TestDeviceDeaths: in whatever phase a worker dies, memory is freed when nobody
// has it open any more, no sooner (the driver says so) and no later.
func TestDeviceDeaths(t *testing.T) {
	data := pattern(1 << 16)
	for name, play := range map[string]func(t *testing.T, g *gpus, one, two *fakeWorker){
		"the writer, while memory is made": func(_ *testing.T, g *gpus, one, _ *fakeWorker) {
			g.set("hold-cuMemAlloc_v2", "")
			one.sendBody(wire.KindGrow, 1, growBody(1, gpu(0)))
			g.until("the call", func() bool { _, err := os.Stat(filepath.Join(g.dir, "held-cuMemAlloc_v2")); return err == nil })
			one.die()
			g.unset("hold-cuMemAlloc_v2")
			one.conn.Close()
		},
		"the writer, before anybody reads": func(_ *testing.T, _ *gpus, one, _ *fakeWorker) {
			one.growDevice(1, gpu(0))
			one.die()
		},
		"the writer, with a tensor on its way": func(_ *testing.T, g *gpus, one, _ *fakeWorker) {
			in := one.onGPU(one.growDevice(1, gpu(0)), 0, data)
			one.die()
			one.conn.Close()
			if n := g.count("free"); n != 0 {
				t.Error("freed")
			}
			in.Release()
		},
		"the writer, while another reads": func(t *testing.T, g *gpus, one, two *fakeWorker) {
			in := one.onGPU(one.growDevice(1, gpu(0)), 0, data)
			done := two.execute(t.Context(), two.instance(takes), request(newAnswers(), in))
			h, handle, inputs := two.inputs()
			one.die()
			one.conn.Close()
			if !bytes.Equal(two.read(&inputs[0]), data) || g.count("free") != 0 {
				t.Error("the data is gone")
			}
			two.answer(h, handle, 0, nil)
			_ = result(t, done)
			in.Release()
			two.drop()
		},
		"the reader, while it reads": func(t *testing.T, g *gpus, one, two *fakeWorker) {
			in := one.onGPU(one.growDevice(1, gpu(0)), 0, data)
			done := two.execute(t.Context(), two.instance(takes), request(newAnswers(), in))
			two.inputs()
			two.die()
			if result(t, done) == nil {
				t.Error("no error")
			}
			in.Release()
			one.next(wire.KindRelease)
			if n := g.count("free"); n != 0 {
				t.Error("freed")
			}
			one.die()
		},
		"the reader, between DROP and DROPPED": func(t *testing.T, g *gpus, one, two *fakeWorker) {
			in := one.onGPU(one.growDevice(1, gpu(0)), 0, data)
			done := two.execute(t.Context(), two.instance(takes), request(newAnswers(), in))
			h, handle, _ := two.inputs()
			two.answer(h, handle, 0, nil)
			_ = result(t, done)
			in.Release()
			one.die()
			two.next(wire.KindDrop)
			if n := g.count("free"); n != 0 {
				t.Error("freed")
			}
			two.die()
		},
		"both at once": func(t *testing.T, _ *gpus, one, two *fakeWorker) {
			in := one.onGPU(one.growDevice(1, gpu(0)), 0, data)
			done := two.execute(t.Context(), two.instance(takes), request(newAnswers(), in))
			two.inputs()
			var both sync.WaitGroup
			both.Go(one.die)
			both.Go(two.die)
			both.Wait()
			_ = result(t, done)
			in.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGPUs(t, nil)
			two, one := g.worker(nil, gpu(0)), g.worker(nil, gpu(0))
			play(t, g, one, two)
			g.until("free", func() bool { return g.count("free") == 1 })
		})
	}
}

// TestDeviceReturned: an output may be an input that lies on a GPU.
func TestDeviceReturned(t *testing.T) {
	g := newGPUs(t, nil)
	two, one := g.worker(nil, gpu(0)), g.worker(nil, gpu(0))
	in := one.onGPU(one.growDevice(1, gpu(0)), 128, pattern(1<<16))
	a := newAnswers()
	r := request(a, in)
	r.TakesDevice = two.conn.seesDevice
	done := two.execute(t.Context(), two.instance(takes), r)
	h, handle, inputs := two.inputs()
	two.answer(h, handle, 0, []wire.Place{{Segment: inputs[0].Segment, Offset: 128}}, in)
	if err := result(t, done); err != nil {
		t.Fatal(err)
	}
	<-a.done
	if got := a.got[0].Outputs[0]; got.Buffer != in.Buffer || !got.OnDevice() {
		t.Errorf("%+v", got)
	}
	a.got[0].Release()
	in.Release()
}

// TestBadDeviceFrames end the connection.
func TestBadDeviceFrames(t *testing.T) {
	le := binary.LittleEndian
	one := func(t *testing.T, kind wire.Kind, body []byte, want string) {
		g := newGPUs(t, nil)
		f := g.worker(nil, gpu(0))
		f.growDevice(1, gpu(0))
		f.sendBody(kind, 5, body)
		<-f.conn.Done()
		if err := f.conn.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		kind wire.Kind
		body []byte
		want string
	}{
		"DEVICES twice": {wire.KindDevices, make([]byte, 4), "DEVICES frame: kind at offset 3: came twice"},
		"too many devices": {
			wire.KindDevices, append([]byte{65, 0, 0, 0}, make([]byte, 65*16)...),
			"DEVICES frame: length at offset 4: 1044 bytes, at most 1028",
		},
		"half a device": {
			wire.KindDevices, append([]byte{1, 0, 0, 0}, make([]byte, 15)...),
			"device at offset 4: needs 16 bytes, 15 left",
		},
		"more than the devices": {wire.KindDevices, append([]byte{0, 0, 0, 0}, make([]byte, 16)...), "end at offset 4: 16 bytes too many"},
		"GROW with half a UUID": {wire.KindGrow, make([]byte, 16), "GROW frame: device at offset 8: needs 16 bytes, 8 left"},
		"GROW with more":        {wire.KindGrow, make([]byte, 25), "GROW frame: length at offset 4: 25 bytes, at most 24"},
		"DROPPED of nothing": {
			wire.KindDropped, le.AppendUint32(nil, wire.FirstLentSegment),
			"DROPPED frame: segment at offset 0: 1073741824 is not to be dropped",
		},
		"DROPPED of its own": {wire.KindDropped, le.AppendUint32(nil, wire.FirstOutputSegment), "is not to be dropped"},
		"an unknown flag of a call": {
			wire.KindInfer, append([]byte{0, 8}, make([]byte, 80)...),
			"INFER frame: flags at offset 1: 8 has unknown bits",
		},
	} {
		t.Run(name, func(t *testing.T) { one(t, c.kind, c.body, c.want) })
	}
}

// TestBadDeviceEntries: outputs that a worker cannot have on a GPU.
func TestBadDeviceEntries(t *testing.T) {
	refused := func(t *testing.T, out tensor.Tensor, at wire.Place, want string) {
		g := newGPUs(t, nil)
		f, one := g.worker(nil, gpu(0)), g.worker(nil, gpu(0))
		f.growDevice(1, gpu(0))
		in := one.onGPU(one.growDevice(1, gpu(0)), 0, pattern(1<<16))
		done := f.execute(t.Context(), f.instance(takes), request(newAnswers(), in))
		h, handle, _ := f.inputs()
		f.answer(h, handle, 0, []wire.Place{at}, out)
		if result(t, done) == nil {
			t.Error("no error")
		}
		if err := f.conn.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
		in.Release()
	}
	for name, c := range map[string]struct {
		out  tensor.Tensor
		at   wire.Place
		want string
	}{
		"BYTES": {
			tensor.Tensor{Datatype: tensor.Bytes, Shape: tensor.Shape{2}, Data: make([]byte, 8)},
			wire.Place{Segment: wire.FirstOutputSegment},
			"BYTES do not lie on a GPU",
		},
		"beyond the end": {
			fp32("OUT", tensor.Shape{16}),
			wire.Place{Segment: wire.FirstOutputSegment, Offset: 2<<20 - 64 + 32},
			"outside its segment of 2097152 bytes or not aligned",
		},
		"between blocks": {fp32("OUT", tensor.Shape{16}), wire.Place{Segment: wire.FirstOutputSegment, Offset: 32}, "or not aligned"},
		"a segment of no one": {
			fp32("OUT", tensor.Shape{16}),
			wire.Place{Segment: wire.FirstOutputSegment + 1},
			"segment 2147483649 does not exist",
		},
		"what was never lent": {
			fp32("OUT", tensor.Shape{16}),
			wire.Place{Segment: wire.FirstLentSegment + 1},
			"segment 1073741825 does not exist",
		},
		"a part of what it is": {
			fp32("OUT", tensor.Shape{16}),
			wire.Place{Segment: wire.FirstLentSegment, Offset: 64},
			"holds no input of the request at 64",
		},
		"more than it is": {
			fp32("OUT", tensor.Shape{1 << 15}),
			wire.Place{Segment: wire.FirstLentSegment},
			"holds no input of the request at 0",
		},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.out, c.at, c.want) })
	}
}

// TestDeviceSegmentsAreBounded: beyond what one worker is lent, tensors go by
// the host.
func TestDeviceSegmentsAreBounded(t *testing.T) {
	g := newGPUs(t, map[int]int64{0: 1 << 30})
	two := g.worker(nil, gpu(0))
	inst := two.instance(takes)
	for n := range segment.MaxLent + 1 {
		one := g.worker(nil)
		in := one.onGPU(one.growDevice(1, gpu(0)), 0, []byte{byte(n), 1, 2, 3})
		done := two.execute(t.Context(), inst, request(newAnswers(), in))
		h, handle, inputs := two.inputs()
		if e := inputs[0]; (e.Segment >= wire.FirstLentSegment) != (n < segment.MaxLent) || two.read(&e)[0] != byte(n) {
			t.Fatalf("%d: %+v", n, e)
		}
		two.answer(h, handle, 0, nil)
		if err := result(t, done); err != nil {
			t.Fatal(err)
		}
		in.Release()
	}
}
