package knobs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const onnx = `{"name":"m","backend":"onnxruntime","max_batch_size":8,"instance_group":[{"count":2,"kind":"KIND_CPU"}],
"dynamic_batching":{"preferred_batch_size":[4],"max_queue_delay_microseconds":"500"},"parameters":{"x":{"string_value":"1"}}}`

// written has the knobs in one line each, the value as it is in brackets.
func written(t *testing.T, s *Space, config string) string {
	t.Helper()
	c, err := Read([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Of(c)
	if err != nil {
		return "error: " + err.Error()
	}
	var b strings.Builder
	for _, k := range all {
		b.WriteString(k.Name + ":")
		for i, v := range k.Values {
			if i == k.Start {
				v.Label = "[" + v.Label + "]"
			}
			b.WriteString(" " + v.Label)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestKnobs(t *testing.T) {
	isolatable, three := []string{"onnxruntime"}, json.RawMessage(`[{"count":3}]`)
	for _, c := range []struct {
		name, config string
		space        Space
		want         string
	}{
		{
			"all", onnx,
			Space{Cores: 4, Isolatable: isolatable},
			"instances: 1 [2] 4\nmax_batch_size: 2 4 [8] 16 32 64\nqueue_delay: off 0 100 [500] 1000\npreferred_batch_size: none [4]\n" +
				"threads: [default] 1 2 4\nisolation: [none] process\n",
		},
		{"some", onnx, Space{Cores: 2, Knobs: []string{Instances, Isolation}}, "instances: 1 [2]\n"},
		{
			"given values", onnx,
			Space{Small: true, Values: map[string][]string{Batch: {"1", "64"}, Delay: {"off", "7"}, Preferred: {"2+4"}, Threads: {"3"}}},
			"max_batch_size: 1 [8] 64\nqueue_delay: off 7 [500]\npreferred_batch_size: [4] 2+4\nthreads: [default] 3\n",
		},
		{
			"without a batcher", `{"name":"m","backend":"python","max_batch_size":4,"instance_group":[{"count":1}]}`,
			Space{Cores: 1},
			"instances: [1] 2\nmax_batch_size: 1 2 [4] 8 16 32 64\nqueue_delay: [off] 0 100 1000\npreferred_batch_size: [none] 2\n",
		},
		{"without batches", `{"name":"m","backend":"python","max_batch_size":0}`, Space{Cores: 2}, "instances: [1] 2\n"},
		{
			"of sequences", `{"name":"m","backend":"x","max_batch_size":64,"sequence_batching":{}}`,
			Space{Cores: 1, Knobs: []string{Delay, Batch}},
			"max_batch_size: 16 32 [64]\n",
		},
		{
			"an ensemble", `{"name":"m","platform":"ensemble","max_batch_size":4,"ensemble_scheduling":{"step":[{"model_name":"a"}]}}`,
			Space{Cores: 4},
			"",
		},
		{
			"a field in place of a knob", onnx,
			Space{Cores: 2, Knobs: []string{Instances, Batch}, Fields: []Field{{"instance_group", []json.RawMessage{three}}}},
			"max_batch_size: 2 4 [8] 16 32 64\ninstance_group: [as it is] [{\"count\":3}]\n",
		},
		{
			"no number", onnx,
			Space{Values: map[string][]string{Instances: {"0"}}},
			`error: the knob instances of the model m: expected a number from 1 to 1048576, found "0"`,
		},
		{
			"no such place", onnx,
			Space{Isolatable: isolatable, Values: map[string][]string{Isolation: {"jail"}}},
			`error: the knob isolation of the model m: expected none or process, found "jail"`,
		},
		{
			"no such knob", `{"name":"m","backend":"identity"}`,
			Space{Values: map[string][]string{Threads: {"1"}}},
			`error: the knob threads of the model m: the backend "identity" has no parameter for it`,
		},
	} {
		if got := written(t, &c.space, c.config); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestVariant(t *testing.T) {
	c, err := Read([]byte(onnx))
	if err != nil {
		t.Fatal(err)
	}
	all, err := (&Space{Cores: 2, Knobs: []string{Instances, Delay, Preferred}}).Of(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		point []int
		want  string
	}{
		{[]int{1, 3, 1}, "map[] map[instances:2 preferred_batch_size:4 queue_delay:500]"},
		{[]int{0, 4, 1}, "map[m:[instance_group.count=1 dynamic_batching.max_queue_delay_microseconds=1000]] " +
			"map[instances:1 preferred_batch_size:4 queue_delay:1000]"},
		{[]int{1, 0, 0}, "map[m:[dynamic_batching=null]] map[instances:2 preferred_batch_size:none queue_delay:off]"},
	} {
		changes, labels := Variant(all, v.point)
		if got := fmt.Sprint(changes, labels); got != v.want {
			t.Errorf("%v: got %s", v.point, got)
		}
	}
}
