package transport

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/nesoserve/neso/internal/grpcapi/transport/header"
	"github.com/nesoserve/neso/internal/ledger"
)

// pipe is a client whose connection has no buffers: what the server does not
// read stays with the client, and the other way round.
func pipe(t *testing.T, s *Server) (*raw, *conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close() })
	s.admit(far)
	r := &raw{t: t, nc: near, id: 1}
	r.enc = hpack.NewEncoder(&r.buf)
	r.dec = hpack.NewDecoder(header.DefaultTableSize, func(f hpack.HeaderField) { r.got = append(r.got, f.Name+"="+f.Value) })
	go r.write([]byte(preface))
	f, _, err := r.frame()
	if err != nil || f.kind != frameSettings {
		t.Fatalf("%+v: %v", f, err)
	}
	if f, _, err = r.frame(); f.kind != frameWindowUpdate {
		t.Fatalf("%+v: %v", f, err)
	}
	for {
		s.mu.Lock()
		for c := range s.conns {
			if c.peer.Addr == far.RemoteAddr() || len(s.conns) == 1 {
				s.mu.Unlock()
				return r, c
			}
		}
		s.mu.Unlock()
	}
}

func newServer(t *testing.T, o Options) *Server {
	o.Codec = bytesCodec{}
	s := New(o)
	s.RegisterService(service, nil)
	t.Cleanup(func() {
		s.Stop()
		nothingHeld(t, s)
	})
	return s
}

// Whoever makes calls that no handler answers, and does not read the answers, is
// read no further: what is to be sent does not grow. All are answered in the end.
func TestUnreadAnswers(t *testing.T) {
	s := newServer(t, Options{ConnWindow: 1 << 20})
	r, c := pipe(t, s)
	const calls = 100_000
	long := "/" + strings.Repeat("n", 3000) + "/m"
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.write(appendFrameHead(nil, 0, frameSettings, 0, 0))
		for i := range uint32(calls) {
			r.write(r.headers(1+2*i, flagEndHeaders|flagEndStream, long))
		}
	}()
	for !c.choked.Load() {
		select {
		case <-sent:
			t.Fatal("all calls were taken, and no answer was")
		default:
			runtime.Gosched()
		}
	}
	c.mu.Lock()
	if n := len(c.out); n > maxOut+64<<10 {
		t.Errorf("%d bytes wait to be written", n)
	}
	c.mu.Unlock()
	for answers := 0; answers < calls; {
		f, b, err := r.frame()
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}
		if f.kind == frameHeaders {
			answers++
			if f.length > 1000 {
				t.Fatalf("an answer of %d bytes: %q", f.length, b)
			}
		}
	}
	<-sent
}

// Who does not read at all is sent away.
func TestUnreadForever(t *testing.T) {
	s := newServer(t, Options{ConnWindow: 1 << 20, Patience: 50 * time.Millisecond})
	r, _ := pipe(t, s)
	for i, b := uint32(0), appendFrameHead(nil, 0, frameSettings, 0, 0); ; i++ {
		if _, err := r.nc.Write(b); err != nil {
			return
		}
		b = r.headers(1+2*i, flagEndHeaders|flagEndStream, "/x/y")
	}
}

// A message holds what has come of it, not what its prefix declares.
func TestDeclaredIsNotHeld(t *testing.T) {
	l := ledger.New(64 << 20)
	_, addr := serve(t, Options{MaxMessage: 64 << 20, StreamWindow: 2 << 20, ConnWindow: 16 << 20, Ledger: l})
	attacker := connect(t, addr, true)
	for range 200 {
		id := attacker.id
		attacker.id += 2
		attacker.write(append(attacker.headers(id, flagEndHeaders, "/test.Echo/Unary"),
			dataFrame(id, 0, binary.BigEndian.AppendUint32([]byte{0}, 64<<20))...))
	}
	attacker.answer(attacker.call("/test.Echo/Unary", "hello")) // all of it has been seen
	if n := l.Held(ledger.In); n > 1<<20 {
		t.Errorf("%d bytes are held for %d that have come", n, 200*5)
	}
	other := connect(t, addr, true)
	roomy(other)
	if got := other.answer(other.call("/test.Echo/Unary", strings.Repeat("x", 900_000))); !strings.HasSuffix(got, "grpc-status=0") {
		t.Errorf("another client: %.200s", got)
	}
}

