package neso_test

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

// TestInferIsTraced: requests of the program itself are traced as those of
// clients are, below the program's own span where it names one.
func TestInferIsTraced(t *testing.T) {
	var spans []*otlp.Span
	came := make(chan *otlp.Span, 100) // more than the requests below give
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var q otlp.TracesData
		if err := proto.Unmarshal(body, &q); err != nil {
			t.Error(err)
		}
		for _, rs := range q.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					came <- s
				}
			}
		}
	}))
	defer collector.Close()
	s := &neso.Server{
		ModelRepositories: []string{repository(t, map[string]string{"id": identityConfig, "rep": repeatConfig})},
		Trace: neso.Trace{Level: []string{"TIMESTAMPS"}, Rate: 1, Collector: &neso.TraceCollector{
			URL: collector.URL, ScheduleDelay: time.Millisecond,
		}},
	}
	start(t, s)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	resp, err := s.Infer(t.Context(), neso.Request{
		Model: "id", ID: "mine", Inputs: []tensor.Tensor{floats("X", 1)}, TraceParent: parent,
		TraceState: "a=b",
	})
	if err != nil {
		t.Fatal(err)
	}
	resp.Release()
	if _, err := s.Infer(t.Context(), neso.Request{Model: "id", Inputs: []tensor.Tensor{floats("NO", 1)}}); err == nil {
		t.Error("no error")
	}
	if err := s.Stream(t.Context(), neso.Request{Model: "id", Inputs: []tensor.Tensor{floats("X", 1)}}, func(r *backend.Response) bool {
		r.Release()
		return true
	}); err != nil {
		t.Error(err)
	}
	for len(spans) < 5 { // two of each good request, one of the bad one
		select {
		case span := <-came:
			spans = append(spans, span)
		case <-time.After(time.Minute):
			t.Fatalf("%d spans came: %v", len(spans), spans)
		}
	}
	i := slices.IndexFunc(spans, func(s *otlp.Span) bool { return hex.EncodeToString(s.ParentSpanId) == "b7ad6b7169203331" })
	if i < 0 {
		t.Fatalf("no span is below the program's own: %v", spans)
	}
	if s := spans[i]; s.Name != "id" || hex.EncodeToString(s.TraceId) != "0af7651916cd43dd8448eb211c80319c" || s.TraceState != "a=b" {
		t.Errorf("got %v", s)
	}
	tops, failed := 0, 0
	for _, s := range spans {
		if s.Name == "id" && len(s.ParentSpanId) == 0 {
			tops++
		}
		if s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
			failed++
		}
	}
	if tops != 2 || failed != 1 {
		t.Errorf("%d spans without one above, want 2; %d failed, want 1: %v", tops, failed, spans)
	}
}

func TestInferIsTracedIntoTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.json")
	s := &neso.Server{
		ModelRepositories: []string{repository(t, map[string]string{"id": identityConfig})},
		Trace:             neso.Trace{Level: []string{"TIMESTAMPS"}, Rate: 1, File: file},
	}
	start(t, s)
	resp, err := s.Infer(t.Context(), neso.Request{Model: "id", ID: "mine", Inputs: []tensor.Tensor{floats("X", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Release()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []struct {
		Model      string `json:"model_name"`
		Request    string `json:"request_id"`
		Timestamps []struct{ Name string }
	}
	if err := json.Unmarshal(text, &objects); err != nil {
		t.Fatal(err, string(text))
	}
	var names []string
	for _, o := range objects {
		for _, s := range o.Timestamps {
			names = append(names, s.Name)
		}
	}
	if got := strings.Join(names, " "); objects[0].Model != "id" || objects[0].Request != "mine" ||
		got != "REQUEST_START QUEUE_START COMPUTE_START COMPUTE_INPUT_END COMPUTE_OUTPUT_START COMPUTE_END REQUEST_END" {
		t.Errorf("%s\n%s", got, text)
	}
}
