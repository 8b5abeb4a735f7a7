package model

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	errorbackend "github.com/nesoserve/neso/backend/error"
	"github.com/nesoserve/neso/backend/identity"
	"github.com/nesoserve/neso/backend/square"
	"github.com/nesoserve/neso/internal/infer"
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/tensor"
)

func TestResponsesAreChecked(t *testing.T) {
	c := &modelconfig.Config{
		Name: "m", MaxBatchSize: 4,
		Inputs: []modelconfig.Input{in("IN", tensor.FP32, -1)},
		Outputs: []modelconfig.Output{
			{Name: "X", Datatype: tensor.FP32, Dims: tensor.Shape{2}}, {Name: "S", Datatype: tensor.Bytes, Dims: tensor.Shape{1}},
		},
	}
	x := tensorOf("X", tensor.FP32, 16, 2, 2)
	s := tensor.Tensor{Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{2, 1}, Data: elements("a", "b")}
	bad := func(change func(*tensor.Tensor)) tensor.Tensor {
		t := x
		change(&t)
		return t
	}
	for _, test := range []struct {
		name      string
		outputs   []tensor.Tensor
		requested []string
		got, want string // names of the outputs, or the error
	}{
		{"good", []tensor.Tensor{x, s}, nil, "X S", ""},
		{"only what was asked for", []tensor.Tensor{s, x}, []string{"S"}, "S", ""},
		{"unknown", []tensor.Tensor{tensorOf("Q", tensor.FP32, 1, 9), x, s}, nil, "X S", ""},
		{"twice", []tensor.Tensor{x, x, s}, nil, "X S", ""},
		{
			"left out, not asked for by name",
			[]tensor.Tensor{x},
			nil, "",
			"model 'm' returned no output 'S', expected one of datatype BYTES and shape [2,1]",
		},
		{"none at all", nil, nil, "", "model 'm' returned no output 'X', expected one of datatype FP32 and shape [2,2]"},
		{
			"missing",
			[]tensor.Tensor{x},
			[]string{"X", "S"},
			"",
			"model 'm' returned no output 'S', expected one of datatype BYTES and shape [2,1]",
		},
		{
			"twice and missing",
			[]tensor.Tensor{x, x},
			[]string{"X", "S"},
			"",
			"model 'm' returned no output 'S', expected one of datatype BYTES and shape [2,1]",
		},
		{"datatype", []tensor.Tensor{bad(func(t *tensor.Tensor) {
			t.Datatype = tensor.Int32
		}), s}, nil, "", "output 'X' of model 'm' has datatype INT32, expected FP32"},
		{"shape", []tensor.Tensor{bad(func(t *tensor.Tensor) {
			t.Shape = tensor.Shape{2, 3}
		}), s}, nil, "", "output 'X' of model 'm' has shape [2,3], expected [2,2]"},
		{"several", []tensor.Tensor{tensorOf("X", tensor.Int32, 24, 2, 3), {
			Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{2, 1},
			Data: elements("a"),
		}}, nil, "", "output 'X' of model 'm' has datatype INT32 and shape [2,3], expected FP32 and [2,2]; output 'S' of " +
			"model 'm' has 1 elements, expected 2 for shape [2,1]"},
		{
			"several, one missing",
			[]tensor.Tensor{tensorOf("X", tensor.Int32, 16, 2, 2)},
			nil, "",
			"output 'X' of model 'm' has datatype INT32, expected FP32; model 'm' returned no output 'S', expected one of datatype BYTES and " +
				"shape [2,1]",
		},
		{"batch size", []tensor.Tensor{bad(func(t *tensor.Tensor) {
			t.Shape = tensor.Shape{1, 2}
		}), s}, nil, "", "output 'X' of model 'm' has shape [1,2], expected [2,2]"},
		{"rank", []tensor.Tensor{bad(func(t *tensor.Tensor) {
			t.Shape = nil
		}), s}, nil, "", "output 'X' of model 'm' has shape [], expected [2,2]"},
		{"bytes", []tensor.Tensor{bad(func(t *tensor.Tensor) {
			t.Data = t.Data[:15]
		}), s}, nil, "", "output 'X' of model 'm' has 15 bytes, expected 16 for shape [2,2]"},
		{
			"elements",
			[]tensor.Tensor{x, {Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{2, 1}, Data: elements("a")}},
			nil, "",
			"output 'S' of model 'm' has 1 elements, expected 2 for shape [2,1]",
		},
		{
			"malformed",
			[]tensor.Tensor{x, {Name: "S", Datatype: tensor.Bytes, Shape: tensor.Shape{2, 1}, Data: []byte{9, 0, 0, 0}}},
			nil, "",
			"output 'S' of model 'm': incomplete string data",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := mustOpen(t, c, (&script{execute: answering(test.outputs...)}).driver(), func(o *Options) { o.StrictOutputs = true })
			resp, err := ask(t, m, func(r *infer.Request) { r.Requested = test.requested }, fp32("IN", 2, 1))
			if test.want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.want) || backend.AsError(err).Code != backend.Internal {
					t.Errorf("got %v, want %s", err, test.want)
				}
				if s := m.Stats().Snapshot(); s.Fail.Count != 1 || s.FailuresByCause[infer.Backend] != 1 {
					t.Errorf("statistics %+v", s)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, o := range resp.Outputs {
				names = append(names, o.Name)
			}
			if got := strings.Join(names, " "); got != test.got {
				t.Errorf("outputs %s, want %s", got, test.got)
			}
		})
	}
}