// Small messages that nobody reads are counted, too.
func TestSmallMessagesAreCounted(t *testing.T) {
	l := ledger.New(1 << 20)
	_, addr := serve(t, Options{StreamWindow: 1 << 20, ConnWindow: 4 << 20, Ledger: l})
	r := connect(t, addr, true)
	r.write(r.headers(1, flagEndHeaders, "/test.Echo/Stream"))
	r.write(dataFrame(1, 0, prefixed("wait")))
	many := bytes.Repeat(prefixed(""), 20_000) // 100 KB on the wire, 3 MB in memory
	for len(many) > 0 {
		n := min(len(many), 16000)
		r.write(dataFrame(1, 0, many[:n]))
		many = many[n:]
	}
	if got := r.answer(1); !strings.Contains(got, "grpc-status=8") {
		t.Errorf("got %s", got)
	}
	if n := l.Held(ledger.In); n > 1<<20 {
		t.Errorf("%d bytes are held", n)
	}
}

// A message that stands still ends its call, in the middle of a frame its
// connection.
func TestSlowMessages(t *testing.T) {
	_, addr := serve(t, Options{MaxMessage: 1 << 20, Patience: 50 * time.Millisecond})
	r := connect(t, addr, true)
	for _, body := range [][]byte{{0}, {0, 0, 0, 0, 9, 'x'}, binary.BigEndian.AppendUint32([]byte{0}, 1<<20)} {
		for _, path := range []string{"/test.Echo/Unary", "/test.Echo/Stream"} {
			id := r.id
			r.id += 2
			r.write(append(r.headers(id, flagEndHeaders, path), dataFrame(id, 0, body)...))
			if got := r.answer(id); !strings.Contains(got, "grpc-status=4 grpc-message=the message did not arrive in time") {
				t.Errorf("%s %v: got %s", path, body, got)
			}
		}
	}
	id := r.id
	r.write(append(r.headers(id, flagEndHeaders, "/test.Echo/Unary"), appendFrameHead(nil, 60_000, frameData, 0, id)...))
	r.write(binary.BigEndian.AppendUint32([]byte{0}, 59_000))
	if got := r.answer(id); got != "connection ended" {
		t.Errorf("in the middle of a frame: got %s", got)
	}
}

// Answers that the client makes no room for are counted, and do not wait forever.
func TestAnswersNotTaken(t *testing.T) {
	l := ledger.New(1 << 20) // for answers there are 64 MiB
	_, addr := serve(t, Options{Ledger: l})
	r := connect(t, addr, true)
	r.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 0)...))
	// Where there is no room, an answer is refused.
	l.Take(ledger.Out, l.Limit(ledger.Out))
	if got := r.answer(r.call("/test.Echo/Unary", "mute")); !strings.Contains(got, "grpc-status=8 grpc-message=an answer of") {
		t.Errorf("got %s", got)
	}
	l.Give(ledger.Out, l.Limit(ledger.Out))
	// Those that have stood still for long give way to others.
	const calls = 1000 // of 100 KB each
	for range calls {
		r.call("/test.Echo/Unary", "mute")
	}
	refused := 0
	for refused < calls-int((64<<20)/(100_000+callCost))-1 {
		f, b, err := r.frame()
		if err != nil {
			t.Fatalf("after %d: %v", refused, err)
		}
		if f.kind == frameHeaders && f.flags&flagEndStream != 0 {
			refused++
			r.got = nil
			_, _ = r.dec.Write(b)
			if got := strings.Join(r.got, " "); !strings.Contains(got, "grpc-status=8 grpc-message=an answer of") &&
				!strings.Contains(got, "grpc-status=4 grpc-message=the client did not take the answer in time") {
				t.Fatalf("got %s", got)
			}
		} else if f.kind == frameHeaders {
			_, _ = r.dec.Write(b)
		}
	}
	if n := l.Held(ledger.Out); n > 64<<20 {
		t.Errorf("%d bytes are held", n)
	}
}

