package transport

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/grpcapi/transport/flow"
	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
	"github.com/nesoserve/neso/internal/ledger"
	"github.com/nesoserve/neso/internal/nesotest"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// bytesCodec takes messages as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// echo answers each message with itself; "panic", "fail" and "wait" do what
// they say. unaryEcho also knows "held" and "large".
func echo(_ any, s grpc.ServerStream) error {
	for {
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch string(b) {
		case "panic":
			panic("as asked")
		case "fail":
			return status.Error(codes.DataLoss, "100% grün\n")
		case "wait":
			<-s.Context().Done()
			return s.Context().Err()
		case "later":
			if err := s.(Later).SendLater(&b); err != nil {
				return err
			}
			s.(Later).Flush()
			<-s.Context().Done()
			return s.Context().Err()
		}
		if err := s.SendMsg(&b); err != nil {
			return err
		}
	}
}

func unaryEcho(_ any, s grpc.ServerStream) error {
	var b []byte
	if err := s.RecvMsg(&b); err != nil {
		return err
	}
	switch string(b) {
	case "panic":
		panic("as asked")
	case "fail":
		return status.Error(codes.DataLoss, "100% grün\n")
	case "wait":
		<-s.Context().Done()
		return s.Context().Err()
	case "late":
		<-s.Context().Done()
	case "held":
		<-held
	case "mute":
		b = make([]byte, 100_000)
	case "large":
		b = make([]byte, 100_000)
		s.(Sent).AfterSend(func() { answered <- struct{}{} })
	}
	return s.SendMsg(&b)
}

// answered gets a note for each large answer that has left.
var answered = make(chan struct{}, 1)

// held keeps a call until the test lets it go.
var held = make(chan struct{})

var service = &grpc.ServiceDesc{ServiceName: "test.Echo", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
	{StreamName: "Unary", Handler: unaryEcho}, {StreamName: "Stream", Handler: echo, ServerStreams: true, ClientStreams: true},
}}

// raw is a client that writes frames by hand.
type raw struct {
	t   testing.TB
	nc  net.Conn
	enc *hpack.Encoder
	dec *hpack.Decoder
	buf strings.Builder
	got []string // headers of the present block
	id  uint32
}

// serve starts a server, and stops it at the end of the test.
func serve(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	o.Codec = bytesCodec{}
	o.Logger = slog.New(slog.DiscardHandler)
	s := New(o)
	s.RegisterService(service, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; !errors.Is(err, ErrStopped) {
			t.Errorf("Serve: %v", err)
		}
		nothingHeld(t, s)
	})
	return s, l.Addr().String()
}

// nothingHeld checks a server that has stopped.
func nothingHeld(t testing.TB, s *Server) {
	t.Helper()
	for p, name := range map[ledger.Page]string{ledger.In: "messages", ledger.Out: "answers"} {
		if n := s.o.Ledger.Held(p); n != 0 {
			t.Errorf("%d bytes of %s are still counted", n, name)
		}
	}
	if n := s.ahead.Load(); n != 0 {
		t.Errorf("%d bytes are still made ahead", n)
	}
}

// connect opens a connection; hello says whether the handshake is made.
func connect(t testing.TB, addr string, hello bool) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(5 * time.Minute))
	r := &raw{t: t, nc: nc, id: 1}
	r.enc = hpack.NewEncoder(&r.buf)
	r.dec = hpack.NewDecoder(header.DefaultTableSize, func(f hpack.HeaderField) { r.got = append(r.got, f.Name+"="+f.Value) })
	if hello {
		r.write([]byte(preface))
		r.write(appendFrameHead(nil, 0, frameSettings, 0, 0))
	}
	return r
}

func (r *raw) write(b []byte) {
	r.t.Helper()
	if _, err := r.nc.Write(b); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Logf("write: %v", err) // the server may have ended the connection
	}
}

