package library

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// wire is a client that writes frames by hand.
type wire struct {
	t     *testing.T
	nc    net.Conn
	fr    *http2.Framer
	block strings.Builder
	enc   *hpack.Encoder
}

func connect(t *testing.T, addr string) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	w := &wire{t: t, nc: nc, fr: http2.NewFramer(nc, nc)}
	w.fr.AllowIllegalWrites = true
	w.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	w.enc = hpack.NewEncoder(&w.block)
	_, _ = nc.Write([]byte(http2.ClientPreface))
	_ = w.fr.WriteSettings()
	return w
}

// fields are those of a call, but for the ones that more names anew; a value of
// "-" leaves one out.
func fields(more ...string) [][2]string {
	list := [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", "/test.Same/Many"},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}
	for i := 0; i+1 < len(more); i += 2 {
		at := slices.IndexFunc(list, func(f [2]string) bool { return f[0] == more[i] })
		if at < 0 || !strings.HasPrefix(more[i], ":") && more[i] != "content-type" && more[i] != "te" {
			list = append(list, [2]string{more[i], more[i+1]})
		} else {
			list[at][1] = more[i+1]
		}
	}
	return slices.DeleteFunc(list, func(f [2]string) bool { return f[1] == "-" })
}

func (w *wire) encode(list [][2]string) []byte {
	w.block.Reset()
	for _, f := range list {
		_ = w.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return []byte(w.block.String())
}

func (w *wire) headers(id uint32, end bool, more ...string) {
	_ = w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: w.encode(fields(more...)), EndStream: end, EndHeaders: true})
}

func (w *wire) data(id uint32, end bool, b []byte) { _ = w.fr.WriteData(id, end, b) }

func prefixed(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
}

// end reads until a stream or the connection has ended, and says how. What comes
// in several frames is put together; PING and SETTINGS are no part of it, and
// messages are what TestSameCalls compares.
func (w *wire) end(id uint32) string {
	var out []string
	var body []byte
	say := func(text string) {
		if len(body) > 0 {
			out, body = append(out, fmt.Sprintf("data %q", body)), nil
		}
		if text != "" {
			out = append(out, text)
		}
	}
	for {
		f, err := w.fr.ReadFrame()
		if err != nil {
			say("the connection ends")
			return strings.Join(out, ", ")
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			say("GOAWAY " + f.ErrCode.String())
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				say("RST_STREAM " + f.ErrCode.String())
				return strings.Join(out, ", ")
			}
		case *http2.DataFrame:
			if f.StreamID == id {
				body = append(body, f.Data()...)
				if f.StreamEnded() {
					say("end")
					return strings.Join(out, ", ")
				}
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID != id {
				continue
			}
			var list []string
			for _, h := range f.Fields {
				switch h.Name {
				case "content-type", "grpc-encoding", "grpc-message":
					continue
				}
				list = append(list, h.Name+"="+h.Value)
			}
			slices.Sort(list)
			say(strings.Join(list, " "))
			if f.StreamEnded() {
				return strings.Join(out, ", ")
			}
		}
	}
}

const (
	hello = `:status=200, data "\x00\x00\x00\x00\x05hello", grpc-status=0`
	plain = `: this port speaks gRPC, which is POST with content-type application/grpc\n"`
	ends  = "the connection ends"
)

