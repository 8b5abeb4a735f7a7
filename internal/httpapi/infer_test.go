package httpapi

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/nesotest"
)

// binaryBody is a request with one binary FP32 input of n elements and a
// binary answer, and the header that goes with it.
func binaryBody(n int) (body []byte, header string) {
	head := fmt.Sprintf(`{"inputs":[{"name":"IN","shape":[%d],"datatype":"FP32","parameters":{"binary_data_size":%d}}],`+
		`"parameters":{"binary_data_output":true}}`, n, 4*n)
	body = []byte(head)
	for i := range n {
		body = binary.LittleEndian.AppendUint32(body, uint32(i))
	}
	return body, fmt.Sprintf("Inference-Header-Content-Length: %d", len(head))
}

// checkEcho checks that r has the tail of the request as its own tail.
func checkEcho(t *testing.T, r reply, body []byte, n int) {
	t.Helper()
	if r.StatusCode != 200 || !bytes.HasSuffix(r.body, body[len(body)-4*n:]) {
		t.Fatalf("%d elements: %d, %d bytes, %.200q", n, r.StatusCode, len(r.body), r.body)
	}
}

func TestBinaryOfAllSizes(t *testing.T) {
	c := dial(t, serve(t, nil, nil))
	for _, n := range []int{1, 100, 500, 2000, 8000, 16000, 17000, 100_000, 1 << 20, 3 << 20} {
		body, header := binaryBody(n)
		r := c.do("POST", "/v2/models/fp32/infer", []string{header}, body)
		checkEcho(t, r, body, n)
		if r.ContentLength != int64(len(r.body)) {
			t.Errorf("%d elements: content length %d", n, r.ContentLength)
		}
	}
}

func TestLargeJSON(t *testing.T) {
	c := dial(t, serve(t, nil, nil))
	values := make([]float32, 200_000)
	for i := range values {
		values[i] = float32(i) / 7
	}
	body,
		_ := json.Marshal(map[string]any{"inputs": []any{map[string]any{
		"name": "IN", "shape": []int{len(values)}, "datatype": "FP32",
		"data": values,
	}}})
	r := c.do("POST", "/v2/models/fp32/infer", nil, body)
	var out struct{ Outputs []struct{ Data []float32 } }
	if err := json.Unmarshal(r.body, &out); err != nil || len(out.Outputs[0].Data) != len(values) {
		t.Fatalf("%d %.200q %v", r.StatusCode, r.body, err)
	}
	for i, f := range out.Outputs[0].Data {
		if f != values[i] {
			t.Fatalf("element %d: got %v, want %v", i, f, values[i])
		}
	}
}