// headers is a HEADERS frame of a call.
func (r *raw) headers(id uint32, flags byte, path string, more ...string) []byte {
	r.buf.Reset()
	fields := append([]string{
		":method", "POST", ":scheme", "http", ":path", path, ":authority", "x", "content-type", "application/grpc", "te",
		"trailers",
	}, more...)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return append(appendFrameHead(nil, r.buf.Len(), frameHeaders, flags, id), r.buf.String()...)
}

func dataFrame(id uint32, flags byte, b []byte) []byte {
	return append(appendFrameHead(nil, len(b), frameData, flags, id), b...)
}

func prefixed(b string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// call makes a whole unary call.
func (r *raw) call(path, text string, more ...string) uint32 {
	id := r.id
	r.id += 2
	r.write(append(r.headers(id, flagEndHeaders, path, more...), dataFrame(id, flagEndStream, prefixed(text))...))
	return id
}

// frame reads one frame.
func (r *raw) frame() (frameHead, []byte, error) {
	var h [frameHeaderSize]byte
	if _, err := io.ReadFull(r.nc, h[:]); err != nil {
		return frameHead{}, nil, err
	}
	f := parseFrameHead(h[:])
	b := make([]byte, f.length)
	_, err := io.ReadFull(r.nc, b)
	return f, b, err
}

// TestAfterSend: what is to happen when the answer has left waits for a client
// that makes no room for it.
func TestAfterSend(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	id := r.call("/test.Echo/Unary", "large")
	for n := 0; n < flow.Default; {
		f, _, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == frameData {
			n += f.length
		}
	}
	select {
	case <-answered:
		t.Error("called while the answer waits for the client")
	default:
	}
	update := binary.BigEndian.AppendUint32(nil, 1<<20)
	r.write(append(appendFrameHead(nil, 4, frameWindowUpdate, 0, 0), update...))
	r.write(append(appendFrameHead(nil, 4, frameWindowUpdate, 0, id), update...))
	if got := r.answer(id); !strings.Contains(got, "grpc-status=0") {
		t.Error(got)
	}
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Error("never called")
	}
}

// answer reads until the stream or the connection ends, and says how.
func (r *raw) answer(id uint32) string {
	r.t.Helper()
	var out []string
	for {
		f, b, err := r.frame()
		if err != nil {
			return strings.Join(append(out, "connection ended"), " ")
		}
		switch {
		case f.kind == frameGoAway:
			out = append(out, "GOAWAY "+goAwayText(b))
		case f.stream != id:
		case f.kind == frameReset:
			out = append(out, "RST "+codeText(errorCode(binary.BigEndian.Uint32(b))))
			return strings.Join(out, " ")
		case f.kind == frameData:
			out = append(out, "data "+string(b[min(5, len(b)):]))
		case f.kind == frameHeaders:
			r.got = nil
			if _, err := r.dec.Write(b); err != nil {
				r.t.Fatal(err)
			}
			_ = r.dec.Close()
			out = append(out, r.got...)
		}
		if f.stream == id && f.flags&flagEndStream != 0 && (f.kind == frameHeaders || f.kind == frameData) {
			return strings.Join(out, " ")
		}
	}
}

func goAwayText(b []byte) string {
	return codeText(errorCode(binary.BigEndian.Uint32(b[4:]))) + " " + string(b[8:])
}

func codeText(c errorCode) string {
	names := map[errorCode]string{
		codeNone: "NO_ERROR", codeProtocol: "PROTOCOL_ERROR", codeFlowControl: "FLOW_CONTROL_ERROR", codeFrameSize: "FRAME_SIZE_ERROR",
		codeStreamClosed: "STREAM_CLOSED", codeRefusedStream: "REFUSED_STREAM", codeCompression: "COMPRESSION_ERROR",
		codeEnhanceCalm: "ENHANCE_YOUR_CALM",
	}
	return names[c]
}

const ok = ":status=200 content-type=application/grpc data hello grpc-status=0"