func TestOutputsThatAreNotAsConfigured(t *testing.T) {
	c := &modelconfig.Config{
		Name: "m", MaxBatchSize: 4,
		Inputs: []modelconfig.Input{in("IN", tensor.FP32, -1)},
		Outputs: []modelconfig.Output{
			{Name: "X", Datatype: tensor.FP32, Dims: tensor.Shape{2}},
			{Name: "R", Datatype: tensor.FP32, Dims: tensor.Shape{2}, Reshape: tensor.Shape{1, 2}, HasReshape: true},
		},
	}
	for _, test := range []struct {
		name      string
		outputs   []tensor.Tensor
		requested []string
		got, want string // datatypes and shapes of the outputs, or the error
	}{
		{"datatype", []tensor.Tensor{tensorOf("X", tensor.Int64, 32, 2, 2)}, nil, "X INT64 [2,2]", ""},
		{"shape", []tensor.Tensor{tensorOf("X", tensor.FP32, 24, 2, 3)}, nil, "X FP32 [2,3]", ""},
		{"no batch dimension", []tensor.Tensor{tensorOf("X", tensor.FP32, 4)}, nil, "X FP32 []", ""},
		{"reshaped", []tensor.Tensor{tensorOf("R", tensor.FP32, 16, 2, 1, 2)}, nil, "R FP32 [2,2]", ""},
		{"of another shape, as many elements", []tensor.Tensor{tensorOf("R", tensor.FP32, 16, 2, 2, 1)}, nil, "R FP32 [2,2]", ""},
		{"of another shape, other elements", []tensor.Tensor{tensorOf("R", tensor.FP32, 24, 2, 1, 3)}, nil, "R FP32 [2,1,3]", ""},
		{"not to be reshaped", []tensor.Tensor{tensorOf("R", tensor.FP32, 4, 1)}, nil, "R FP32 [1]", ""},
		{"missing", []tensor.Tensor{tensorOf("X", tensor.FP32, 16, 2, 2)}, []string{"X", "R"}, "X FP32 [2,2]", ""},
		{"none", nil, nil, "", ""},
		{
			"twice",
			[]tensor.Tensor{tensorOf("X", tensor.FP32, 16, 2, 2), tensorOf("X", tensor.FP32, 16, 2, 2)},
			nil, "X FP32 [2,2], X FP32 [2,2]",
			"",
		},
		{"unknown", []tensor.Tensor{tensorOf("Q", tensor.FP32, 16, 2, 2)}, nil, "", ""},
		{
			"bytes",
			[]tensor.Tensor{tensorOf("X", tensor.FP32, 15, 2, 2)},
			nil, "",
			"output 'X' of model 'm' has 15 bytes, expected 16 for shape [2,2]",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := mustOpen(t, c, (&script{execute: answering(test.outputs...)}).driver())
			resp, err := ask(t, m, func(r *infer.Request) { r.Requested = test.requested }, fp32("IN", 2, 1))
			if test.want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range resp.Outputs {
				got = append(got, o.Name+" "+o.Datatype.String()+" "+o.Shape.String())
			}
			if got := strings.Join(got, ", "); got != test.got {
				t.Errorf("outputs %s, want %s", got, test.got)
			}
		})
	}
}