func compressWith(t *testing.T, coding string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&out)
	if coding == "deflate" {
		w = zlib.NewWriter(&out)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestCompressionBothWays(t *testing.T) {
	c := dial(t, serve(t, nil, nil))
	for _, n := range []int{1, 5000, 500_000} {
		plain, header := binaryBody(n)
		for _, in := range []string{"", "gzip", "deflate"} {
			for _, out := range []string{"", "gzip", "deflate"} {
				body, headers := plain, []string{header}
				if in != "" {
					body = compressWith(t, in, plain)
					// The header names one, the data decides.
					headers = append(headers, "Content-Encoding: "+map[string]string{"gzip": "deflate", "deflate": "gzip"}[in])
				}
				if out != "" {
					headers = append(headers, "Accept-Encoding: br, identity;q=0.1, "+out)
				}
				r := c.do("POST", "/v2/models/fp32/infer", headers, body)
				if got := r.Header.Get("Content-Encoding"); got != out {
					t.Fatalf("content encoding %q, want %q", got, out)
				}
				var u io.Reader = bytes.NewReader(r.body)
				var err error
				switch out {
				case "gzip":
					u, err = gzip.NewReader(u)
				case "deflate":
					u, err = zlib.NewReader(u)
				}
				if err != nil {
					t.Fatal(err)
				}
				if r.body, err = io.ReadAll(u); err != nil {
					t.Fatal(err)
				}
				checkEcho(t, r, plain, n)
			}
		}
	}
}

func TestLimits(t *testing.T) {
	const limit = 1 << 17
	spaces := bytes.Repeat([]byte{' '}, limit+1)
	cases := []struct {
		name    string
		headers []string
		body    []byte
		want    string
	}{
		{
			"JSON", nil, spaces,
			`{"error":"request JSON size of 131073 bytes exceeds the maximum allowed input size of 131072 bytes. Use --http-max-input-size to ` +
				`increase the limit."}`,
		},
		{
			"bomb",
			[]string{"Content-Encoding: gzip"},
			compressWith(t, "gzip", make([]byte, 50<<20)),
			`{"error":"Decompressed data size exceeds the maximum allowed value of 131072 bytes. Use --http-max-input-size to increase the limit."}`,
		},
		{
			"raw",
			[]string{"Inference-Header-Content-Length: 0"},
			append(spaces, "aaa"...),
			`{"error":"Raw input has a byte_size (131076 bytes) that exceeds the maximum allowed value of 131072 bytes. Use ` +
				`--http-max-input-size to increase the limit."}`,
		},
		{
			"cut off",
			[]string{"Content-Encoding: gzip"},
			compressWith(t, "gzip", spaces[:1000])[:20],
			`{"error":"failed to decompress the request body: unexpected EOF"}`,
		},
	}
	// Compressing takes long on a busy machine, and a connection does not wait for ever.
	c := dial(t, serve(t, nil, func(o *Options, _ *engine.Options) { o.MaxInputSize = limit }))
	for _, x := range cases {
		r := c.do("POST", "/v2/models/fp32/infer", x.headers, x.body)
		if r.StatusCode != 400 || string(r.body) != x.want {
			t.Errorf("%s: %d %s\nwant %s", x.name, r.StatusCode, r.body, x.want)
		}
	}
	// Binary tensors are bound by admission, not by that limit.
	body, header := binaryBody(limit)
	checkEcho(t, c.do("POST", "/v2/models/fp32/infer", []string{header}, body), body, limit)
}

func TestChunkedUpload(t *testing.T) {
	addr := serve(t, nil, nil)
	body, header := binaryBody(50_000)
	name, value, _ := strings.Cut(header, ": ")
	req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+addr+"/v2/models/fp32/infer",
		io.MultiReader(bytes.NewReader(body[:1000]), bytes.NewReader(body[1000:])))
	req.Header.Set(name, value)
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, reply{resp, got}, body, 50_000)
}

func TestInflatedBodiesAreCounted(t *testing.T) {
	addr := serve(t, nil, func(_ *Options, e *engine.Options) { e.MaxQueuedBytes = 200_000 })
	body, header := binaryBody(100_000)
	r := dial(t, addr).do("POST", "/v2/models/fp32/infer", []string{header, "Content-Encoding: gzip"}, compressWith(t, "gzip", body))
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, r.body)
	}
}

func TestOverloadIsAnsweredAtOnce(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	echo := &nesotest.Echo{OnExecute: func(context.Context, backend.Config, *backend.Batch) (bool, error) {
		entered <- struct{}{}
		<-release
		return false, nil
	}}
	addr := serve(t, echo, func(_ *Options, e *engine.Options) { e.MaxQueuedRequests = 1 })
	body := []byte(`{"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":[1]}]}`)
	first := dial(t, addr)
	first.send("POST", "/v2/models/echo/infer", nil, body)
	<-entered
	r := dial(t, addr).do("POST", "/v2/models/echo/infer", nil, body)
	if r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, r.body)
	}
	close(release)
	if r := first.receive("POST"); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

