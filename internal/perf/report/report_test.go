package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nethtml "golang.org/x/net/html"

	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/internal/perf/measure"
	"github.com/nesoserve/neso/internal/perf/options"
	"github.com/nesoserve/neso/internal/perf/target"
	"github.com/nesoserve/neso/tensor"
)

var update = flag.Bool("update", false, "write the golden texts anew")

func TestMain(m *testing.M) { nesotest.Main(m) }

// golden compares with a file of testdata.
func golden(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(want)); diff != "" {
		t.Errorf("%s:\n%s", name, diff)
	}
	return b.String()
}

const second = 1e9

// window has n requests in a second, the k-th of which takes k times step.
func window(start, n, step int64) *measure.Window {
	r := measure.NewRecorder()
	l := r.Shard()
	for k := range n {
		latency := (k + 1) * step
		l.Add(&measure.Sample{Sent: latency / 10, First: latency * 8 / 10, Last: latency, Responses: 1})
	}
	w := r.Take()
	w.Start, w.End, w.ClientCPU, w.ServerCPU = start, start+second, 0.1, 0.25
	return w
}

func counters(name, version string, n int64) target.Counters {
	d := func(us int64) target.Duration { return target.Duration{Count: n, NS: n * us * 1000} }
	return target.Counters{Name: name, Version: version, Inferences: n, Executions: n / 2, Phases: map[string]target.Duration{
		"success": d(500), "queue": d(50), "compute_input": d(20), "compute_infer": d(300), "compute_output": d(30),
		"cache_hit": d(7), "cache_miss": d(9),
	}}
}

// hostile is a name that a server may have made up.
const hostile = "../<script>alert(1)</script>\"'&\x1b[2J\u202e"

func run(t *testing.T, line string) *Run {
	t.Helper()
	o, err := options.Parse(strings.Fields("-m m " + line))
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Options: o, Model: &target.Model{Name: "m", Statistics: true}, Version: "1.2.3", Epoch: 1e18, Time: time.Unix(1e9, 0)}
	for i, load := range []float64{1, 2} {
		w := window(int64(i)*second, 100, int64(i+1)*10_000)
		w.Server = []target.Counters{counters("m", "1", 100), counters(hostile, "1", 50)}
		x := Result{
			Load: load, Window: w, Windows: []*measure.Window{w}, Stable: i == 0, Met: true,
			Ticks: []Tick{{0.5, 90, 500_000, 0}, {1, 110, 600_000, float64(i)}}, Began: float64(i) * 2,
		}
		if i == 1 {
			x.Notes = []string{"a note"}
			w.Errors = []measure.ErrorCount{{Kind: "HTTP 500", Text: "<b>why</b>", Count: 3}}
		}
		r.Results = append(r.Results, x)
	}
	return r
}

func console(r *Run) func(io.Writer) error {
	return func(out io.Writer) error {
		r.Settings(out)
		for i := range r.Results {
			r.Begin(out, r.Results[i].Load)
			r.Pass(out, 1, r.Results[i].Window)
			r.Result(out, &r.Results[i])
		}
		r.Summary(out)
		return nil
	}
}

func TestConsole(t *testing.T) {
	text := golden(t, "concurrency.txt", console(run(t, "--concurrency-range 1:2")))
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("a name of the server's reaches the terminal as it is")
	}
	r := run(t, "-i grpc --request-rate-range 1:2 --percentile 95 -v --request-distribution poisson -b 2")
	r.Model.Cache, r.Model.Sequence = true, true
	golden(t, "rate.txt", console(r))
	r = run(t, "-i grpc --streaming --request-count 100")
	r.Model.Decoupled, r.Model.Statistics = true, false
	golden(t, "decoupled.txt", console(r))
}

func TestCSV(t *testing.T) {
	golden(t, "plain.csv", run(t, "--concurrency-range 1:2").CSV)
	r := run(t, "--request-rate-range 1:2 --percentile 97 --verbose-csv")
	r.Model.Cache, r.Model.Decoupled = true, true
	golden(t, "verbose.csv", r.CSV)
	r = run(t, "--concurrency-range 1:2")
	files := r.Composing()
	if len(files) != 1 {
		t.Fatalf("%d files", len(files))
	}
	for name, write := range files {
		if strings.ContainsAny(name, "/\\\x1b") || strings.HasPrefix(name, ".") || !filepath.IsLocal(name) {
			t.Errorf("the server has us write a file %q", name)
		}
		golden(t, "composing.csv", write)
	}
	for name, want := range map[string]string{"m_v1": "m_v1", "..": "_.", "a/../b": "a_.._b", `C:\x`: "C__x", "": "", "ä\xff": "ä_"} {
		if got := fileName(name); got != want {
			t.Errorf("%q becomes the file %q, want %q", name, got, want)
		}
	}
	if got := fileName(strings.Repeat("ä", 500)); len(got) > longestName {
		t.Errorf("a name of %d bytes", len(got))
	}
}

