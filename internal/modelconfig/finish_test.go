package modelconfig

import (
	"errors"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/tensor"
)

func load(t *testing.T, text string) *Config {
	t.Helper()
	c, err := finish(t, "m", text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readExample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/triton/" + name + ".pbtxt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFinishDynamic(t *testing.T) {
	got := load(t, readExample(t, "dynamic_full")).Dynamic
	want := &DynamicBatching{
		PreferredBatchSizes: []int{4, 8}, MaxQueueDelay: math.MaxInt64 / 1000 * 1000, PriorityLevels: 4, DefaultPriorityLevel: 2,
		DefaultPolicy: QueuePolicy{Action: Delay, DefaultTimeout: time.Second, AllowTimeoutOverride: true, MaxQueueSize: 100},
		Policies:      map[uint64]QueuePolicy{3: {DefaultTimeout: 5 * time.Microsecond}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFinishSequence(t *testing.T) {
	got := load(t, readExample(t, "sequence_direct")).Sequence
	want := &SequenceBatching{
		MaxIdle: time.Second,
		Direct:  &DirectStrategy{MaxQueueDelay: 7 * time.Microsecond, MinimumSlotUtilization: 0.7},
		Controls: []SequenceControl{
			{Input: "START", Kind: "CONTROL_SEQUENCE_START", Datatype: tensor.FP32, False: make([]byte, 4), True: []byte{0, 0, 0xc0, 0x3f}},
			{Input: "READY", Kind: "CONTROL_SEQUENCE_READY", Datatype: tensor.Int32, False: make([]byte, 4), True: []byte{1, 0, 0, 0}},
			{Input: "END", Kind: "CONTROL_SEQUENCE_END", Datatype: tensor.Bool, False: []byte{0}, True: []byte{1}},
			{Input: "CORRID", Kind: "CONTROL_SEQUENCE_CORRID", Datatype: tensor.Uint64},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	oldest := load(t, readExample(t, "sequence_oldest")).Sequence
	if oldest.Direct != nil || oldest.Oldest == nil || oldest.Oldest.MaxCandidateSequences != 9 || !slices.Equal(oldest.Oldest.PreferredBatchSizes, []int{4}) {
		t.Errorf("got %+v", oldest)
	}
	if s := oldest.States; len(s) != 1 || s[0].Initial == nil || s[0].Initial.Name != "init" || !s[0].SameBuffer {
		t.Errorf("got %+v", s)
	}
}

func TestToBackend(t *testing.T) {
	c := load(t, `backend: "python" max_batch_size: 2
input { name: "A" data_type: TYPE_FP32 dims: [ 4, 6 ] reshape { shape: 24 } optional: true allow_ragged_batch: true }
output { name: "B" data_type: TYPE_STRING dims: 1 reshape { } }
batch_input { kind: BATCH_ITEM_SHAPE target_name: [ "S", "T" ] data_type: TYPE_INT32 source_input: "A" }
batch_input { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_FP32 source_input: "A" }
batch_output { target_name: "B" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "A" }
instance_group { count: 2 } instance_group { name: "other" kind: KIND_MODEL }
parameters { key: "k" value { string_value: "v" } }
model_transaction_policy { decoupled: true }`)
	got := c.ToBackend("/r/m", "/r/m/3", 3)
	want := backend.Config{
		Name: "m", Version: 3, Directory: "/r/m", VersionDirectory: "/r/m/3", Backend: "python", Filename: "model.py", JSON: c.JSON(), MaxBatchSize: 2,
		Inputs:  []backend.IO{{Name: "A", Datatype: tensor.FP32, Dims: tensor.Shape{24}, Optional: true, Ragged: true}},
		Outputs: []backend.IO{{Name: "B", Datatype: tensor.Bytes}},
		BatchInputs: []backend.IO{
			{Name: "S", Datatype: tensor.Int32, Dims: tensor.Shape{-1, 1}},
			{Name: "T", Datatype: tensor.Int32, Dims: tensor.Shape{-1, 1}},
			{Name: "N", Datatype: tensor.FP32, Dims: tensor.Shape{-1}},
		},
		Scattered:  []backend.Scattered{{Output: "B", Source: "A", Batching: true}},
		Parameters: map[string]string{"k": "v"}, Decoupled: true,
		Instances: []backend.InstanceConfig{
			{Name: "m_0_0", Kind: "KIND_CPU"}, {Name: "m_0_1", Kind: "KIND_CPU"}, {Name: "other_0", Kind: "KIND_MODEL"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	g := InstanceGroup{Name: "g", Kind: "KIND_GPU", Count: 1, GPUs: []int{0, 2}}
	if all := g.Instances(); len(all) != 2 || all[1].Name != "g_0" || all[1].Device != 2 {
		t.Errorf("got %+v", all)
	}
}

func TestEnsembleDecoupled(t *testing.T) {
	text := strings.ReplaceAll(readExample(t, "ensemble_one"), "ensemble_one", "m")
	c := load(t, text)
	if c.Decoupled || !strings.Contains(string(c.JSON()), `"model_transaction_policy":{"decoupled":false}`) {
		t.Errorf("got %s", c.JSON())
	}
	d := c.WithDecoupled(true)
	if !d.Decoupled || c.Decoupled || !strings.Contains(string(d.JSON()), `"model_transaction_policy":{"decoupled":true}`) {
		t.Errorf("got %s", d.JSON())
	}
	if len(d.Ensemble.Steps) != 1 || d.Ensemble.Steps[0].Version != -1 || d.Ensemble.Steps[0].InputMap["IN"] != "IN" {
		t.Errorf("got %+v", d.Ensemble)
	}
}

func TestDraftKeepsItsOwn(t *testing.T) {
	d, err := Parse([]byte(`name: "m" backend: "python"`), "")
	if err != nil {
		t.Fatal(err)
	}
	d.Normalize()
	c, err := d.Finish()
	if err != nil {
		t.Fatal(err)
	}
	other := d.Clone()
	d.pb.Name = "changed"
	d.pb.VersionPolicy.GetLatest().NumVersions = 9
	if c.Proto().Name != "m" || c.Proto().VersionPolicy.GetLatest().NumVersions != 1 || other.Name() != "m" {
		t.Error("a change of the draft shows elsewhere")
	}
}

func TestFaultsAreErrors(t *testing.T) {
	_, err := finish(t, "m", `backend: "python" output { name: "o" data_type: TYPE_FP32 dims: 1 label_filename: "/x" }`)
	var e *backend.Error
	if !errors.As(err, &e) || e.Code != backend.Unsupported || !strings.HasPrefix(e.Message, "label file path '/x' for output 'o' in model 'm'") {
		t.Errorf("got %v", err)
	}
	if be := backend.AsError(NotProvided("x")); be.Code != backend.NotFound || be.Message != "model configuration is not provided for model 'x'" {
		t.Errorf("got %v", be)
	}
	many := strings.Repeat("x: 1\n", 10*maxFaults)
	var faults Faults
	if _, err := Parse([]byte(many), "f"); !errors.As(err, &faults) || len(faults) != maxFaults {
		t.Errorf("got %d faults", len(faults))
	}
}

func TestVersions(t *testing.T) {
	for name, want := range map[string]int64{
		"1": 1, "0": -1, "12": 12, "01": -1, "": -1, "a": -1, "1a": 1, "3-fixed": 3, "-1": -1, "+1": -1, "warmup": -1,
		"9223372036854775807": math.MaxInt64, "9223372036854775808": -1,
	} {
		got, ok := ParseVersion(name)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("ParseVersion(%q) = %d, %v", name, got, ok)
		}
	}
	available := []int64{10, 1, 3}
	for _, test := range []struct {
		policy         VersionPolicy
		serve, missing []int64
	}{
		{VersionPolicy{Latest: 1}, []int64{10}, nil},
		{VersionPolicy{Latest: 2}, []int64{3, 10}, nil},
		{VersionPolicy{Latest: 9}, []int64{1, 3, 10}, nil},
		{VersionPolicy{All: true}, []int64{1, 3, 10}, nil},
		{VersionPolicy{Specific: []int64{3, 2, 1, 3}}, []int64{1, 3}, []int64{2}},
	} {
		serve, missing := test.policy.Select(available)
		if !slices.Equal(serve, test.serve) || !slices.Equal(missing, test.missing) {
			t.Errorf("%+v: got %v, %v", test.policy, serve, missing)
		}
	}
}