func TestModelErrors(t *testing.T) {
	var fail *backend.Error
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		_ = b.Requests[0].Respond(&backend.Response{Err: fail}, true)
		return true, nil
	}}
	c := dial(t, serve(t, echo, nil))
	for code, status := range map[backend.Code]int{
		backend.Unknown: 400, backend.Internal: 500, backend.NotFound: 404, backend.InvalidArg: 400, backend.Unavailable: 503,
		backend.Unsupported: 501, backend.AlreadyExists: 400, backend.Cancelled: 400,
	} {
		fail = backend.Errorf(code, "boom \"%s\"", code)
		r := c.do("POST", "/v2/models/echo/infer", nil, []byte(`{"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":[1]}]}`))
		if want := fmt.Sprintf(`{"error":"boom \"%s\""}`, code); r.StatusCode != status || string(r.body) != want ||
			r.Header.Get("Content-Type") != "text/plain" {
			t.Errorf("%s: %d %s", code, r.StatusCode, r.body)
		}
	}
}

func TestDisconnectCancels(t *testing.T) {
	entered, cancelled := make(chan struct{}), make(chan error, 1)
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		entered <- struct{}{}
		<-b.Requests[0].Ctx.Done()
		cancelled <- b.Requests[0].Ctx.Err()
		return false, nil
	}}
	addr := serve(t, echo, nil)
	c := dial(t, addr)
	c.send("POST", "/v2/models/echo/infer", nil, []byte(`{"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":[1]}]}`))
	<-entered // one that is gone before is never executed
	c.c.Close()
	if err := <-cancelled; err == nil {
		t.Error("not cancelled")
	}
}

func TestReadTimeoutEndsWithTheBody(t *testing.T) {
	waited := make(chan error, 1)
	var executed atomic.Int64
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		executed.Add(1)
		select {
		case <-b.Requests[0].Ctx.Done():
			waited <- b.Requests[0].Ctx.Err()
		case <-time.After(400 * time.Millisecond): // four times the read timeout
			waited <- nil
		}
		return false, nil
	}}
	addr := serve(t, echo, func(o *Options, _ *engine.Options) { o.ReadTimeout = 100 * time.Millisecond })
	for _, n := range []int{1, 100_000} {
		body, header := binaryBody(n)
		request := fmt.Appendf(nil, "POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", header, len(body),
			body)
		// On a machine that stands still the body itself may come too late: then the
		// model does not see it, and another one is sent.
		for before := executed.Load(); executed.Load() == before; {
			c := dial(t, addr)
			_, _ = c.c.Write(request)
			r, err := c.answer("POST")
			if executed.Load() == before {
				continue
			}
			if err := <-waited; err != nil {
				t.Errorf("%d elements: %v", n, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			checkEcho(t, r, body, n)
		}
	}
}

func TestSlowClientsAreCutOff(t *testing.T) {
	addr := serve(t, nil, func(o *Options, _ *engine.Options) { o.ReadTimeout = 50 * time.Millisecond })
	for _, start := range []string{
		"POST /v2/models/fp32/infer HTTP/1.1\r\nHo",
		"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{",
		"POST /v2/models/fp32/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
	} {
		c := dial(t, addr)
		if err := c.c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		// On a busy machine the time may be up before all of this is sent, and then
		// the connection is reset, since nobody reads the rest.
		if _, err := io.WriteString(c.c, start); err != nil {
			continue
		}
		if _, err := io.Copy(io.Discard, c.br); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.60q: still open: %v", start, err)
		}
	}
}

func TestSlowHeadersAreCutOff(t *testing.T) {
	addr := serve(t, nil, func(o *Options, _ *engine.Options) { o.HeaderTimeout = 50 * time.Millisecond })
	c := dial(t, addr)
	// The time runs from the connection on: on a busy machine it may be up before
	// this is sent, and then the connection is reset, since nobody reads it.
	if _, err := io.WriteString(c.c, "GET /v2 HTTP/1.1\r\nHo"); err != nil {
		return
	}
	if err := c.c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c.br); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("still open: %v", err)
	}
}