// What ends after its connection counts nothing any more.
func TestClosedConnectionHoldsNothing(t *testing.T) {
	s := newServer(t, Options{ConnWindow: 1 << 20})
	_, c := pipe(t, s)
	c.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = make([]byte, freeOut+1)
	if !c.takeRoomLocked() || s.o.Ledger.Held(ledger.Out) != 0 {
		t.Errorf("%d bytes are counted", s.o.Ledger.Held(ledger.Out))
	}
}

func TestAnswersNotTakenInTime(t *testing.T) {
	_, addr := serve(t, Options{Patience: 50 * time.Millisecond})
	r := connect(t, addr, true)
	r.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 10)...))
	for _, path := range []string{"/test.Echo/Unary", "/test.Echo/Stream"} {
		if got := r.answer(r.call(path, strings.Repeat("x", 100))); !strings.Contains(got,
			"grpc-status=4 grpc-message=the client did not take the answer in time") {
			t.Errorf("%s: got %s", path, got)
		}
	}
}

// An update of a window wakes the sender that it is for.
func TestUpdatesWakeOne(t *testing.T) {
	s, addr := serve(t, Options{})
	r := connect(t, addr, true)
	r.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 0)...))
	const calls, updates = 2000, 500
	for range calls {
		r.call("/test.Echo/Unary", "hello")
	}
	c := connOf(s)
	for heads := 0; heads < calls; { // then all senders wait for their windows
		f, _, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == frameHeaders {
			heads++
		}
	}
	for range updates {
		r.write(appendWindowUpdate(nil, 0, 1))
		r.write(appendWindowUpdate(nil, 1, 1))
	}
	for n := 0; n < 10; {
		f, _, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == frameData {
			n += f.length
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wakes > 3*updates {
		t.Errorf("%d senders were woken for %d updates", c.wakes, 2*updates)
	}
}

// Frames that move no call forward are answered by ENHANCE_YOUR_CALM, once there
// are many of them.
func TestFloods(t *testing.T) {
	_, addr := serve(t, Options{MinPingInterval: time.Nanosecond, PingsWithoutCalls: true})
	fixed := func(b []byte) func(*raw, uint32) []byte { return func(*raw, uint32) []byte { return b } }
	for name, frame := range map[string]func(r *raw, id uint32) []byte{
		"SETTINGS":      fixed(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingInitialWindow, 1<<16)...)),
		"PING":          fixed(appendPing(nil, 0, [8]byte{})),
		"PING answered": fixed(appendPing(nil, flagAck, [8]byte{})),
		"PRIORITY":      fixed(append(appendFrameHead(nil, 5, framePriority, 0, 1), 0, 0, 0, 0, 0)),
		"unknown":       fixed(appendFrameHead(nil, 0, 0x77, 0, 0)),
		"WINDOW_UPDATE": fixed(appendWindowUpdate(nil, 0, 1)),
		"empty DATA":    fixed(appendFrameHead(nil, 0, frameData, 0, 1)),
		"RST_STREAM": func(r *raw, id uint32) []byte {
			return appendReset(append(r.headers(id, flagEndHeaders, "/test.Echo/Unary"), dataFrame(id, flagEndStream, prefixed("wait"))...), id,
				codeCancel)
		},
		"made to reset": func(r *raw, id uint32) []byte {
			return appendWindowUpdate(append(r.headers(id, flagEndHeaders, "/test.Echo/Unary"), dataFrame(id, flagEndStream, prefixed("wait"))...),
				id, 0)
		},
		"malformed": func(r *raw, id uint32) []byte {
			return r.headers(id, flagEndHeaders|flagEndStream, "/test.Echo/Unary", "connection", "x")
		},
		"CONTINUATION": func(r *raw, id uint32) []byte {
			if id > 3 {
				return append(appendFrameHead(nil, 1, frameContinuation, 0, 3), 0x82)
			}
			return r.headers(id, 0, "/test.Echo/Unary")
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			r := connect(t, addr, true)
			r.write(r.headers(1, flagEndHeaders, "/test.Echo/Stream"))
			most := 0
			written := make(chan struct{})
			go func() {
				defer close(written)
				for id := uint32(3); id < 400_000; id += 200 {
					var b []byte
					for i := range uint32(100) {
						b = append(b, frame(r, id+2*i)...)
					}
					most = max(most, runtime.NumGoroutine()-before)
					if _, err := r.nc.Write(b); err != nil {
						return
					}
				}
			}()
			got := ""
			for {
				f, b, err := r.frame()
				if err != nil {
					break
				}
				if f.kind == frameGoAway {
					got = goAwayText(b)
				}
			}
			<-written
			if !strings.HasPrefix(got, "ENHANCE_YOUR_CALM") {
				t.Errorf("got %q", got)
			}
			if most > 3*maxOrphans {
				t.Errorf("%d goroutines", most)
			}
		})
	}
}