// What passes is told once for each output, and counted each time; a parameter
// of the model says more than the server.
func TestOutputsThatAreNotAsConfiguredAreTold(t *testing.T) {
	x := tensorOf("X", tensor.Int64, 24, 3)
	for _, test := range []struct {
		server    bool
		parameter string
		outputs   []tensor.Tensor
		want      string // what the log says; an error when it begins with "!"
	}{
		{false, "", []tensor.Tensor{x}, "output 'X' of model 'm' has datatype INT64 and shape [3], expected FP32 and [2]"},
		{false, "", []tensor.Tensor{tensorOf("X", tensor.FP32, 12, 3)}, "output 'X' of model 'm' has shape [3], expected [2]"},
		{false, "", nil, "model 'm' returned no output 'X'"},
		{true, "", nil, "!model 'm' returned no output 'X'"},
		{false, "false", []tensor.Tensor{x}, "has datatype INT64"},
		{true, "false", []tensor.Tensor{x}, "has datatype INT64"},
		{true, "", []tensor.Tensor{x}, "!has datatype INT64"},
		{false, "True", []tensor.Tensor{x}, "!has datatype INT64"},
	} {
		c := &modelconfig.Config{
			Name: "m", Inputs: []modelconfig.Input{in("IN", tensor.FP32, -1)}, Parameters: map[string]string{},
			Outputs: []modelconfig.Output{{Name: "X", Datatype: tensor.FP32, Dims: tensor.Shape{2}}},
		}
		if test.parameter != "" {
			c.Parameters[paramStrict] = test.parameter
		}
		var log strings.Builder
		m := mustOpen(t, c, (&script{execute: answering(test.outputs...)}).driver(), func(o *Options) {
			o.StrictOutputs, o.Logger = test.server, slog.New(slog.NewTextHandler(&log, nil))
		})
		want, strict := strings.CutPrefix(test.want, "!")
		for range 3 {
			_, err := ask(t, m, nil, fp32("IN", 1))
			if (err != nil) != strict || strict && !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v", test, err)
			}
		}
		counted := m.Stats().Snapshot().OddOutputs["X"]
		if times := strings.Count(log.String(), want); strict && counted != 0 || !strict && (counted != 3 || times != 1) {
			t.Errorf("%+v: counted %d, the log says\n%s", test, counted, log.String())
		}
	}
	c := &modelconfig.Config{Name: "m", Parameters: map[string]string{paramStrict: "perhaps"}}
	if _, err := open(t, c, (&script{}).driver()); err == nil || !strings.Contains(err.Error(),
		"parameter 'strict_outputs' of model 'm' is 'perhaps', expected true or false") {
		t.Errorf("got %v", err)
	}
}