func TestHalfClosedAndCutOffBodies(t *testing.T) {
	addr := serve(t, nil, nil)
	for _, length := range []int{100, 100_000} {
		c := dial(t, addr)
		fmt.Fprintf(c.c, "POST /v2/models/fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", length)
		if err := c.c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if r := c.receive("POST"); r.StatusCode != 400 || string(r.body) != `{"error":"the request body ended early"}` {
			t.Errorf("%d: %d %s", length, r.StatusCode, r.body)
		}
	}
	// A client that has said all and closes its half still gets its answer.
	c := dial(t, addr)
	c.send("GET", "/v2", nil, nil)
	if err := c.c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if r := c.receive("GET"); r.StatusCode != 200 {
		t.Errorf("%d", r.StatusCode)
	}
}

func TestPipeliningPastErrors(t *testing.T) {
	c := dial(t, serve(t, nil, nil))
	body, header := binaryBody(10)
	c.send("GET", "/nope", nil, nil)
	c.send("POST", "/v2/models/nope/infer", nil, make([]byte, 300_000))
	c.send("POST", "/v2/models/fp32/infer", nil, []byte("{"))
	c.send("POST", "/v2/models/fp32/infer", []string{header}, body)
	for i, want := range []int{404, 404, 400, 200} {
		if r := c.receive("GET"); r.StatusCode != want {
			t.Fatalf("reply %d: %d %s", i, r.StatusCode, r.body)
		}
	}
}

func TestRestrictedEndpoints(t *testing.T) {
	c := dial(t, serve(t, nil, func(o *Options, _ *engine.Options) {
		o.Restricted = map[Category]Restriction{ModelRepository: {"k1", "v1"}, Inference: {"k2", "v2"}}
	}))
	for _, x := range []struct {
		method, path, header string
		status               int
		body                 string
	}{
		{"GET", "/v2/repository/index", "a: b", 403, `{"error":"This API is restricted, expecting header 'k1'"}`},
		{"POST", "/v2/repository/index", "k1: v2", 403, `{"error":"This API is restricted, expecting header 'k1'"}`},
		{"POST", "/v2/repository/index", "K1: v1", 200, ""},
		{"POST", "/v2/models/fp32/infer", "k1: v1", 403, `{"error":"This API is restricted, expecting header 'k2'"}`},
		{"POST", "/v2/models/fp32/infer", "k2: v2", 400, ""},
		{"GET", "/v2", "a: b", 200, ""},
	} {
		r := c.do(x.method, x.path, []string{x.header}, []byte{})
		if r.StatusCode != x.status || x.body != "" && string(r.body) != x.body {
			t.Errorf("%s %s %s: %d %s", x.method, x.path, x.header, r.StatusCode, r.body)
		}
	}
}

func TestHeadersBecomeParameters(t *testing.T) {
	seen := make(chan []backend.Parameter, 1)
	echo := &nesotest.Echo{OnExecute: func(_ context.Context, _ backend.Config, b *backend.Batch) (bool, error) {
		seen <- append([]backend.Parameter(nil), b.Requests[0].Parameters...)
		return false, nil
	}}
	c := dial(t, serve(t, echo, func(o *Options, _ *engine.Options) { o.HeaderForwardPattern = "my_" }))
	body := []byte(`{"parameters":{"p":1},"inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":[1]}]}`)
	for _, ask := range []struct {
		headers []string
		want    []backend.Parameter
	}{
		// As the client spells them, in its order; the first of those that are spelled the same.
		{
			[]string{"x-MY_b: 2", "Not: x", "my_a: 1", "MY_A: 3", "my_a: 4"},
			[]backend.Parameter{backend.String("x-MY_b", "2"), backend.String("my_a", "1"), backend.String("MY_A", "3")},
		},
		// the head before again
		{
			[]string{"x-MY_b: 2", "Not: x", "my_a: 1", "MY_A: 3", "my_a: 4"},
			[]backend.Parameter{backend.String("x-MY_b", "2"), backend.String("my_a", "1"), backend.String("MY_A", "3")},
		},
		{[]string{"X-my_B: 2"}, []backend.Parameter{backend.String("X-my_B", "2")}},
		// Also where net/http serves the request, once or from then on.
		{[]string{"x-MY_b: 2", "my_a: 1", "MY_A: 3", "Pragma: x"}, []backend.Parameter{
			backend.String("x-MY_b", "2"), backend.String("my_a", "1"),
			backend.String("MY_A", "3"),
		}},
		{[]string{"x-MY_b: 2", "my_a: 1"}, []backend.Parameter{backend.String("x-MY_b", "2"), backend.String("my_a", "1")}},
		{
			[]string{"x-MY_b: 2", "my_a: 1", "MY_A: 3", "HTTP2-Settings: x"},
			[]backend.Parameter{backend.String("x-MY_b", "2"), backend.String("my_a", "1"), backend.String("MY_A", "3")},
		},
		// And later ones on that connection.
		{[]string{"x-MY_b: 2", "my_a: 1", "MY_A: 3"}, []backend.Parameter{
			backend.String("x-MY_b", "2"), backend.String("my_a", "1"),
			backend.String("MY_A", "3"),
		}},
	} {
		c.do("POST", "/v2/models/echo/infer", ask.headers, body)
		if got, want := <-seen, append([]backend.Parameter{backend.Int("p", 1)}, ask.want...); !slices.Equal(got, want) {
			t.Errorf("%q: got %+v, want %+v", ask.headers, got, want)
		}
	}
}