// A client that works may reset calls, and update windows, as long as it likes.
func TestBudgetOfWork(t *testing.T) {
	c := &conn{}
	c.debt = -mostPoints * pointTime
	for i := range 100_000 {
		c.earnLocked(creditCall + creditData)
		for range 4 {
			if err := c.spendLocked(costFrame); err != nil {
				t.Fatalf("after %d calls: %v", i, err)
			}
		}
	}
}

// A smaller header table is acknowledged by the next block of headers, which
// clients insist on.
func TestTableIsAcknowledged(t *testing.T) {
	_, addr := serve(t, Options{})
	for _, size := range []uint32{0, 30, 31, 104, 200, 1000, 4095} {
		for _, path := range []string{"/test.Echo/Unary", "/test.Echo/Nope"} {
			r := connect(t, addr, true)
			r.answer(r.call("/test.Echo/Unary", "hello"))
			r.write(append(appendFrameHead(nil, 6, frameSettings, 0, 0), appendSetting(nil, settingTableSize, size)...))
			r.call(path, "hello")
			for {
				f, b, err := r.frame()
				if err != nil {
					t.Fatal(err)
				}
				if f.kind != frameHeaders {
					continue
				}
				if b[0]&0xe0 != 0x20 {
					t.Errorf("a table of %d: the block begins with %#x", size, b[0])
				}
				n := uint64(b[0] & 0x1f)
				if n == 0x1f {
					more, _ := binary.Uvarint(b[1:])
					n += more
				}
				if n > uint64(size) {
					t.Errorf("a table of %d: the server says %d", size, n)
				}
				break
			}
		}
	}
}

// Padding is given back: a stream goes on as long as it likes.
func TestPaddingIsGivenBack(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	r.write(r.headers(1, flagEndHeaders, "/test.Echo/Stream"))
	m := prefixed("x")
	frame := appendFrameHead(nil, 1+len(m)+255, frameData, flagPadded, 1)
	frame = append(append(append(frame, 255), m...), make([]byte, 255)...)
	for i := range 20_000 {
		r.write(frame)
		for n := 0; n < len(m); {
			f, b, err := r.frame()
			if err != nil {
				t.Fatalf("after %d messages: %v", i, err)
			}
			switch f.kind {
			case frameData:
				n += len(b)
			case frameHeaders, frameSettings, frameWindowUpdate:
			default:
				t.Fatalf("after %d messages: %+v %s", i, f, b)
			}
		}
		if i%1000 == 0 {
			r.write(appendWindowUpdate(appendWindowUpdate(nil, 0, 6000), 1, 6000))
		}
	}
}

// A call with too much metadata ends alone.
func TestLongMetadata(t *testing.T) {
	_, addr := serve(t, Options{})
	one := []string{"x", strings.Repeat("a~", 100<<10)}
	var many []string
	for i := range 3000 {
		many = append(many, fmt.Sprintf("x-%d", i), strings.Repeat("b", 30))
	}
	for name, more := range map[string][]string{"one": one, "many": many} {
		for _, piece := range []int{1 << 20, 16384, 1000} {
			r := connect(t, addr, true)
			b := r.headers(1, flagEndStream, "/test.Echo/Unary", more...)
			block := b[frameHeaderSize:]
			flags := byte(flagEndStream)
			for kind := byte(frameHeaders); len(block) > 0; kind = frameContinuation {
				n := min(len(block), piece)
				if n == len(block) {
					flags |= flagEndHeaders
				}
				r.write(append(appendFrameHead(nil, n, kind, flags, 1), block[:n]...))
				block, flags = block[n:], 0
			}
			if got := r.answer(1); !strings.Contains(got, "grpc-status=8 grpc-message=the metadata of the call has") {
				t.Errorf("%s in pieces of %d: got %.200s", name, piece, got)
			}
			r.id = 3
			if got := r.answer(r.call("/test.Echo/Unary", "hello")); !strings.HasSuffix(got, "data hello grpc-status=0") {
				t.Errorf("%s in pieces of %d, the next call: got %.200s", name, piece, got)
			}
		}
	}
}