func TestAnswers(t *testing.T) {
	_, addr := serve(t, Options{MaxMessage: 1 << 20})
	r := connect(t, addr, true)
	for _, c := range []struct{ path, text, want string }{
		{"/test.Echo/Unary", "hello", ok},
		{"/test.Echo/Unary", "hello", ok}, // by the table now
		{"/test.Echo/Stream", "hello", ok},
		{"/test.Echo/Unary", "fail", ":status=200 content-type=application/grpc grpc-status=15 grpc-message=100%25 gr%C3%BCn%0A"},
		{"/test.Echo/Unary", "panic", ":status=200 content-type=application/grpc grpc-status=13 grpc-message=internal error: as asked"},
		{"/test.Echo/Stream", "panic", ":status=200 content-type=application/grpc grpc-status=13 grpc-message=internal error: as asked"},
		{
			"/test.Echo/Nope", "x",
			":status=200 content-type=application/grpc grpc-status=12 grpc-message=unknown method Nope for service test.Echo",
		},
		{"/nope/Nope", "x", ":status=200 content-type=application/grpc grpc-status=12 grpc-message=unknown service nope"},
		{"nope", "x", `:status=200 content-type=application/grpc grpc-status=12 grpc-message=malformed method name: "nope"`},
		{"/test.Echo/Unary", "hello", ok},
	} {
		if got := r.answer(r.call(c.path, c.text)); got != c.want && got != c.want+" RST NO_ERROR" {
			t.Errorf("%s %s:\n got %s\nwant %s", c.path, c.text, got, c.want)
		}
	}
}

func TestLaterIsFlushed(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	id := r.call("/test.Echo/Stream", "later")
	for {
		f, b, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == frameData {
			if string(b[5:]) != "later" {
				t.Errorf("got %q", b)
			}
			break // while the handler waits
		}
	}
	r.write(appendReset(nil, id, codeCancel))
}

