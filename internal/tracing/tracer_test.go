package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

func tracer(t *testing.T, c Config) *Tracer {
	t.Helper()
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := tr.out.(*jsonFile); ok {
		f.wait = time.Minute // what a change of the settings puts into files is there after it, also on a slow machine
	}
	t.Cleanup(func() {
		if err := tr.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// change reads settings as a client sends them; a level's words are joined by "+".
func change(t *testing.T, settings string) Change {
	t.Helper()
	var c Change
	for s := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(s, "=")
		var err *backend.Error
		switch {
		case value == "":
			c.Clear(name)
		case IsLevel(name):
			err = c.SetLevels(strings.Split(value, "+"))
		default:
			err = c.Set(name, value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// shown is what clients see of level, rate, count and frequency.
func shown(tr *Tracer, model string) string {
	var b strings.Builder
	for _, f := range tr.Fields(model)[:4] {
		b.WriteString(strings.Join(f.Values, "+") + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestSettingsOfServerAndModel(t *testing.T) {
	tr := tracer(t, Config{Settings: Defaults(), File: filepath.Join(t.TempDir(), "t.json")})
	for i, step := range []struct{ model, change, fault, server, of string }{
		{"", "", "", "OFF 1000 -1 0", "OFF 1000 -1 0"},
		{"m", "trace_level=TIMESTAMPS", "", "OFF 1000 -1 0", "TIMESTAMPS 1000 -1 0"},
		{"", "trace_rate=3 trace_count=9", "", "OFF 3 9 0", "TIMESTAMPS 3 9 0"},
		{"m", "trace_rate=8", "", "OFF 3 9 0", "TIMESTAMPS 8 9 0"},
		{"", "trace_level=TENSORS+TIMESTAMPS log_frequency=2", "", "TIMESTAMPS+TENSORS 3 9 2", "TIMESTAMPS 8 9 2"},
		{
			"m", "trace_rate=0", "Attempting to set invalid trace setting :sample rate must be non-zero", "TIMESTAMPS+TENSORS 3 9 2",
			"TIMESTAMPS 8 9 2",
		},
		{"m", "trace_rate= trace_level=", "", "TIMESTAMPS+TENSORS 3 9 2", "TIMESTAMPS+TENSORS 3 9 2"},
		{"", "trace_level=OFF trace_rate=0", "", "OFF 0 9 2", "OFF 0 9 2"},
		{"", "trace_level=TIMESTAMPS", "Attempting to set invalid trace setting :sample rate must be non-zero", "OFF 0 9 2", "OFF 0 9 2"},
		{"", "trace_level= trace_rate= trace_count= log_frequency=", "", "OFF 1000 -1 0", "OFF 1000 -1 0"},
	} {
		err := tr.Update(step.model, change(t, step.change))
		if got := message(err); got != step.fault {
			t.Errorf("step %d: %q, want %q", i, got, step.fault)
		}
		if got := [2]string{shown(tr, ""), shown(tr, "m")}; got != [2]string{step.server, step.of} {
			t.Errorf("step %d: %q, want %q and %q", i, got, step.server, step.of)
		}
	}
}

func message(err *backend.Error) string {
	if err == nil {
		return ""
	}
	return err.Message
}

func TestSettingsThatCannotBe(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"trace_rate", "x", "Unable to parse 'trace_rate', got: x"},
		{"trace_rate", "", "Unable to parse 'trace_rate', got: "},
		{"trace_rate", "5x", "Unable to parse 'trace_rate', got: 5x"},
		{"trace_rate", "-1", "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -1"},
		{"trace_rate", "99999999999", "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 99999999999"},
		{
			"log_frequency", "99999999999999999999999",
			"Unable to parse 'log_frequency', value is out of range [ 0, 4294967295 ], got: 99999999999999999999999",
		},
		{"trace_count", "x", "Unable to parse 'trace_count', got: x"},
		{"trace_count", "-2", "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"},
		{"trace_count", "99999999999", "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: 99999999999"},
		{"trace_mode", "opentelemetry", ""},
	} {
		var change Change
		if got := message(change.Set(c.name, c.value)); got != c.want {
			t.Errorf("%s=%s: %q, want %q", c.name, c.value, got, c.want)
		}
		if !change.IsZero() {
			t.Errorf("%s=%s: something is to change", c.name, c.value)
		}
	}
	for _, words := range [][]string{{"OFF", "TIMESTAMPS"}, {"OFF", "OFF"}} {
		var change Change
		if got := message(change.SetLevels(words)); got != "Expect only one trace level 'OFF' is specified" {
			t.Errorf("%v: %q", words, got)
		}
	}
	if err := tracer(t, Config{Settings: Defaults()}).Update("",
		change(t, "trace_level=TIMESTAMPS")); message(err) != "Attempting to set invalid trace setting :trace file name is not given" {
		t.Errorf("without a file: %v", err)
	}
}

// run takes a request through its hops, with an output of one element.
func run(tr *Tracer, model string, headers map[string]string) *Trace {
	r := infer.New(infer.NewSingle(), nil)
	r.ModelName, r.ModelVersion, r.ID = model, 1, "id"
	r.Inputs = []tensor.Tensor{{Name: "X", Datatype: tensor.FP32, Shape: tensor.Shape{1}, Data: []byte{0, 0, 32, 64}}}
	now := backend.Now()
	r.Times = infer.Times{Receive: now, Start: now}
	trace := tr.Start(r, HTTP, func(name string) string { return headers[name] })
	if trace != nil {
		r.Timeline.Begin(r)
	}
	r.Times.Queue, r.Times.ComputeStart = backend.Now(), backend.Now()
	_ = r.Respond(&backend.Response{Outputs: []tensor.Tensor{{
		Name: "Y", Datatype: tensor.FP32, Shape: tensor.Shape{1},
		Data: []byte{0, 0, 160, 64},
	}}}, true)
	trace.Send()()
	trace.Done()
	return trace
}

func TestEachRequestOfTheRate(t *testing.T) {
	s := Defaults()
	s.Level, s.Rate, s.Count = Timestamps, 3, 2
	tr := tracer(t, Config{Settings: s, File: filepath.Join(t.TempDir(), "t.json")})
	var got []int
	for i := 1; i <= 12; i++ {
		if run(tr, "m", nil) != nil {
			got = append(got, i)
		}
	}
	if want := []int{3, 6}; !slices.Equal(got, want) {
		t.Errorf("sampled %v, want %v", got, want)
	}
	if got := shown(tr, ""); got != "TIMESTAMPS 3 0 0" {
		t.Errorf("what is left: %s", got)
	}
	// A model of its own setting counts for itself, and another count begins anew.
	if err := tr.Update("m", change(t, "trace_rate=1 trace_count=-1")); err != nil {
		t.Fatal(err)
	}
	if run(tr, "m", nil) == nil || run(tr, "other", nil) != nil {
		t.Error("the model's own setting does not hold")
	}
}

func TestConcurrentRequestsKeepTheCount(t *testing.T) {
	s := Defaults()
	s.Level, s.Rate, s.Count = Timestamps, 2, 50
	tr := tracer(t, Config{Settings: s, File: filepath.Join(t.TempDir(), "t.json")})
	var wg sync.WaitGroup
	var mu sync.Mutex
	sampled := 0
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if run(tr, "m", nil) != nil {
					mu.Lock()
					sampled++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if sampled != 50 {
		t.Errorf("sampled %d of 800, want 50", sampled)
	}
}

func TestNothingIsTracedUntilAskedFor(t *testing.T) {
	tr := tracer(t, Config{Settings: Defaults(), File: filepath.Join(t.TempDir(), "t.json")})
	r := &infer.Request{}
	if n := testing.AllocsPerRun(100, func() {
		if tr.On() || tr.Start(r, HTTP, nil) != nil {
			t.Error("traced")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a request that is not traced", n)
	}
	var none *Tracer
	if none.On() || none.Start(r, HTTP, nil) != nil || none.Called("x") != nil || none.Close(t.Context()) != nil {
		t.Error("no tracer traces")
	}
}

// objects reads a trace file.
func objects(t *testing.T, path string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	return all
}

// names are those of the moments and activities of one request, in order.
func names(all []map[string]any, id float64) (got []string) {
	for _, o := range all {
		if o["id"] != id {
			continue
		}
		switch {
		case o["timestamps"] != nil:
			got = append(got, o["timestamps"].([]any)[0].(map[string]any)["name"].(string))
		case o["activity"] != nil:
			got = append(got, o["activity"].(string))
		default:
			got = append(got, fmt.Sprint(o["model_name"], " ", o["model_version"], " ", o["request_id"], " ", o["parent_id"]))
		}
	}
	return got
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	s := Defaults()
	s.Level, s.Rate = Timestamps|Tensors, 1
	tr := tracer(t, Config{Settings: s, File: path})
	run(tr, "m", nil)
	run(tr, "m", nil)
	if err := tr.Update("", change(t, "trace_level=OFF")); err != nil {
		t.Fatal(err)
	}
	all := objects(t, path) // whole, though the server goes on
	want := []string{
		"HTTP_RECV_START", "HTTP_RECV_END", "m 1 id <nil>", "REQUEST_START", "QUEUE_START", "TENSOR_QUEUE_INPUT", "TENSOR_BACKEND_OUTPUT",
		"COMPUTE_START", "COMPUTE_INPUT_END", "INFER_RESPONSE_COMPLETE", "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END", "HTTP_SEND_START",
		"HTTP_SEND_END",
	}
	for _, id := range []float64{1, 2} {
		got := names(all, id)
		if i := slices.Index(got, "INFER_RESPONSE_COMPLETE"); i == slices.Index(want, "INFER_RESPONSE_COMPLETE")-1 {
			got[i], got[i+1] = got[i+1], got[i] // both in the same nanosecond
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("trace %v (-want +got):\n%s", id, d)
		}
	}
	tensors := map[string]any{}
	for _, o := range all {
		if x, ok := o["tensor"].(map[string]any); ok {
			tensors[x["name"].(string)] = x
		}
	}
	if d := cmp.Diff(map[string]any{
		"X": map[string]any{"name": "X", "data": "2.5", "shape": "1", "dtype": "FP32"},
		"Y": map[string]any{"name": "Y", "data": "5", "shape": "1", "dtype": "FP32"},
	}, tensors); d != "" {
		t.Errorf("tensors (-want +got):\n%s", d)
	}
}

func TestNumberedFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "t.json")
	s := Defaults()
	s.Level, s.Rate, s.LogFrequency = Timestamps, 1, 2
	tr := tracer(t, Config{Settings: s, File: path})
	files := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			ids := map[any]bool{}
			for _, o := range objects(t, filepath.Join(dir, e.Name())) {
				ids[o["id"]] = true
			}
			got = append(got, fmt.Sprint(e.Name(), ":", len(ids)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("files %v, want %v", got, want)
		}
	}
	set := func(settings string) {
		t.Helper()
		if err := tr.Update("", change(t, settings)); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		run(tr, "m", nil)
	}
	set("trace_count=3") // what was collected goes to a file of its own
	files("t.json.0:2", "t.json.1:2", "t.json.2:1")
	for range 5 {
		run(tr, "m", nil)
	}
	set("trace_count=-1 log_frequency=0") // the count had ended, and its file with it
	files("t.json.0:2", "t.json.1:2", "t.json.2:1", "t.json.3:2", "t.json.4:1")
	run(tr, "m", nil)
	set("trace_count=2")
	run(tr, "m", nil)
	set("trace_count=-1") // a count that has not ended
	files("t.json:2", "t.json.0:2", "t.json.1:2", "t.json.2:1", "t.json.3:2", "t.json.4:1")
}

func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full on this system")
	}
	var log bytes.Buffer
	s := Defaults()
	s.Level, s.Rate = Timestamps, 1
	tr, err := New(Config{Settings: s, File: "/dev/full", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		run(tr, "m", nil)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "no space left on device") || tr.Dropped() != 10 {
		t.Errorf("%d lines, dropped %d:\n%s", n, tr.Dropped(), log.String())
	}
}

// failing gives some bytes and then none.
type failing struct{ n int }

func (f *failing) Read(b []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errors.New("broken")
	}
	return copy(b, `{"id":9}`), nil
}

func TestFailedWriteLeavesTheFileWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	g, err := create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	if err := g.append([]byte(`{"id":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := g.take(&failing{2}); err == nil {
		t.Error("no error")
	}
	if len(objects(t, path)) != 1 {
		t.Error("the file is not what it was")
	}
	if err := g.take(io.LimitReader(&failing{1}, 8)); err != nil {
		t.Fatal(err)
	}
	if len(objects(t, path)) != 2 {
		t.Error("the file does not go on")
	}
}

func TestChildren(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.json")
	s := Defaults()
	s.Level, s.Rate = Timestamps, 1
	tr := tracer(t, Config{Settings: s, File: path})
	outer := infer.New(infer.NewSingle(), nil)
	outer.ModelName, outer.ID, outer.Times.Start = "outer", "o", backend.Now()
	trace := tr.Start(outer, GRPC, nil)
	outer.Timeline.Begin(outer)
	serve := func(r *infer.Request, model string, refusal error) {
		r.ModelName, r.Times.Start = model, backend.Now()
		r.Timeline.Begin(r)
		if refusal != nil {
			r.Timeline.End(r, refusal)
			return
		}
		_ = r.Respond(nil, true)
	}
	step := infer.New(infer.NewSingle(), nil)
	step.Timeline = outer.Timeline.Child()
	serve(step, "step", nil)
	called := infer.New(infer.NewSingle(), nil)
	called.Timeline = tr.Called(outer.Trace)
	serve(called, "called", errors.New("full"))
	if tr.Called("#999") != nil || tr.Called(`{"traceparent":"x"}`) != nil {
		t.Error("a request of no trace is traced")
	}
	late := outer.Timeline
	_ = outer.Respond(nil, true)
	if tr.Called(outer.Trace) != nil {
		t.Error("a request that is over has children")
	}
	trace.Done()
	trace.Done()
	if late.Child() != nil {
		t.Error("a trace that is over grows")
	}
	if err := tr.Update("", change(t, "trace_level=OFF")); err != nil {
		t.Fatal(err)
	}
	all := objects(t, path)
	if got := names(all, 2); got[0] != "step 0 <nil> 1" || got[len(got)-1] != "REQUEST_END" {
		t.Errorf("the step: %v", got)
	}
	if got := names(all, 3); !slices.Equal(got, []string{"called 0 <nil> 1", "REQUEST_START", "REQUEST_END"}) {
		t.Errorf("the call that was refused: %v", got)
	}
}

func TestTensorsAsText(t *testing.T) {
	bytesOf := tensor.AppendElement(tensor.AppendElement(nil, `a"b`), "\xff")
	for _, c := range []struct {
		d    tensor.Datatype
		data []byte
		want string
	}{
		{tensor.FP32, []byte{0, 0, 128, 63, 0, 0, 192, 127, 0, 0, 128, 255, 0, 0, 0, 128, 236, 120, 173, 96}, "1,nan,-inf,-0,1e+20"},
		{tensor.FP64, []byte{24, 45, 68, 84, 251, 33, 9, 64}, "3.14159"},
		{tensor.FP16, []byte{0, 60, 0, 188, 1, 0, 0, 124}, "1,-1,5.96046e-08,inf"},
		{tensor.BF16, []byte{128, 63}, "1"},
		{tensor.Int8, []byte{1, 255}, "1,-1"},
		{tensor.Int64, []byte{255, 255, 255, 255, 255, 255, 255, 255}, "-1"},
		{tensor.Uint64, []byte{255, 255, 255, 255, 255, 255, 255, 255}, "18446744073709551615"},
		{tensor.Bool, []byte{1, 0}, "1,0"},
		{tensor.Bytes, bytesOf, `"a\"b","` + "\uFFFD" + `"`},
	} {
		var got struct{ Data, Shape, Dtype string }
		text := appendTensor(nil, &tensor.Tensor{Name: "t", Datatype: c.d, Shape: tensor.Shape{2, 1}, Data: c.data})
		if err := json.Unmarshal(text, &got); err != nil {
			t.Errorf("%s: %v: %s", c.d, err, text)
		}
		if got.Data != c.want || got.Shape != "2,1" || got.Dtype != c.d.String() {
			t.Errorf("%s: %+v, want %s", c.d, got, c.want)
		}
	}
}