func TestJSON(t *testing.T) {
	r := run(t, "--concurrency-range 1:2")
	text := golden(t, "report.json", r.JSON)
	if !json.Valid([]byte(text)) || strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("the report is no JSON, or has what a terminal obeys")
	}
	r.Results = nil
	golden(t, "nothing.json", r.JSON)
}

// TestHTML: whatever the server says, the page has the elements that we wrote, asks
// nobody for anything and runs nothing.
func TestHTML(t *testing.T) {
	for _, line := range []string{"--concurrency-range 1:2", "-i grpc --request-rate-range 1:2 --percentile 97 -b 2"} {
		r := run(t, line)
		r.Options.Model, r.Results[0].Notes = hostile, []string{hostile}
		r.Results[0].Window.Errors = []measure.ErrorCount{{Kind: hostile, Text: hostile, Count: 3}}
		var b bytes.Buffer
		if err := r.HTML(&b); err != nil {
			t.Fatal(err)
		}
		if dir := os.Getenv("PLOT_TEST_DIR"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "report.html"), b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if strings.ContainsAny(b.String(), "\x1b\u202e") {
			t.Error("what turns the direction of a text is in the page")
		}
		doc, err := nethtml.Parse(&b)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]int{}
		for n := range doc.Descendants() {
			if n.Type != nethtml.ElementNode {
				continue
			}
			found[n.Data]++
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" {
					t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
				}
			}
		}
		for _, bad := range []string{"script", "img", "link", "iframe", "b", "object", "image", "use"} {
			if found[bad] > 0 {
				t.Errorf("%d <%s>", found[bad], bad)
			}
		}
		if found["svg"] != 6 || found["table"] != 3 {
			t.Errorf("%v", found)
		}
	}
	r := run(t, "--concurrency-range 1:2")
	r.Results = nil
	if err := r.HTML(io.Discard); err != nil || len(r.Charts()) != 0 {
		t.Error(err, r.Charts())
	}
}

// TestBars: no latency is lost, and ranges follow each other.
func TestBars(t *testing.T) {
	for _, step := range []int64{1, 10_000, 33_333_333} {
		w := window(0, 1000, step)
		total, list := int64(0), bars(w)
		for i, b := range list {
			total += b.Count
			if b.From >= b.To || i > 0 && b.From < list[i-1].To {
				t.Errorf("step %d: %v", step, list)
			}
		}
		if total != 1000 || len(list) > barsInAll {
			t.Errorf("step %d: %d of 1000 in %d bars", step, total, len(list))
		}
	}
	if got := bars(measure.Merge(nil)); got != nil {
		t.Error(got)
	}
}

func TestExport(t *testing.T) {
	r := run(t, "--profile-export-file x")
	step := &data.Step{Inputs: []data.Tensor{{Name: `I"`, Datatype: tensor.Int8, Bytes: []byte{1, 0xff}}}}
	r.Results = r.Results[:1]
	r.Results[0].Windows[0].Records = []measure.Record{
		{Start: 5, Step: step, ID: 9, At: []int64{7, 8}},
		{Start: 6, Step: &data.Step{Body: []byte(`{"a":1}`)}, Body: []byte("<x>"), At: []int64{9}},
		{
			Start: 7, Step: &data.Step{Body: []byte(`{}`)}, At: []int64{9, 10, 11},
			Body: []byte(": hello\n\ndata: {\"a\":1}\r\n\r\ndata:{}\n\nevent: x\n\ndata: [DONE]\n\n"),
		},
	}
	outputs := func(*measure.Record) ([][]data.Tensor, error) {
		return [][]data.Tensor{{
			{Name: "O", Datatype: tensor.FP32, Bytes: []byte{0, 0, 0x80, 0x3f}},
			{Name: "odd", Datatype: tensor.FP32, Bytes: []byte{1, 2, 3}}, // a server's that counts badly
			{Name: "unknown", Bytes: []byte{1, 2, 3}},
		}, {{Name: "O", Datatype: tensor.FP32, Bytes: []byte{0, 0, 0, 0x40}}}}, nil
	}
	text := golden(t, "export.json", func(out io.Writer) error { return r.Export(out, outputs) })
	if !json.Valid([]byte(text)) {
		t.Error("the export is no JSON")
	}
}
