package edit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/nesoserve/neso/internal/inferencepb"
	"github.com/nesoserve/neso/internal/modelconfig/read"
)

const written = `# ours
backend: "onnx" "runtime"  # the library
max_batch_size: 8; # as trained
input [ { name: "}]" data_type: TYPE_FP32 dims: [ 4 ] } ]

instance_group [
  { count: 2 # two
    kind: KIND_CPU }
]
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 100 default_priority_level: 1 priority_levels: 2 }
parameters { key: "a" value { string_value: "x # y" } }
parameters { key: "b" value { string_value: "1" } }
`

func change(field, value string) Change { return Change{field, json.RawMessage(value)} }

func parameter(key, value string) string {
	return fmt.Sprintf("parameters {\n  key: %q\n  value {\n    string_value: %q\n  }\n}\n", key, value)
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		name, text string
		changes    []Change
		replace    []string // of the text: what, with what
	}{
		{"nothing", written, nil, nil},
		{"a number", written, []Change{change("max_batch_size", "16")}, []string{"max_batch_size: 8;", "max_batch_size: 16"}},
		{
			"the count of a group that says more", written,
			[]Change{change(InstanceCount, "3")},
			[]string{"instance_group [\n  { count: 2 # two\n    kind: KIND_CPU }\n]", "instance_group {\n  kind: KIND_CPU\n  count: 3\n}"},
		},
		{
			"within a message", written,
			[]Change{
				change("dynamic_batching.max_queue_delay_microseconds", "5"), change("dynamic_batching.preferred_batch_size", "null"),
			},
			[]string{
				written[strings.Index(written, "dynamic_batching"):strings.Index(written, "\nparameters")],
				"dynamic_batching {\n  max_queue_delay_microseconds: 5\n  priority_levels: 2\n  default_priority_level: 1\n}",
			},
		},
		{"a field goes with its line", written, []Change{change("dynamic_batching", "null")}, []string{
			written[strings.Index(written, "dynamic_batching"):strings.Index(written, "parameters")], "",
		}},
		{"a parameter more", written, []Change{change("parameters.c", `"2"`)}, []string{
			written[strings.Index(written, "parameters"):], parameter("a", "x # y") + parameter("b", "1") + parameter("c", "2"),
		}},
		{"an empty file", "", []Change{change("dynamic_batching", "{}"), change(InstanceCount, "2")}, []string{
			"", "dynamic_batching { }\ninstance_group {\n  count: 2\n}\n",
		}},
		{"no line at the end", "max_batch_size: 1", []Change{change("parameters.k", `"v"`)}, []string{
			"max_batch_size: 1", "max_batch_size: 1\n" + parameter("k", "v"),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.text
			if len(c.replace) > 0 {
				want = strings.Replace(want, c.replace[0], c.replace[1], 1)
			}
			got, err := Text([]byte(c.text), "config.pbtxt", c.changes)
			if err != nil || string(got) != want {
				t.Errorf("got %v\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, field, value, want string }{
		{"max_batch_size: x", "max_batch_size", "1", "max_batch_size"},
		{"", "max_batch", "1", "max_batch"},
		{"", "max_batch_size", `"many"`, "max_batch_size"},
		{"", InstanceCount, "0", "from 1 on"},
		{"", "parameters.k", "1", "quotation marks"},
		{"", "nothing", "null", `no field "nothing"`},
		{"", "max_batch_size.x", "null", "no fields of its own"},
		{"", "max_batch_size.x", "1", "max_batch_size"},
	} {
		got, err := Text([]byte(c.text), "config.pbtxt", []Change{change(c.field, c.value)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: got %q, %v, want %q", c.field, c.value, got, err, c.want)
		}
	}
}

// FuzzText: whatever stands in a file that can be read, the change is made and all
// else stays as it was.
func FuzzText(f *testing.F) {
	f.Add(written)
	f.Add("parameters: { key: 'a' value: { string_value: '\\'' } }, max_batch_size: 0x10")
	f.Add("instance_group: [ < count: 1 >, { } ] ; max_batch_size : -0")
	f.Fuzz(func(t *testing.T, text string) {
		want := &inferencepb.ModelConfig{}
		if _, faults := read.Text([]byte(text), "f", want.ProtoReflect()); len(faults) > 0 {
			t.Skip("not a configuration")
		}
		got, err := Text([]byte(text), "f", []Change{change("max_batch_size", "7"), change(InstanceCount, "3")})
		if err != nil {
			t.Fatal(err)
		}
		want.MaxBatchSize = 7
		if len(want.InstanceGroup) == 0 {
			want.InstanceGroup = []*inferencepb.ModelInstanceGroup{{}}
		}
		for _, g := range want.InstanceGroup {
			g.Count = 3
		}
		have := &inferencepb.ModelConfig{}
		if _, faults := read.Text(got, "f", have.ProtoReflect()); len(faults) > 0 || !proto.Equal(have, want) {
			t.Errorf("%q became %q: %v", text, got, faults)
		}
	})
}