func TestRefusedCalls(t *testing.T) {
	_, addr := serve(t, Options{MaxMessage: 1 << 20})
	r := connect(t, addr, true)
	for want, more := range map[string][]string{
		"grpc-status=13 grpc-message=malformed grpc-timeout": {"grpc-timeout", "1x"},
		"RST PROTOCOL_ERROR": {"connection", "close"},
		"grpc-status=8 grpc-message=the metadata of the call has":                   {"x", strings.Repeat("a", MaxHeaderList-100)},
		"grpc-status=12 grpc-message=grpc: Decompressor is not installed for grpc-": {"grpc-encoding", "zip"},
	} {
		text := "hello"
		id := r.id
		r.id += 2
		body := prefixed(text)
		if strings.Contains(want, "Decompressor") {
			body[0] = 1
		}
		r.write(append(r.headers(id, flagEndHeaders, "/test.Echo/Unary", more...), dataFrame(id, flagEndStream, body)...))
		if got := r.answer(id); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := r.answer(r.call("/test.Echo/Unary", "hello")); got != ok && !strings.HasSuffix(got, "data hello grpc-status=0") {
		t.Errorf("after all that: %s", got)
	}
}

func TestMessageLimits(t *testing.T) {
	s, addr := serve(t, Options{MaxMessage: 1 << 20, Ledger: ledger.New(1 << 19), StreamWindow: 1 << 16, ConnWindow: 1 << 20})
	r := connect(t, addr, true)
	announce := func(size uint32) uint32 {
		id := r.id
		r.id += 2
		r.write(append(r.headers(id, flagEndHeaders, "/test.Echo/Unary"), dataFrame(id, 0, binary.BigEndian.AppendUint32([]byte{0}, size))...))
		return id
	}
	if got := r.answer(announce(1<<20 + 1)); !strings.Contains(got,
		"grpc-status=8 grpc-message=grpc: received message larger than max (1048577 vs. 1048576)") {
		t.Errorf("too large: %s", got)
	}
	first := announce(1 << 18)
	r.answer(r.call("/test.Echo/Unary", "hello")) // it has been seen now
	if n := s.o.Ledger.Held(ledger.In); n != minPiece {
		t.Errorf("%d bytes are counted for a message that has not come", n)
	}
	// It still comes whole, in frames as large as it likes.
	r.write(appendWindowUpdate(appendWindowUpdate(nil, 0, 1<<20), first, 1<<20))
	r.write(dataFrame(first, flagEndStream, make([]byte, 1<<18)))
	if got := r.answer(first); !strings.HasSuffix(got, "grpc-status=0") || len(got) < 1<<18-100 {
		t.Errorf("the first one: %d bytes of %.100s", len(got), got)
	}
	// More than there may be comes nearly whole, and is refused then.
	tooMuch := announce(1 << 20)
	r.write(dataFrame(tooMuch, 0, make([]byte, 1<<19+1)))
	if got := r.answer(tooMuch); !strings.Contains(got,
		"grpc-status=8 grpc-message=524288 bytes of input are more than the server can queue at present") {
		t.Errorf("too much at once: %s", got)
	}
	if id := announce(100); true {
		r.write(dataFrame(id, flagEndStream, []byte("short")))
		if got := r.answer(id); !strings.Contains(got, "a message ends early") {
			t.Errorf("short: %s", got)
		}
	}
}

// TestFaults sends what no client of the protocol sends: the connection, or the
// stream, ends with the right reason, and the server goes on.
func TestFaults(t *testing.T) {
	_, addr := serve(t, Options{MaxMessage: 1 << 20, MaxStreams: 8, StreamWindow: 1 << 16, ConnWindow: 1 << 20})
	head := func(id uint32, flags byte) func(r *raw) []byte {
		return func(r *raw) []byte { return r.headers(id, flags, "/test.Echo/Stream") }
	}
	frame := func(kind, flags byte, id uint32, b ...byte) func(*raw) []byte {
		return func(*raw) []byte { return append(appendFrameHead(nil, len(b), kind, flags, id), b...) }
	}
	for name, c := range map[string]struct {
		frames []func(*raw) []byte
		want   string
	}{
		"even stream":         {[]func(*raw) []byte{head(2, flagEndHeaders)}, "GOAWAY PROTOCOL_ERROR"},
		"stream 0":            {[]func(*raw) []byte{head(0, flagEndHeaders)}, "GOAWAY PROTOCOL_ERROR"},
		"headers twice":       {[]func(*raw) []byte{head(1, flagEndHeaders), head(1, flagEndHeaders)}, "RST PROTOCOL_ERROR"},
		"bad compression":     {[]func(*raw) []byte{frame(frameHeaders, flagEndHeaders, 1, 0xff, 0xff, 0xff)}, "GOAWAY COMPRESSION_ERROR"},
		"padding too long":    {[]func(*raw) []byte{frame(frameHeaders, flagEndHeaders|flagPadded, 1, 9, 0)}, "GOAWAY PROTOCOL_ERROR"},
		"no continuation":     {[]func(*raw) []byte{head(1, 0), frame(framePing, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8)}, "GOAWAY PROTOCOL_ERROR"},
		"continuation alone":  {[]func(*raw) []byte{frame(frameContinuation, 0, 1)}, "GOAWAY PROTOCOL_ERROR"},
		"empty continuations": {[]func(*raw) []byte{head(1, 0), frame(frameContinuation, 0, 1)}, "GOAWAY ENHANCE_YOUR_CALM"},
		"data of no stream":   {[]func(*raw) []byte{frame(frameData, 0, 5, 1)}, "GOAWAY PROTOCOL_ERROR"},
		"data of stream 0":    {[]func(*raw) []byte{frame(frameData, 0, 0, 1)}, "GOAWAY PROTOCOL_ERROR"},
		"data after the end": {[]func(*raw) []byte{
			head(1, flagEndHeaders),
			func(*raw) []byte { return dataFrame(1, flagEndStream, prefixed("wait")) }, frame(frameData, 0, 1, 1),
		}, "RST STREAM_CLOSED"},
		"beyond the window": {[]func(*raw) []byte{
			head(1, flagEndHeaders),
			func(*raw) []byte { return dataFrame(1, 0, make([]byte, 1<<17)) },
		}, "RST FLOW_CONTROL_ERROR"},
		"frame too long": {
			[]func(*raw) []byte{func(*raw) []byte { return appendFrameHead(nil, maxFrame+1, frameData, 0, 1) }},
			"GOAWAY FRAME_SIZE_ERROR",
		},
		"ping of 7 bytes":        {[]func(*raw) []byte{frame(framePing, 0, 0, 1, 2, 3, 4, 5, 6, 7)}, "GOAWAY FRAME_SIZE_ERROR"},
		"reset of no stream":     {[]func(*raw) []byte{frame(frameReset, 0, 7, 0, 0, 0, 0)}, "GOAWAY PROTOCOL_ERROR"},
		"settings of 5 bytes":    {[]func(*raw) []byte{frame(frameSettings, 0, 0, 1, 2, 3, 4, 5)}, "GOAWAY FRAME_SIZE_ERROR"},
		"settings of a stream":   {[]func(*raw) []byte{frame(frameSettings, 0, 1)}, "GOAWAY PROTOCOL_ERROR"},
		"too small a frame size": {[]func(*raw) []byte{frame(frameSettings, 0, 0, 0, 5, 0, 0, 0, 1)}, "GOAWAY PROTOCOL_ERROR"},
		"window of 0":            {[]func(*raw) []byte{frame(frameWindowUpdate, 0, 0, 0, 0, 0, 0)}, "GOAWAY PROTOCOL_ERROR"},
		"window too large":       {[]func(*raw) []byte{frame(frameWindowUpdate, 0, 0, 0x7f, 0xff, 0xff, 0xff)}, "GOAWAY FLOW_CONTROL_ERROR"},
		"window of a stream of 0": {
			[]func(*raw) []byte{head(1, flagEndHeaders), frame(frameWindowUpdate, 0, 1, 0, 0, 0, 0)},
			"RST PROTOCOL_ERROR",
		},
		"push promise": {[]func(*raw) []byte{frame(framePushPromise, 0, 1)}, "GOAWAY PROTOCOL_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			r := connect(t, addr, true)
			for _, f := range c.frames {
				r.write(f(r))
			}
			if got := r.answer(1); !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	r := connect(t, addr, true)
	if got := r.answer(r.call("/test.Echo/Unary", "hello")); got != ok {
		t.Errorf("after all that: %s", got)
	}
}

func TestTooManyStreams(t *testing.T) {
	_, addr := serve(t, Options{MaxStreams: 2})
	r := connect(t, addr, true)
	r.call("/test.Echo/Unary", "wait")
	r.call("/test.Echo/Unary", "wait")
	if got := r.answer(r.call("/test.Echo/Unary", "hello")); got != "RST REFUSED_STREAM" {
		t.Errorf("got %s", got)
	}
	// Streams that are reset at once do not make room while their handlers run.
	for _, id := range []uint32{1, 3} {
		r.write(appendReset(nil, id, codeCancel))
	}
	for {
		if got := r.answer(r.call("/test.Echo/Unary", "hello")); got == ok {
			break
		} else if got != "RST REFUSED_STREAM" {
			t.Fatalf("got %s", got)
		}
	}
}

func TestTooManyPings(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	for range 2 * maxStrikes {
		r.write(appendPing(nil, 0, [8]byte{}))
	}
	if got := r.answer(1); !strings.Contains(got, "GOAWAY ENHANCE_YOUR_CALM too_many_pings") {
		t.Errorf("got %s", got)
	}
}

func TestDeadlineAndCancel(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	for _, text := range []string{"wait", "late"} {
		if got := r.answer(r.call("/test.Echo/Unary", text, "grpc-timeout", "10m")); !strings.Contains(got,
			"grpc-status=4 grpc-message=Deadline Exceeded") {
			t.Errorf("%s: got %s", text, got)
		}
	}
	id := r.call("/test.Echo/Stream", "wait")
	r.write(appendReset(nil, id, codeCancel))
	if got := r.answer(r.call("/test.Echo/Unary", "hello")); !strings.HasSuffix(got, "data hello grpc-status=0") {
		t.Errorf("got %s", got)
	}
}

// TestSlowReader has a client that makes no room: its answers wait, and others
// go on.
func TestSlowReader(t *testing.T) {
	_, addr := serve(t, Options{MaxMessage: 1 << 20})
	slow := connect(t, addr, true)
	slow.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 10)...))
	id := slow.call("/test.Echo/Unary", strings.Repeat("x", 100))
	other := connect(t, addr, true)
	if got := other.answer(other.call("/test.Echo/Unary", "hello")); got != ok {
		t.Errorf("other client: %s", got)
	}
	slow.write(appendWindowUpdate(nil, id, 95))
	got := slow.answer(id)
	if n := strings.Count(got, "x"); !strings.Contains(got, "grpc-status=0") || n < 90 {
		t.Errorf("got %s", got)
	}
}