// The time for the handshake covers the client's settings.
func TestPrefaceAlone(t *testing.T) {
	_, addr := serve(t, Options{Hello: 50 * time.Millisecond})
	r := connect(t, addr, false)
	r.write([]byte(preface))
	if got := r.answer(1); got != "connection ended" {
		t.Errorf("got %s", got)
	}
}

// gzipped is a compressor of the library's kind without any bound.
type gzipped struct{}

func (gzipped) Name() string { return "gzip" }

func (gzipped) Compress(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }

func (gzipped) Decompress(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }

func bomb(t *testing.T, head string, size int) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(head))
	_, _ = w.Write(make([]byte, size))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What messages are inflated to is counted while it is made, and its beginning is
// looked at before there is more.
func TestInflation(t *testing.T) {
	l := ledger.New(8 << 20)
	most := int64(0)
	known := func(_ context.Context, method string, head []byte) error {
		most = max(most, l.Held(ledger.In))
		if len(head) > minPiece || method != "/test.Echo/Unary" {
			t.Errorf("%s: asked with %d bytes", method, len(head))
		}
		if bytes.HasPrefix(head, []byte("unknown")) {
			return status.Error(codes.NotFound, "no such model")
		}
		return nil
	}
	_, addr := serve(t, Options{MaxMessage: 1 << 30, Ledger: l, Compressors: map[string]encoding.Compressor{"gzip": gzipped{}}, Known: known})
	for head, want := range map[string]string{
		"unknown": "grpc-status=5 grpc-message=no such model",
		"known":   "grpc-status=8 grpc-message=1048576 bytes of input are more than the server can queue",
	} {
		r := connect(t, addr, true)
		body := prefixed(bomb(t, head, 64<<20))
		body[0] = 1
		r.write(append(r.headers(1, flagEndHeaders, "/test.Echo/Unary", "grpc-encoding", "gzip"), dataFrame(1, flagEndStream, body)...))
		if got := r.answer(1); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", head, got)
		}
	}
	if most > 256<<10 {
		t.Errorf("%d bytes are held when the model is looked for", most)
	}
	small := prefixed(bomb(t, "hello", 0))
	small[0] = 1
	r := connect(t, addr, true)
	r.write(append(r.headers(1, flagEndHeaders, "/test.Echo/Unary", "grpc-encoding", "gzip"), dataFrame(1, flagEndStream, small)...))
	if got := r.answer(1); got != ok {
		t.Errorf("got %s", got)
	}
}

// What is no call of gRPC gets an answer of HTTP.
func TestPlainHTTP(t *testing.T) {
	_, addr := serve(t, Options{})
	r := connect(t, addr, true)
	for i, c := range []struct{ method, contentType, want string }{
		{"GET", "", ":status=405 content-type=text/plain; charset=utf-8 data this port speaks gRPC, which is POST with content-type " +
			"application/grpc\n grpc-status=13"},
		{"OPTIONS", "", ":status=405 content-type=text/plain; charset=utf-8 data this port"}, // a page that asks whether it may
		{"POST", "text/html", ":status=415 content-type=text/plain; charset=utf-8 data this port"},
	} {
		id := uint32(1 + 2*i)
		r.buf.Reset()
		for _, f := range [][2]string{{":method", c.method}, {":scheme", "http"}, {":path", "/"}, {"content-type", c.contentType}} {
			_ = r.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		r.write(append(appendFrameHead(nil, r.buf.Len(), frameHeaders, flagEndHeaders, id), r.buf.String()...))
		r.write(dataFrame(id, flagEndStream, []byte("whatever")))
		if got := r.answer(id); !strings.HasPrefix(got, c.want) {
			t.Errorf("got %s", got)
		}
	}
}