// All that is wrong with a response is one line of the log.
func TestOddOutputsAreToldTogether(t *testing.T) {
	c := &modelconfig.Config{Name: "m", Inputs: []modelconfig.Input{in("IN", tensor.FP32, -1)}}
	for _, name := range []string{"X", "Y", "Z"} {
		c.Outputs = append(c.Outputs, modelconfig.Output{Name: name, Datatype: tensor.FP32, Dims: tensor.Shape{2}})
	}
	var log strings.Builder
	outputs := []tensor.Tensor{tensorOf("X", tensor.Int64, 24, 3), tensorOf("Y", tensor.FP32, 12, 3)}
	m := mustOpen(t, c, (&script{execute: answering(outputs...)}).driver(), func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 2 {
		if _, err := ask(t, m, nil, fp32("IN", 1)); err != nil {
			t.Fatal(err)
		}
	}
	want := "output=X,Y,Z found=\"output 'X' of model 'm' has datatype INT64 and shape [3], expected FP32 and [2]; " +
		"output 'Y' of model 'm' has shape [3], expected [2]; model 'm' returned no output 'Z', expected one of datatype FP32 and shape [2]\""
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
		t.Errorf("the log says\n%s\nwant a line with\n%s", got, want)
	}
	if counted := m.Stats().Snapshot().OddOutputs; counted["X"] != 2 || counted["Y"] != 2 || counted["Z"] != 2 {
		t.Errorf("counted %v", counted)
	}
}

func TestReshapeIsTheBackends(t *testing.T) {
	c := &modelconfig.Config{
		Name: "m", MaxBatchSize: 4,
		Inputs: []modelconfig.Input{{
			Name: "IN", Datatype: tensor.FP32, Dims: tensor.Shape{-1, 2}, Reshape: tensor.Shape{-1, 1, 2},
			HasReshape: true,
		}},
		Outputs: []modelconfig.Output{{
			Name: "OUT", Datatype: tensor.FP32, Dims: tensor.Shape{-1, 2}, Reshape: tensor.Shape{-1, 1, 2},
			HasReshape: true,
		}},
	}
	var seen string
	s := &script{execute: func(_ context.Context, b *backend.Batch) error {
		out := b.Requests[0].Inputs[0]
		seen = out.Shape.String()
		out.Name = "OUT"
		out.Retain()
		return b.Requests[0].Respond(&backend.Response{Outputs: []tensor.Tensor{out}}, true)
	}}
	m := mustOpen(t, c, s.driver())
	resp, err := ask(t, m, nil, fp32("IN", 3, 5, 2))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Outputs[0].Shape.String(); seen != "[3,5,1,2]" || got != "[3,5,2]" {
		t.Errorf("the backend saw %s and the client %s, want [3,5,1,2] and [3,5,2]", seen, got)
	}
}

func TestFailingBackends(t *testing.T) {
	for _, test := range []struct{ how, want string }{
		{"respond", "no luck"},
		{"return", "no luck"},
		{"panic", "backend panicked: no luck"},
		{"silent", "expected a single response, got 0"},
	} {
		t.Run(test.how, func(t *testing.T) {
			c := identityConfig()
			c.Parameters = map[string]string{"how": test.how, "message": "no luck", "code": "INTERNAL"}
			m := mustOpen(t, c, errorbackend.New())
			for range 3 { // the instance goes on
				_, err := ask(t, m, nil, fp32("INPUT0", 1))
				if err == nil || err.Error() != test.want || backend.AsError(err).Code != backend.Internal {
					t.Errorf("got %v, want %s", err, test.want)
				}
			}
			if s := m.Stats().Snapshot(); s.FailuresByCause[infer.Backend] != 3 || m.Inflight() != 0 {
				t.Errorf("statistics %+v, in flight %d", s, m.Inflight())
			}
		})
	}
}

// stream collects the responses of a decoupled model.
type stream struct {
	responses []*backend.Response
	done      chan struct{}
}

func (s *stream) Deliver(_ *infer.Request, resp *backend.Response, final bool) {
	if resp != nil {
		s.responses = append(s.responses, resp)
	}
	if final {
		close(s.done)
	}
}

