//go:build !edge

package tracing

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/infer"
)

const parentHeader = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// receiver is an OTLP/HTTP receiver that keeps spans.
func receiver(t *testing.T) (url string, spans chan *otlp.Span) {
	t.Helper()
	spans = make(chan *otlp.Span, 1000) // more than a test sends
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q otlp.TracesData // the same on the wire as the service's request
		if err := proto.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					spans <- s
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1/traces", spans
}

func traced(t *testing.T, c Collector, log io.Writer) *Tracer {
	t.Helper()
	s := Defaults()
	s.Level, s.Rate = Timestamps, 1
	tr, err := New(Config{Settings: s, Collector: &c, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestSpans(t *testing.T) {
	url, got := receiver(t)
	tr := traced(t, Collector{URL: url}, io.Discard)
	r := infer.New(infer.NewSingle(), nil)
	r.ModelName = "outer"
	trace := tr.Start(r, HTTP, func(name string) string {
		return map[string]string{"traceparent": parentHeader, "tracestate": "a=b"}[name]
	})
	r.Timeline.Begin(r)
	if !strings.HasPrefix(r.Trace, `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-`) ||
		!strings.HasSuffix(r.Trace, `-01","tracestate":"a=b"}`) {
		t.Errorf("the model is given %s", r.Trace)
	}
	inner := infer.New(infer.NewSingle(), nil)
	inner.ModelName, inner.Timeline = "inner", tr.Called(r.Trace)
	inner.Timeline.Begin(inner)
	_ = inner.Respond(nil, true)
	// A request with a span that the model has made itself.
	own := infer.New(infer.NewSingle(), nil)
	own.ModelName, own.Timeline = "own", tr.Called(`{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00000000000000ff-01"}`)
	own.Timeline.Begin(own)
	_ = own.Respond(nil, true)
	_ = r.Respond(nil, true)
	trace.Done()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(got)
	all := map[string]*otlp.Span{}
	for s := range got {
		all[s.Name] = s
		if string(s.TraceId) != "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c" {
			t.Errorf("%s is of trace %x", s.Name, s.TraceId)
		}
	}
	if string(all["InferRequest"].ParentSpanId) != "\xb7\xad\x6b\x71\x69\x20\x33\x31" ||
		string(all["own"].ParentSpanId) != "\x00\x00\x00\x00\x00\x00\x00\xff" {
		t.Error("spans are not below those of the client and of the model")
	}
	for child, parent := range map[string]string{"outer": "InferRequest", "inner": "outer"} {
		if !bytes.Equal(all[child].ParentSpanId, all[parent].SpanId) {
			t.Errorf("%s is not below %s", child, parent)
		}
	}
}

func TestClientsThatTraceAreAlwaysTraced(t *testing.T) {
	url, _ := receiver(t)
	s := Defaults()
	s.Level, s.Rate = Timestamps, 0
	tr := tracer(t, Config{Settings: s, Collector: &Collector{URL: url}})
	for header, want := range map[string]bool{
		"": false, parentHeader: true, strings.TrimSuffix(parentHeader, "1") + "0": true, "00-0-0-0": false, "x": false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
	} {
		if got := run(tr, "m", map[string]string{"traceparent": header}) != nil; got != want {
			t.Errorf("%q: traced %v", header, got)
		}
	}
}

// nobody is where no server listens: a port that had been free a moment ago may be
// another program's by now, this one is nobody's.
const nobody = "http://127.0.0.1:1"

func TestCollectorThatIsNotThere(t *testing.T) {
	var log bytes.Buffer
	tr := traced(t, Collector{URL: nobody, MaxQueueSize: 6, MaxExportBatch: 3}, &log)
	for range 20 {
		run(tr, "m", nil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_ = tr.Close(ctx) // it may have given up by then
	if n := strings.Count(log.String(), "failed to export"); n != 1 {
		t.Errorf("%d lines of failed exports:\n%s", n, log.String())
	}
	if got := tr.Dropped(); got != 60 {
		t.Errorf("dropped %d spans, want all 60", got)
	}
}

func TestCollectorThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := traced(t, Collector{URL: "http://collector/v1/traces"}, io.Discard)
		began := make(chan struct{}, 10)
		tr.out.(*collector).upload = func(ctx context.Context, _ *otlp.ResourceSpans) (int64, error) {
			began <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		}
		run(tr, "m", nil)
		from := time.Now()
		<-began
		if d := time.Since(from); d != defaultDelay {
			t.Errorf("exported after %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := tr.Close(ctx); err == nil {
			t.Error("nothing is lost?")
		}
		if d := time.Since(from); d != defaultDelay+time.Second {
			t.Errorf("the server ends after %v", d)
		}
	})
}

// What a client traces is traced when the count has come to its end, too.
// What clients and models write into traces does not pile up before a collector that is
// slow, however few traces it is.
func TestLongTextsWaitForNobody(t *testing.T) {
	taken, open := make(chan struct{}, 1), make(chan struct{})
	var got atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case taken <- struct{}{}:
		default:
		}
		<-open
		n, _ := io.Copy(io.Discard, r.Body)
		got.Add(n)
	}))
	defer s.Close()
	tr := traced(t, Collector{URL: s.URL, ScheduleDelay: -1}, io.Discard)
	id := strings.Repeat("x", 8<<20)
	const times = 40
	for i := range times {
		r := infer.New(infer.NewSingle(), nil)
		r.ModelName, r.ID = "m", id
		trace := tr.Start(r, HTTP, func(string) string { return "" })
		r.Timeline.Begin(r)
		_ = r.Respond(nil, true)
		trace.Done()
		if i == 0 {
			<-taken // it is on its way, and counts no more
		}
	}
	close(open)
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := got.Load() / int64(len(id)); n != 1+queuedText/int64(len(id)) {
		t.Errorf("%d of %d traces of 8 MiB have waited for 64 MiB", n, times)
	}
	if tr.Dropped() == 0 {
		t.Error("none is said to be lost")
	}
}

