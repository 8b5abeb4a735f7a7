package drive

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// raw is a server that says what it likes: serve is called for each connection, and
// the connection is closed behind it.
func raw(t *testing.T, serve func(net.Conn)) *Dialer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); group.Wait() })
	return &Dialer{Address: l.Addr().String(), Timeout: 10 * time.Second}
}

// failure is what kind of failure err is, with its text.
func failure(err error) string {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		return "none"
	}
	return f.Error()
}

const chunked = "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// TestHostileHTTP: what a server says beside the protocol, or too much of, is a
// failure that says so, and takes no memory.
func TestHostileHTTP(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"length too large": {"200 OK\r\nContent-Length: 2000000000\r\n\r\n", "malformed answer: an answer of more than 1073741824 bytes"},
		"length of 17 digits": {
			"200 OK\r\nContent-Length: 10000000000000000\r\n\r\n", `malformed answer: a length "10000000000000000"`,
		},
		"length below 0":   {"200 OK\r\nContent-Length: -1\r\n\r\n", `malformed answer: a length "-1"`},
		"no length":        {"200 OK\r\n\r\n", "malformed answer: an answer without a length"},
		"chunk too large":  {chunked + "fffffffff\r\n", "malformed answer: an answer of more than"},
		"chunk of no size": {chunked + "zz\r\n", `malformed answer: a chunk of the size "zz"`},
		"chunk below 0":    {chunked + "-1\r\n", `malformed answer: a chunk of the size "-1"`},
		"chunk and more":   {chunked + "1\r\nabc\r\n", `malformed answer: "bc" behind a chunk`},
		"endless head":     {"200 OK\r\nX: " + strings.Repeat("a", 300<<10), "malformed answer: expected HTTP/1.1"},
		"endless chunk":    {chunked + strings.Repeat("1", 300<<10), "malformed answer: a line without end"},
		"endless trailers": {
			chunked + "0\r\n" + strings.Repeat("X: yyyy\r\n", 50<<10), "malformed answer: trailers without end",
		},
		"status":                   {"2x0 OK\r\nContent-Length: 0\r\n\r\n", `malformed answer: a status "2x0"`},
		"header":                   {"200 OK\r\nnothing\r\n\r\n", `malformed answer: a header "nothing"`},
		"end in the body":          {"200 OK\r\nContent-Length: 10\r\n\r\nabc", "connection closed by the server"},
		"end in place of a length": {"200 OK\r\nConnection: close\r\n\r\nabc", "none"},
		"end in an error":          {"500 No\r\nConnection: close\r\n\r\nabc", "HTTP 500: abc"},
		"end in the head":          {"200 OK\r\nContent-", "connection closed by the server"},
		"continue first":           {"100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "none"},
		"no content":               {"204 No Content\r\n\r\n", "HTTP 204"},
		"trailers":                 {chunked + "3;x=y\r\nabc\r\n0\r\nX: y\r\nZ: a\r\n\r\n", "none"},
		"an error, at length": {
			"500 No\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("e", 1000000), "HTTP 500: " + strings.Repeat("e", 300),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := raw(t, func(conn net.Conn) {
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 "+c.answer)
				if !strings.HasPrefix(name, "end in") {
					_, _ = io.Copy(io.Discard, conn) // until the client has what it needs
				}
			})
			conn := HTTP(d, false)
			a := Answer{Keep: true}
			got := failure(conn.Do(httpRequest(t, 8), &a))
			conn.Close()
			if !strings.HasPrefix(got, c.want) || cap(a.Body) > 1<<20 {
				t.Errorf("got %.200q, want %q; %d bytes are kept", got, c.want, cap(a.Body))
			}
		})
	}
}

// http2Server is a server of HTTP/2 that says what it likes: serve is called once the
// settings have been sent.
func http2Server(t *testing.T, serve func(*http2.Framer, net.Conn)) *Dialer {
	return raw(t, func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		f.AllowIllegalWrites = true
		if f.WriteSettings() == nil {
			serve(f, c)
		}
	})
}

// untilHeaders reads frames until a request begins, and returns its stream.
func untilHeaders(f *http2.Framer) uint32 {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0
		}
		if frame.Header().Type == http2.FrameHeaders {
			return frame.Header().StreamID
		}
	}
}

// drain reads until the client closes.
func drain(f *http2.Framer) {
	for {
		if _, err := f.ReadFrame(); err != nil {
			return
		}
	}
}

func block(fields ...string) []byte {
	var b strings.Builder
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // into memory
	}
	return []byte(b.String())
}

func trailers(f *http2.Framer, id uint32, fields ...string) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(fields...), EndHeaders: true, EndStream: true})
}