func TestDecoupled(t *testing.T) {
	c := &modelconfig.Config{
		Name: "m", Decoupled: true,
		Inputs:  []modelconfig.Input{in("IN", tensor.Int32, 1)},
		Outputs: []modelconfig.Output{{Name: "OUT", Datatype: tensor.Int32, Dims: tensor.Shape{1}}},
	}
	m := mustOpen(t, c, square.New())
	sink := &stream{done: make(chan struct{})}
	r := request(t, m, sink, tensor.Tensor{Name: "IN", Datatype: tensor.Int32, Shape: tensor.Shape{1}, Data: []byte{3, 0, 0, 0}})
	if err := m.Infer(r); err != nil {
		t.Fatal(err)
	}
	<-sink.done
	if len(sink.responses) != 3 {
		t.Errorf("%d responses, want 3", len(sink.responses))
	}
	s := m.Stats().Snapshot()
	if s.Success.Count != 1 || len(s.Responses) != 3 || s.Responses[0].Success.Count != 1 || s.FirstResponse.Count() != 1 {
		t.Errorf("statistics %+v", s)
	}
}

func TestPriority(t *testing.T) {
	m := &Model{config: &modelconfig.Config{}}
	for _, test := range []struct{ levels, standard, given, want uint64 }{
		{0, 0, 5, 0}, {3, 2, 0, 2}, {3, 2, 1, 1}, {3, 2, 3, 3}, {3, 2, 4, 2},
	} {
		m.config.Dynamic = &modelconfig.DynamicBatching{PriorityLevels: test.levels, DefaultPriorityLevel: test.standard}
		r := infer.New(nil, nil)
		r.Priority = test.given
		if m.prioritize(r); r.Priority != test.want {
			t.Errorf("%d of %d levels, default %d: %d, want %d", test.given, test.levels, test.standard, r.Priority, test.want)
		}
	}
	m.config.Dynamic = nil
	r := infer.New(nil, nil)
	r.Priority = 3
	if m.prioritize(r); r.Priority != 0 {
		t.Errorf("priority %d without a dynamic batcher, want 0", r.Priority)
	}
}

// TestInstancesAreShared has more callers than places: nobody is lost, nobody
// runs twice at once, and who is cancelled while waiting is answered so.
func TestInstancesAreShared(t *testing.T) {
	c := identityConfig()
	c.Parameters = map[string]string{"sleep_ms": "1"}
	c.Groups = []modelconfig.InstanceGroup{{Count: 2}}
	release := make(chan struct{})
	s := &script{execute: func(_ context.Context, b *backend.Batch) error {
		<-release
		return answering(tensorOf("OUTPUT0", tensor.FP32, 4, 1))(nil, b)
	}}
	m := mustOpen(t, c, s.driver())
	ctx, cancel := context.WithCancel(t.Context())
	const clients = 6
	errs := make(chan error, clients+1)
	for range clients {
		go func() {
			_, err := ask(t, m, nil, fp32("INPUT0", 1))
			errs <- err
		}()
	}
	until(t, func() bool { return m.Stats().Snapshot().Pending == clients-2 })
	go func() {
		_, err := ask(t, m, func(r *infer.Request) { r.Ctx = ctx }, fp32("INPUT0", 1))
		errs <- err
	}()
	until(t, func() bool { return m.Stats().Snapshot().Pending == clients-1 })
	cancel()
	if err := backend.AsError(<-errs); err == nil || err.Code != backend.Cancelled {
		t.Errorf("got %v, want Cancelled", err)
	}
	close(release)
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if s := m.Stats().Snapshot(); s.Success.Count != clients || s.FailuresByCause[infer.Canceled] != 1 || s.Pending != 0 {
		t.Errorf("statistics %+v", s)
	}
}

// until waits for a condition that another goroutine brings about.
func until(t *testing.T, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("it never happens")
		}
	}
}

