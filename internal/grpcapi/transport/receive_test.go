package transport

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/mem"
)

// counted is memory that must be given back.
type counted struct {
	mem.SliceBuffer
	live *atomic.Int64
}

func (b counted) Ref()  { b.live.Add(1) }
func (b counted) Free() { b.live.Add(-1) }

const placedSize = 100_000

// placing returns options whose ReceiveInto gives memory in three parts.
func placing(live, asked *atomic.Int64) Options {
	return Options{MaxMessage: 1 << 20, StreamWindow: 1 << 20, ReceiveInto: func(method string, head []byte, size int) mem.BufferSlice {
		if method != "/test.Echo/Unary" && method != "/test.Echo/Stream" || len(head) > ReceiveHead || size != placedSize {
			return nil
		}
		asked.Add(1)
		var parts mem.BufferSlice
		for _, n := range []int{7, 60_000, size - 60_007} {
			live.Add(1)
			parts = append(parts, counted{make([]byte, n), live})
		}
		return parts
	}}
}

// roomy makes room for large answers.
func roomy(r *raw) {
	r.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 1<<20)...))
	r.write(appendWindowUpdate(nil, 0, 1<<20))
}

func TestReceiveInto(t *testing.T) {
	var live, asked atomic.Int64
	_, addr := serve(t, placing(&live, &asked))
	r := connect(t, addr, true)
	roomy(r)
	text := strings.Repeat("0123456789", placedSize/10)
	message := prefixed(text)
	for _, path := range []string{"/test.Echo/Unary", "/test.Echo/Stream"} {
		for _, piece := range []int{1 << 20, 16384, 5, 16383} {
			id := r.id
			r.id += 2
			if piece == 5 { // the prefix comes alone
				r.write(append(r.headers(id, flagEndHeaders, path), dataFrame(id, 0, message[:5])...))
				r.write(dataFrame(id, flagEndStream, message[5:]))
			} else {
				r.write(r.headers(id, flagEndHeaders, path))
				for from := 0; from < len(message); from += piece {
					flags := byte(0)
					if from+piece >= len(message) {
						flags = flagEndStream
					}
					r.write(dataFrame(id, flags, message[from:min(len(message), from+piece)]))
				}
			}
			var got []byte
			for {
				f, b, err := r.frame()
				if err != nil {
					t.Fatal(err)
				}
				if f.stream == id && f.kind == frameData {
					got = append(got, b...)
				}
				if f.stream == id && f.flags&flagEndStream != 0 {
					break
				}
			}
			if string(got) != string(message) {
				t.Errorf("%s in pieces of %d: got %d bytes, want %d", path, piece, len(got), len(message))
			}
			r.write(appendWindowUpdate(nil, 0, int64(len(got))))
		}
	}
	if asked.Load() != 8 {
		t.Errorf("ReceiveInto was called %d times, want 8", asked.Load())
	}
	r.nc.Close()
	if n := live.Load(); n != 0 {
		t.Errorf("%d parts were not freed", n)
	}
}

// A message that does not come whole gives its memory back.
func TestPlaceIsGivenBack(t *testing.T) {
	begin := func(r *raw, path string, more ...string) uint32 {
		id := r.id
		r.id += 2
		part := append(binary.BigEndian.AppendUint32([]byte{0}, placedSize), make([]byte, 70_000)...)
		r.write(append(r.headers(id, flagEndHeaders, path, more...), dataFrame(id, 0, part)...))
		return id
	}
	for name, end := range map[string]func(r *raw, id uint32){
		"reset":      func(r *raw, id uint32) { r.write(appendReset(nil, id, codeCancel)) },
		"early end":  func(r *raw, id uint32) { r.write(dataFrame(id, flagEndStream, nil)); r.answer(id) },
		"connection": func(r *raw, _ uint32) { r.nc.Close() },
		"fault":      func(r *raw, _ uint32) { r.write(appendWindowUpdate(nil, 0, 0)) },
		"deadline":   func(r *raw, id uint32) { r.answer(id) },
	} {
		for _, path := range []string{"/test.Echo/Unary", "/test.Echo/Stream"} {
			t.Run(name+path, func(t *testing.T) {
				var live, asked atomic.Int64
				s, addr := serve(t, placing(&live, &asked))
				r := connect(t, addr, true)
				var more []string
				if name == "deadline" {
					more = []string{"grpc-timeout", "50m"}
				}
				end(r, begin(r, path, more...))
				s.Stop()
				if n := live.Load(); n != 0 {
					t.Errorf("%d parts were not freed", n)
				}
			})
		}
	}
}

// TestDeadlineAtOnce: the time of a call may be up while its headers are looked
// at, which the race detector follows.
func TestDeadlineAtOnce(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	for range 200 {
		if got := r.answer(r.call("/test.Echo/Stream", "x", "grpc-timeout", "1n")); !strings.Contains(got, "grpc-status=") {
			t.Fatal(got)
		}
	}
}
