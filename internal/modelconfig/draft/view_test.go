package draft

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
	"github.com/nesoserve/neso/internal/modelconfig"
	"github.com/nesoserve/neso/internal/modelconfig/fault"
	"github.com/nesoserve/neso/tensor"
)

func load(t *testing.T, text string) *modelconfig.Config {
	t.Helper()
	c, err := finish(t, "m", text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readExample(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../testdata/triton/" + name + ".pbtxt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFinishDynamic(t *testing.T) {
	got := load(t, readExample(t, "dynamic_full")).Dynamic
	want := &modelconfig.DynamicBatching{
		PreferredBatchSizes: []int{4, 8}, MaxQueueDelay: math.MaxInt64 / 1000 * 1000, PriorityLevels: 4, DefaultPriorityLevel: 2,
		DefaultPolicy: modelconfig.QueuePolicy{
			Action: modelconfig.Delay, DefaultTimeout: time.Second, AllowTimeoutOverride: true,
			MaxQueueSize: 100,
		},
		Policies: map[uint64]modelconfig.QueuePolicy{3: {DefaultTimeout: 5 * time.Microsecond}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFinishSequence(t *testing.T) {
	got := load(t, readExample(t, "sequence_direct")).Sequence
	want := &modelconfig.SequenceBatching{
		MaxIdle: time.Second,
		Direct:  &modelconfig.DirectStrategy{MaxQueueDelay: 7 * time.Microsecond, MinimumSlotUtilization: 0.7},
		Controls: []modelconfig.SequenceControl{
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
	if oldest.Direct != nil || oldest.Oldest == nil || oldest.Oldest.MaxCandidateSequences != 9 ||
		!slices.Equal(oldest.Oldest.PreferredBatchSizes, []int{4}) {
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
		Name: "m", Version: 3, Directory: "/r/m", VersionDirectory: "/r/m/3", Backend: "python", Filename: "model.py", JSON: c.JSON(),
		MaxBatchSize: 2,
		Inputs:       []backend.IO{{Name: "A", Datatype: tensor.FP32, Dims: tensor.Shape{24}, Optional: true, Ragged: true}},
		Outputs:      []backend.IO{{Name: "B", Datatype: tensor.Bytes}},
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
	g := modelconfig.InstanceGroup{Name: "g", Kind: "KIND_GPU", Count: 1, GPUs: []int{0, 2}}
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
	if !errors.As(err, &e) || e.Code != backend.Unsupported ||
		!strings.HasPrefix(e.Message, "label file path '/x' for output 'o' in model 'm'") {
		t.Errorf("got %v", err)
	}
	many := strings.Repeat("x: 1\n", 10*fault.Max)
	var faults fault.List
	if _, err := Parse([]byte(many), "f"); !errors.As(err, &faults) || len(faults) != fault.Max {
		t.Errorf("got %d faults", len(faults))
	}
}
