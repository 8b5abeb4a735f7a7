package target

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/internal/perf/data"
	"github.com/nesoserve/neso/tensor"
)

// texts is a server whose answers are these, by what is asked and of which model.
type texts map[string]string

func (x texts) get(key string) ([]byte, error) {
	if s, ok := x[key]; ok {
		return []byte(s), nil
	}
	return nil, errors.New("unknown: " + key)
}

func (x texts) Server(context.Context) ([]byte, error) { return x.get("server") }

func (x texts) Metadata(_ context.Context, m, v string) ([]byte, error) {
	return x.get(strings.TrimSuffix("metadata "+m+":"+v, ":"))
}

func (x texts) Config(_ context.Context, m, v string) ([]byte, error) {
	return x.get(strings.TrimSuffix("config "+m+":"+v, ":"))
}

func (x texts) Statistics(_ context.Context, m, v string) ([]byte, error) {
	return x.get(strings.TrimSuffix("statistics "+m+":"+v, ":"))
}

func (x texts) Register(context.Context, string, string, int64) error { return errors.ErrUnsupported }

func (x texts) Unregister(context.Context, string) error { return errors.ErrUnsupported }

func (x texts) Trace(context.Context, string, map[string][]string) error {
	return errors.ErrUnsupported
}
func (x texts) Close() error { return nil }

// TestDescribe reads numbers as either protocol writes them, and all models of an ensemble.
func TestDescribe(t *testing.T) {
	api := texts{
		"server": `{"extensions":["statistics","model_configuration","binary_tensor_data"]}`,
		"metadata e": `{"name":"e","inputs":[{"name":"I","datatype":"FP32","shape":["-1","3"]}],
			"outputs":[{"name":"O","datatype":"BYTES","shape":[-1,1]}]}`,
		"config e": `{"max_batch_size":"8","input":[{"name":"I","optional":true}],"ensemble_scheduling":{"step":[{"model_name":"a"},
			{"model_name":"e2"},
			{"model_name":"a"}]}}`,
		"config a":  `{"max_batch_size":8,"response_cache":{"enable":true}}`,
		"config e2": `{"ensemble_scheduling":{"step":[{"model_name":"b"},{"model_name":"e"}]}}`,
		"config b":  `{"sequence_batching":{}}`,
	}
	got, err := Describe(t.Context(), api, "e", "")
	if err != nil {
		t.Fatal(err)
	}
	want := &Model{
		Name: "e", Inputs: []data.Input{{Name: "I", Datatype: tensor.FP32, Shape: tensor.Shape{3}, Optional: true}},
		Outputs: []data.Input{{Name: "O", Datatype: tensor.Bytes, Shape: tensor.Shape{1}}}, MaxBatch: 8, Sequence: true, Cache: true,
		Ensemble: true, Composing: []string{"a", "e2", "b", "e"}, Nested: []string{"e2", "e"}, Statistics: true, Binary: true,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func TestDescribeMistakes(t *testing.T) {
	const configured = `{"extensions":["model_configuration"]}`
	good := `{"name":"m","inputs":[{"name":"I","datatype":"FP32","shape":[1]}],"outputs":[]}`
	for name, c := range map[string]struct {
		api  texts
		want string
	}{
		"no model":       {texts{}, "failed to get model metadata: unknown: metadata m:2"},
		"no config":      {texts{"metadata m:2": good, "server": configured}, "failed to get model config: unknown"},
		"no JSON":        {texts{"metadata m:2": "<html>"}, "failed to get model metadata: invalid character"},
		"a list":         {texts{"metadata m:2": good, "config m:2": "[]", "server": configured}, "failed to get model config: json"},
		"shape of texts": {texts{"metadata m:2": strings.Replace(good, "[1]", `["x"]`, 1), "config m:2": "{}"}, "failed to get model metadata: "},
		"datatype": {
			texts{"metadata m:2": strings.Replace(good, "FP32", "FP8", 1), "config m:2": "{}"},
			"the tensor 'I' has the datatype 'FP8', which is not known here",
		},
	} {
		if _, err := Describe(t.Context(), c.api, "m", "2"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestPlainServer: the protocol without extensions has no configuration.
func TestPlainServer(t *testing.T) {
	api := texts{"metadata m": `{"name":"m","inputs":[{"name":"I","datatype":"FP32","shape":[-1,3]}],"outputs":[]}`}
	got, err := Describe(t.Context(), api, "m", "")
	want := &Model{Name: "m", Inputs: []data.Input{{Name: "I", Datatype: tensor.FP32, Shape: tensor.Shape{-1, 3}}}}
	if diff := cmp.Diff(got, want); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestKnown(t *testing.T) {
	api := texts{"config a": "{}", "config b:2": "{}"}
	if err := Known(t.Context(), api, []string{"a", "b:2"}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"b", "a:7", "UNKNOWN"} {
		err := Known(t.Context(), api, []string{"a", name})
		if err == nil || !strings.HasPrefix(err.Error(), name+": failed to get model config: unknown") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStatistics(t *testing.T) {
	one := func(name, version, n string) string {
		return `{"name":"` + name + `","version":` + version + `,"inference_count":` + n + `,"execution_count":` + n +
			`,"inference_stats":{"success":{"count":` + n + `,"ns":"` + n + `"},"queue":{"count":` + n + `,"ns":5}}}`
	}
	api := texts{
		"statistics m:1": `{"model_stats":[` + one("m", `"1"`, "7") + `]}`,
		"statistics a":   `{"model_stats":[` + one("a", "1", "2") + "," + one("a", "2", "0") + `]}`,
	}
	before, err := Statistics(t.Context(), api, []string{"m:1", "a", "gone"})
	if err != nil || len(before) != 3 {
		t.Fatalf("%v, %+v", err, before)
	}
	api["statistics m:1"] = `{"model_stats":[` + one("m", `"1"`, "10") + `]}`
	api["statistics a"] = `{"model_stats":[` + one("a", "1", "1") + "," + one("a", "2", "0") + `]}` // loaded anew
	after, err := Statistics(t.Context(), api, []string{"m:1", "a"})
	if err != nil {
		t.Fatal(err)
	}
	got := Since(after, before)
	want := []Counters{
		{"m", "1", 3, 3, map[string]Duration{"success": {3, 3}, "queue": {3, 0}}},
		{"a", "1", 1, 1, map[string]Duration{"success": {1, 1}, "queue": {1, 5}}},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
	sum := Add(got, got[:1])
	if sum[0].Inferences != 6 || sum[0].Phases["success"] != (Duration{6, 6}) || got[0].Inferences != 3 || sum[1].Inferences != 1 {
		t.Errorf("%+v", sum)
	}
	if _, err := Statistics(t.Context(), api, []string{"gone"}); err == nil {
		t.Error("a model without statistics has them")
	}
	if mean := (Duration{}).MeanNS(); mean != 0 {
		t.Errorf("mean of nothing %d", mean)
	}
}