// wires are what clients may send in frames, and what comes of it: with either
// server, or with ours and with the library's, where that does something else. "-"
// is where it does nothing at all.
var wires = map[string]struct {
	want, library string
	send          func(w *wire)
}{
	"a call": {hello, "", func(w *wire) {
		w.headers(1, false)
		w.data(1, true, prefixed("hello"))
	}},
	"in single bytes": {hello, "", func(w *wire) {
		w.headers(1, false)
		for _, b := range prefixed("hello") {
			w.data(1, false, []byte{b})
		}
		w.data(1, true, nil)
	}},
	"two messages in a frame": {`:status=200, data "\x00\x00\x00\x00\x01a\x00\x00\x00\x00\x01b", grpc-status=0`, "", func(w *wire) {
		w.headers(1, false)
		w.data(1, true, append(prefixed("a"), prefixed("b")...))
	}},
	"padded": {hello, "", func(w *wire) {
		w.headers(1, false)
		_ = w.fr.WriteDataPadded(1, true, prefixed("hello"), make([]byte, 200))
	}},
	"with priority": {hello, "", func(w *wire) {
		_ = w.fr.WriteHeaders(http2.HeadersFrameParam{
			StreamID: 1, BlockFragment: w.encode(fields()), EndHeaders: true, PadLength: 9, Priority: http2.PriorityParam{StreamDep: 3, Weight: 7},
		})
		_ = w.fr.WritePriority(1, http2.PriorityParam{StreamDep: 5})
		w.data(1, true, prefixed("hello"))
	}},
	"continued": {hello, "", func(w *wire) {
		block := w.encode(fields())
		_ = w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:5]})
		_ = w.fr.WriteContinuation(1, false, block[5:6])
		_ = w.fr.WriteContinuation(1, true, block[6:])
		w.data(1, true, prefixed("hello"))
	}},
	"a frame of an unknown kind": {hello, "", func(w *wire) {
		w.headers(1, false)
		_ = w.fr.WriteRawFrame(0x77, 0xff, 1, []byte("whatever"))
		w.data(1, true, prefixed("hello"))
	}},
	"an unknown setting": {hello, "", func(w *wire) {
		_ = w.fr.WriteSettings(http2.Setting{ID: 0x99, Val: 1})
		w.headers(1, false)
		w.data(1, true, prefixed("hello"))
	}},
	"a small window": {hello, "", func(w *wire) {
		_ = w.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
		w.headers(1, false)
		w.data(1, true, prefixed("hello"))
		for range 4 {
			_ = w.fr.WriteWindowUpdate(1, 2)
		}
	}},
	"another subtype": {hello, "", func(w *wire) {
		w.headers(1, false, "content-type", "application/grpc+proto")
		w.data(1, true, prefixed("hello"))
	}},
	"another content type": {`:status=415, data "415` + plain + `, grpc-status=2`, ":status=415 grpc-status=3", func(w *wire) {
		w.headers(1, false, "content-type", "application/json")
		w.data(1, true, []byte("{}"))
	}},
	"no content type": {`:status=415, data "415` + plain + `, grpc-status=2`, ":status=415 grpc-status=3", func(w *wire) {
		w.headers(1, true, "content-type", "-")
	}},
	"GET": {
		`:status=405, data "405` + plain + `, grpc-status=13`, ":status=405 grpc-status=13",
		func(w *wire) { w.headers(1, true, ":method", "GET") },
	},
	"no message":        {":status=200 grpc-status=0", "", func(w *wire) { w.headers(1, true) }},
	"no message, unary": {":status=200 grpc-status=13", "", func(w *wire) { w.headers(1, true, ":path", "/test.Same/One") }},
	"two messages, unary": {":status=200 grpc-status=13", "", func(w *wire) {
		w.headers(1, false, ":path", "/test.Same/One")
		w.data(1, true, append(prefixed("a"), prefixed("b")...))
	}},
	"a message that ends early": {":status=200 grpc-status=13", "", func(w *wire) {
		w.headers(1, false)
		w.data(1, true, prefixed("hello")[:7])
	}},
	"a message too large": {":status=200 grpc-status=8", "", func(w *wire) {
		w.headers(1, false)
		w.data(1, false, binary.BigEndian.AppendUint32([]byte{0}, maxMessage+1))
	}},
	"compressed, without saying how": {":status=200 grpc-status=13", "", func(w *wire) {
		w.headers(1, false)
		w.data(1, true, append([]byte{1}, prefixed("hello")[1:]...))
	}},
	"compressed in a way nobody knows": {":status=200 grpc-status=12", "", func(w *wire) {
		w.headers(1, false, "grpc-encoding", "zip")
		w.data(1, true, append([]byte{1}, prefixed("hello")[1:]...))
	}},
	"a timeout that is none": {":status=200 grpc-status=13", ":status=400 grpc-status=13", func(w *wire) {
		w.headers(1, false, "grpc-timeout", "1x")
		w.data(1, true, prefixed("hello"))
	}},
	"a timeout of nothing": {":status=200 grpc-status=4", "", func(w *wire) {
		w.headers(1, false, "grpc-timeout", "0n")
		w.data(1, true, prefixed("wait"))
	}},
	"no path":            {"RST_STREAM PROTOCOL_ERROR", ":status=200 grpc-status=12", func(w *wire) { w.headers(1, true, ":path", "-") }},
	"an upper-case name": {"RST_STREAM PROTOCOL_ERROR", "", func(w *wire) { w.headers(1, true, "Abc", "x") }},
	"connection":         {"RST_STREAM PROTOCOL_ERROR", "", func(w *wire) { w.headers(1, true, "connection", "close") }},
	"data after the end": {"RST_STREAM STREAM_CLOSED", "", func(w *wire) {
		w.headers(1, false)
		w.data(1, true, prefixed("wait"))
		w.data(1, true, prefixed("x"))
	}},
	"an even stream": {"GOAWAY PROTOCOL_ERROR, " + ends, "", func(w *wire) { w.headers(2, true) }},
	"headers twice": {"RST_STREAM PROTOCOL_ERROR", "GOAWAY PROTOCOL_ERROR, " + ends, func(w *wire) {
		w.headers(1, false)
		w.headers(1, false)
	}},
	"stream 0": {"GOAWAY PROTOCOL_ERROR, " + ends, ends, func(w *wire) { w.headers(0, true) }},
	"no continuation": {"GOAWAY PROTOCOL_ERROR, " + ends, ends, func(w *wire) {
		_ = w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: w.encode(fields())})
		_ = w.fr.WritePing(false, [8]byte{})
	}},
	"bad compression": {"GOAWAY COMPRESSION_ERROR, " + ends, ends, func(w *wire) {
		_ = w.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
	}},
	"a ping of 7 bytes": {"GOAWAY FRAME_SIZE_ERROR, " + ends, ends, func(w *wire) {
		_ = w.fr.WriteRawFrame(http2.FramePing, 0, 0,
			make([]byte, 7))
	}},
	"settings of 5 bytes": {"GOAWAY FRAME_SIZE_ERROR, " + ends, ends, func(w *wire) {
		_ = w.fr.WriteRawFrame(http2.FrameSettings, 0, 0,
			make([]byte, 5))
	}},
	"a window of 0": {"GOAWAY PROTOCOL_ERROR, " + ends, ends, func(w *wire) { _ = w.fr.WriteWindowUpdate(0, 0) }},
	"a window too large": {"GOAWAY FLOW_CONTROL_ERROR, " + ends, "-", func(w *wire) {
		_ = w.fr.WriteWindowUpdate(0, 1<<31-1)
		_ = w.fr.WriteWindowUpdate(0, 1<<31-1)
	}},
	"a window too large, of a stream": {"RST_STREAM FLOW_CONTROL_ERROR", "-", func(w *wire) {
		w.headers(1, false)
		_ = w.fr.WriteWindowUpdate(1, 1<<31-1)
	}},
	"data before headers": {"GOAWAY PROTOCOL_ERROR, " + ends, "-", func(w *wire) { w.data(1, true, prefixed("hello")) }},
	"a push": {"GOAWAY PROTOCOL_ERROR, " + ends, "-", func(w *wire) {
		_ = w.fr.WriteRawFrame(http2.FramePushPromise, 4, 1,
			make([]byte, 4))
	}},
}

// What every client sends works with both, and what none should send ends its
// stream or its connection.
func TestSameFrames(t *testing.T) {
	for name, c := range wires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind := range both {
				want := c.want
				if kind == "library" && c.library != "" {
					want = c.library
				}
				if want == "-" {
					continue // which takes for ever to see
				}
				_, addr := start(t, kind)
				w := connect(t, addr)
				c.send(w)
				if got := w.end(1); got != want {
					t.Errorf("%s: got %s, want %s", kind, got, want)
				}
			}
		})
	}
}