// TestHostileGRPC: the same of HTTP/2.
func TestHostileGRPC(t *testing.T) {
	setting := func(id http2.SettingID, v uint32) func(*http2.Framer, uint32) error {
		return func(f *http2.Framer, _ uint32) error { return f.WriteSettings(http2.Setting{ID: id, Val: v}) }
	}
	frame := func(kind http2.FrameType, flags http2.Flags, payload string) func(*http2.Framer, uint32) error {
		return func(f *http2.Framer, id uint32) error { return f.WriteRawFrame(kind, flags, id, []byte(payload)) }
	}
	for name, c := range map[string]struct {
		answer func(*http2.Framer, uint32) error
		want   string
	}{
		"frames of nothing":  {setting(http2.SettingMaxFrameSize, 0), "malformed answer: frames of at most 0 bytes"},
		"window too large":   {setting(http2.SettingInitialWindowSize, 1<<32-1), "malformed answer: a window of 4294967295 bytes"},
		"frame too large":    {frame(http2.FramePing, 0, strings.Repeat("p", 2<<20)), "malformed answer: a frame of 2097152 bytes"},
		"padding, no length": {frame(http2.FrameData, http2.FlagDataPadded, ""), "malformed answer: a frame without its padding"},
		"padding": {
			frame(http2.FrameData, http2.FlagDataPadded, "\x09abc"), "malformed answer: a frame with more padding than length",
		},
		"padding of headers": {
			frame(http2.FrameHeaders, http2.FlagHeadersPadded, "\x09abc"), "malformed answer: a frame with more padding than length",
		},
		"garbage in headers": {frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, "\xff\xff\xff\xff\xff\xff"), "malformed answer: headers: "},
		"headers without end": {func(f *http2.Framer, id uint32) error {
			err := f.WriteRawFrame(http2.FrameHeaders, 0, id, nil)
			for range 300 {
				err = errors.Join(err, f.WriteRawFrame(http2.FrameContinuation, 0, id, make([]byte, 1<<10)))
			}
			return err
		}, "malformed answer: headers of "},
		"message too large":  {frame(http2.FrameData, 0, "\x00\xff\xff\xff\xff"), "malformed answer: an answer of more than 1073741824 bytes"},
		"compressed garbage": {frame(http2.FrameData, 0, "\x01\x00\x00\x00\x03abc"), "malformed answer: a message compressed by gzip: "},
		"reset":              {frame(http2.FrameRSTStream, 0, "\x00\x00\x00\x07"), "RST_STREAM: the server has reset the stream, error 7"},
		"leaving": {
			func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, []byte("bye")) }, "GOAWAY: bye",
		},
		"status unknown": {
			func(f *http2.Framer, id uint32) error {
				return trailers(f, id, ":status", "200", "grpc-status", "99999")
			},
			"gRPC status unknown: 99999",
		},
		"no gRPC": {
			func(f *http2.Framer, id uint32) error { return trailers(f, id, ":status", "404") }, "HTTP 404: the server speaks HTTP/2",
		},
		"no response": {
			func(f *http2.Framer, id uint32) error { return trailers(f, id, ":status", "200", "grpc-status", "0") },
			"gRPC without a response",
		},
		"pings first": {func(f *http2.Framer, id uint32) error {
			for range 1000 {
				if err := f.WritePing(false, [8]byte{1}); err != nil {
					return err
				}
			}
			return errors.Join(f.WriteData(id, false, []byte("\x00\x00\x00\x00\x01a")), trailers(f, id, "grpc-status", "0"))
		}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			d := http2Server(t, func(f *http2.Framer, _ net.Conn) {
				id := untilHeaders(f)
				if id == 0 {
					return
				}
				done := make(chan struct{})
				go func() { defer close(done); drain(f) }()
				_ = c.answer(f, id) // the client may have closed by then
				<-done
			})
			conn := GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", InferMethod, nil, "gzip"), Compression: "gzip"})
			a := Answer{Keep: true}
			got := failure(conn.Do(request("m", 8), &a))
			conn.Close()
			if !strings.HasPrefix(got, c.want) || cap(a.Body) > 1<<20 {
				t.Errorf("got %.200q, want %q; %d bytes are kept", got, c.want, cap(a.Body))
			}
		})
	}
}

// TestLeavingServer: a request that a server which leaves has not looked at is sent to
// the next one and is no failure.
func TestLeavingServer(t *testing.T) {
	d := http2Server(t, func(f *http2.Framer, _ net.Conn) {
		id := untilHeaders(f)
		_ = f.WriteData(id, false, []byte("\x00\x00\x00\x00\x01a"))
		_ = trailers(f, id, ":status", "200", "grpc-status", "0")
		if untilHeaders(f) != 0 {
			_ = f.WriteGoAway(id, http2.ErrCodeNo, nil)
			drain(f)
		}
	})
	c := GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", InferMethod, nil, "")})
	defer c.Close()
	a := Answer{Keep: true}
	for range 4 {
		if err := c.Do(request("m", 8), &a); err != nil || string(a.Body) != "a" || a.First < a.Sent || a.Last < a.First {
			t.Fatalf("%v, %q, times %+v", err, a.Body, a)
		}
	}
}

// TestCloseEndsAnything: a connection that waits for a server that says nothing ends
// with Close, and so does one that is closed before it is made.
func TestCloseEndsAnything(t *testing.T) {
	accepted := make(chan struct{}, 2)
	d := raw(t, func(c net.Conn) {
		accepted <- struct{}{}
		_, _ = io.Copy(io.Discard, c)
	})
	for name, c := range map[string]Conn{"HTTP": HTTP(d, false), "gRPC": GRPC(d, GRPCOptions{Heads: NewHeads(d, "h", InferMethod, nil, "")})} {
		done, r := make(chan error), httpRequest(t, 8)
		go func() { done <- c.Do(r, &Answer{}) }()
		<-accepted
		c.Close()
		if err := <-done; failure(err) != "stopped" {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Do(r, &Answer{}); failure(err) != "stopped" {
			t.Errorf("%s, closed: %v", name, err)
		}
	}
}