func TestAccessLine(t *testing.T) {
	var out nesotest.Log
	settings := logging.DefaultSettings()
	settings.Verbose = 1
	log, err := logging.Open(settings, &out)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := dial(t, serve(t, nil, func(o *Options, _ *engine.Options) { o.Logger = log.Logger() }))
	c.do("POST", "/v2/models/fp32/infer", nil, []byte(`{"id":"q7","inputs":[{"name":"IN","shape":[1],"datatype":"FP32","data":[1]}]}`))
	c.do("POST", "/v2/models/fp32/infer", nil, []byte(`{"id":"q8","inputs":[{"name":"IN","shape":[1,1],"datatype":"FP32","data":[1]}]}`))
	c.do("GET", "/v2", nil, nil) // the line is written before the next request is read
	for _, part := range []string{"infer", "request_id=q7 status=200", "request_id=q8 status=400", "fp32", "total"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in %s", part, out.String())
		}
	}
}

func TestManyClients(t *testing.T) {
	addr := serve(t, nil, nil)
	var wg sync.WaitGroup
	for i := range 16 {
		c := dial(t, addr)
		wg.Go(func() {
			for k := range 30 {
				n := (i*31+k*977)%20_000 + 1
				body, header := binaryBody(n)
				c.send("POST", "/v2/models/fp32/infer", []string{header}, body)
				r := c.receive("POST")
				if r.StatusCode != 200 || !bytes.HasSuffix(r.body, body[len(body)-4*n:]) {
					t.Errorf("%d elements: %d %.100q", n, r.StatusCode, r.body)
				}
			}
		})
	}
	wg.Wait()
}

func TestBadPatternIsRefused(t *testing.T) {
	if _, err := New(Options{Engine: &engine.Engine{}, HeaderForwardPattern: "("}); err == nil {
		t.Error("taken")
	}
	if _, err := New(Options{Engine: &engine.Engine{}, TrustedHosts: []string{"*.example.com", "a[.example.com"}}); err == nil {
		t.Error("taken as a name of a host")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no engine, and no error")
	}
}

// BenchmarkInfer sends 64 bytes over a real connection. Client and server
// share the process: the server's part is about half.
func BenchmarkInfer(b *testing.B) {
	addr := serve(b, nil, func(_ *Options, e *engine.Options) { e.Logger = slog.New(slog.DiscardHandler) })
	body, header := binaryBody(16)
	request := fmt.Appendf(nil, "POST /v2/models/fp32/infer HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", header, len(body),
		body)
	c := dial(b, addr)
	in := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.c.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := c.c.Read(in); err != nil {
			b.Fatal(err)
		}
	}
}