func TestForcedBeyondTheCount(t *testing.T) {
	url, _ := receiver(t)
	s := Defaults()
	s.Level, s.Rate, s.Count = Timestamps, 2, 1
	tr := tracer(t, Config{Settings: s, Collector: &Collector{URL: url}})
	start := func(traced bool) bool {
		r := infer.New(infer.NewSingle(), nil)
		trace := tr.Start(r, HTTP, func(name string) string {
			if traced && name == "traceparent" {
				return parentHeader
			}
			return ""
		})
		if trace != nil {
			r.Timeline.Begin(r)
			_ = r.Respond(nil, true)
			trace.Done()
		}
		return trace != nil
	}
	var got []bool
	for _, traced := range []bool{false, true, false, false, true, true, false} {
		got = append(got, start(traced))
	}
	if want := []bool{false, true, false, false, true, true, false}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := tr.Fields("")[2]; n.Name != keyCount || n.Values[0] != "0" {
		t.Errorf("the count is shown as %+v", n)
	}
}

// Without a pause a trace leaves when it ends.
func TestExportAtOnce(t *testing.T) {
	url, got := receiver(t)
	tr := traced(t, Collector{URL: url, ScheduleDelay: -1}, io.Discard)
	if f := tr.Fields("")[5]; f.Name != "bsp_schedule_delay" || f.Values[0] != "0" {
		t.Errorf("shown as %+v", f)
	}
	for range 3 {
		r := infer.New(infer.NewSingle(), nil)
		r.ModelName = "m"
		trace := tr.Start(r, HTTP, func(string) string { return "" })
		r.Timeline.Begin(r)
		_ = r.Respond(nil, true)
		trace.Done()
		if root, m := <-got, <-got; root.Name != rootSpan || m.Name != "m" {
			t.Errorf("got %s and %s", root.Name, m.Name)
		}
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestURLs(t *testing.T) {
	for url, want := range map[string]string{
		"": defaultURL, "collector:4318/v1/traces": "http://collector:4318/v1/traces", "https://c/x": "https://c/x", "ftp://x": "!",
		"http://": "!", "http://%zz": "!",
	} {
		tr, err := New(Config{Settings: Defaults(), Collector: &Collector{URL: url}})
		if err != nil {
			if want != "!" {
				t.Errorf("%q: %v", url, err)
			}
			continue
		}
		if got := tr.config.Collector.url(); got != want {
			t.Errorf("%q: %s, want %s", url, got, want)
		}
		if got := tr.Fields("")[4]; got.Name != "url" || got.Values[0] != cmp.Or(url, want) {
			t.Errorf("%q is shown as %+v", url, got)
		}
		_ = tr.Close(t.Context())
	}
}

func TestCollectorThatIsBusyOrRefuses(t *testing.T) {
	var posts atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := posts.Add(1); {
		case r.Header.Get("api-key") != "k" || r.Header.Get("Content-Type") != "application/x-protobuf":
			t.Errorf("headers %v", r.Header)
		case n == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte{10, 5, 8, 2, 18, 1, 'x'}) // partial_success: 2 spans rejected, "x"
		}
	}))
	defer s.Close()
	tr := traced(t, Collector{URL: s.URL, Headers: []Attribute{{"api-key", "k"}}}, io.Discard)
	run(tr, "m", nil)
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if posts.Load() != 2 || tr.Dropped() != 2 {
		t.Errorf("%d exports, %d dropped", posts.Load(), tr.Dropped())
	}
}

func FuzzRefusedSpans(f *testing.F) {
	f.Add([]byte{10, 5, 8, 2, 18, 1, 'x'})
	f.Add([]byte{18, 1, 'x', 10, 2, 8, 2})
	f.Fuzz(func(t *testing.T, answer []byte) {
		if n := refusedSpans(answer); n < 0 || n > 1<<31 {
			t.Fatal(n)
		}
	})
}

func FuzzContext(f *testing.F) {
	f.Add(`{"traceparent":"` + parentHeader + `","tracestate":"a=b"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if p := fromContext(text); p.valid() {
			// What is made of it can be read again.
			if again := fromContext(p.context(p.span)); again != p {
				t.Fatalf("%+v, want %+v", again, p)
			}
		}
	})
}