func TestDynamicBatchingGathers(t *testing.T) {
	c := identityConfig()
	c.MaxBatchSize = 8
	c.Dynamic = &modelconfig.DynamicBatching{PreferredBatchSizes: []int{8}}
	var sizes []int
	s := &script{caps: backend.Capabilities{Gather: true}, execute: func(_ context.Context, b *backend.Batch) error {
		sizes = append(sizes, b.Size)
		out := b.Inputs[0]
		out.Name = "OUTPUT0"
		out.Retain()
		return b.Scatter([]tensor.Tensor{out})
	}}
	m := mustOpen(t, c, s.driver(), func(o *Options) { o.HoldRequests = 3 })
	got := make(chan string, 3)
	for i := range 3 {
		go func() {
			in := fp32("INPUT0", int64(i+1), 2)
			in.Data[0] = byte(i)
			resp, err := ask(t, m, nil, in)
			if err != nil {
				got <- err.Error()
				return
			}
			o := resp.Outputs[0]
			if o.Data[0] != byte(i) || len(o.Data) != 8*(i+1) {
				got <- "wrong rows"
			}
			got <- o.Shape.String()
			resp.Release()
		}()
	}
	want := map[string]bool{"[1,2]": true, "[2,2]": true, "[3,2]": true}
	for range 3 {
		if s := <-got; !want[s] {
			t.Errorf("got %s", s)
		}
	}
	if len(sizes) != 1 || sizes[0] != 6 {
		t.Errorf("batches of %v, want one of 6", sizes)
	}
	snap := m.Stats().Snapshot()
	if snap.ExecutionCount != 1 || snap.InferenceCount != 6 || snap.Pending != 0 {
		t.Errorf("statistics %+v", snap)
	}
}

func TestAllocationCeiling(t *testing.T) {
	m := mustOpen(t, identityConfig(), identity.New())
	sink := infer.NewSingle()
	ctx, one := context.Background(), fp32("INPUT0", 16)
	inputs := make([]tensor.Tensor, 1)
	done := func(*infer.Request) { m.Unpin() }
	got := testing.AllocsPerRun(1000, func() {
		m.Pin()
		inputs[0] = one
		r := infer.New(sink, done)
		r.Ctx, r.Owner, r.Inputs = ctx, m, inputs
		if m.Infer(r) != nil {
			panic("refused")
		}
		resp, _ := sink.Wait()
		resp.Release()
	})
	// The request and the response; a collection may empty a pool meanwhile.
	if got > 2.5 && !raceEnabled {
		t.Errorf("%v allocations a request, want 2", got)
	}
}

func TestRefusalsSayWhatHelps(t *testing.T) {
	c := &modelconfig.Config{
		Name: "m", Inputs: []modelconfig.Input{in("IN", tensor.FP32, -1)},
		Outputs: []modelconfig.Output{{Name: "X", Datatype: tensor.FP32, Dims: tensor.Shape{2}}},
	}
	for _, test := range []struct {
		name    string
		outputs []tensor.Tensor
		lenient bool // it would pass without --strict-outputs
	}{
		{"datatype", []tensor.Tensor{tensorOf("X", tensor.Int32, 8, 2)}, true},
		{"shape", []tensor.Tensor{tensorOf("X", tensor.FP32, 12, 3)}, true},
		{"missing", nil, true},
		{"bytes", []tensor.Tensor{tensorOf("X", tensor.FP32, 7, 2)}, false},
		{"both", []tensor.Tensor{tensorOf("X", tensor.Int32, 7, 2)}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log strings.Builder
			m := mustOpen(t, c, (&script{execute: answering(test.outputs...)}).driver(), func(o *Options) {
				o.StrictOutputs, o.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
			})
			if _, err := ask(t, m, func(r *infer.Request) { r.Requested = []string{"X"} }, fp32("IN", 1)); err == nil {
				t.Fatal("it passes")
			}
			if got := log.String(); strings.Contains(got, "strict-outputs") != test.lenient ||
				strings.Contains(got, "its bytes do not fit") == test.lenient {
				t.Errorf("the log says\n%s", got)
			}
		})
	}
}