func TestTableSizes(t *testing.T) {
	_, addr := serve(t, Options{})
	for _, size := range []uint32{0, 50, 4096, 1 << 20} {
		r := connect(t, addr, true)
		r.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingTableSize, size)...))
		r.dec.SetAllowedMaxDynamicTableSize(min(size, header.DefaultTableSize))
		for range 3 {
			if got := r.answer(r.call("/test.Echo/Unary", "hello")); got != ok {
				t.Errorf("table of %d: %s", size, got)
			}
		}
	}
}

func TestHello(t *testing.T) {
	s, addr := serve(t, Options{})
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", preface + string(appendPing(nil, 0, [8]byte{}))} {
		r := connect(t, addr, false)
		r.write([]byte(text))
		if got := r.answer(1); !strings.Contains(got, "connection ended") {
			t.Errorf("%.10q: got %s", text, got)
		}
	}
	silent := connect(t, addr, false)
	done := make(chan struct{})
	go func() { defer close(done); s.GracefulStop() }()
	if got := silent.answer(1); got != "connection ended" {
		t.Errorf("silent: got %s", got)
	}
	<-done
}

func TestGracefulStop(t *testing.T) {
	s, addr := serve(t, Options{})
	r := connect(t, addr, true)
	waiting := r.call("/test.Echo/Unary", "held")
	if got := r.answer(r.call("/test.Echo/Unary", "hello")); got != ok {
		t.Fatalf("got %s", got)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.GracefulStop() }()
	for {
		f, b, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == frameGoAway {
			if got := goAwayText(b); !strings.Contains(got, "NO_ERROR") {
				t.Errorf("GOAWAY %s", got)
			}
			break
		}
	}
	held <- struct{}{}
	if got := r.answer(waiting); !strings.Contains(got, "data held grpc-status=0") {
		t.Errorf("the call in flight: %s", got)
	}
	if got := r.answer(99); !strings.Contains(got, "connection ended") {
		t.Errorf("afterwards: %s", got)
	}
	r.nc.Close()
	<-done
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("still listening")
	}
}

func FuzzConnection(f *testing.F) {
	r := &raw{t: f}
	r.enc = hpack.NewEncoder(&r.buf)
	good := append(r.headers(1, flagEndHeaders, "/test.Echo/Unary"), dataFrame(1, flagEndStream, prefixed("hello"))...)
	f.Add(append(appendFrameHead(nil, 0, frameSettings, 0, 0), good...))
	f.Add(append(appendFrameHead(nil, 0, frameSettings, 0, 0), r.headers(3, flagEndHeaders, "/test.Echo/Stream", "grpc-timeout", "1m")...))
	f.Add(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 0)...))
	f.Add(appendWindowUpdate(appendFrameHead(nil, 0, frameSettings, 0, 0), 0, 1))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := New(Options{Codec: bytesCodec{}, MaxMessage: 1 << 16, MaxStreams: 4})
		s.RegisterService(service, nil)
		client, server := net.Pipe()
		s.admit(server)
		go func() { _, _ = io.Copy(io.Discard, client) }()
		_, _ = client.Write(append([]byte(preface), in...))
		client.Close()
		s.Stop()
		nothingHeld(t, s)
	})
}
