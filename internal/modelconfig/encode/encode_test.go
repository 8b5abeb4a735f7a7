package encode

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	pb "github.com/nesoserve/neso/internal/inferencepb"
)

// config returns a configuration with one field of each kind whose form is not
// that of the library.
func config(t *testing.T) *pb.ModelConfig {
	t.Helper()
	c := &pb.ModelConfig{}
	const text = `
		name: "m" max_batch_size: 8
		input { name: "IN" data_type: TYPE_FP32 dims: [ -1, 4 ] }
		output { name: "no" data_type: TYPE_STRING dims: 1 }
		instance_group { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] secondary_devices { kind: KIND_NVDLA device_id: 7 } }
		dynamic_batching { }
		optimization { cuda { graph_spec { input { key: "IN" value { dim: [ 16 ] } } } } }
		parameters { key: "b" value { string_value: "\"q\"\\\n\t\001\177é" } }
		parameters { key: "a" value { string_value: "yes" } }
		model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } } }`
	if err := prototext.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestText(t *testing.T) {
	want := `  name: "m"
  max_batch_size: 8
  input {
    name: "IN"
    data_type: TYPE_FP32
    dims: [ -1, 4 ]
  }
  output {
    name: "no"
    data_type: TYPE_STRING
    dims: [ 1 ]
  }
  optimization {
    cuda {
      graph_spec {
        input {
          key: "IN"
          value {
            dim: [ 16 ]
          }
        }
      }
    }
  }
  dynamic_batching { }
  instance_group {
    kind: KIND_GPU
    count: 2
    gpus: [ 0, 1 ]
    secondary_devices {
      device_id: 7
    }
  }
  parameters {
    key: "a"
    value {
      string_value: "yes"
    }
  }
  parameters {
    key: "b"
    value {
      string_value: "\"q\"\\\n\t\001\177é"
    }
  }
  model_warmup {
    name: "w"
    batch_size: 1
    inputs {
      key: "IN"
      value {
        data_type: TYPE_FP32
        dims: [ 4 ]
        zero_data: true
      }
    }
  }
`
	if d := cmp.Diff(string(AppendText(nil, config(t).ProtoReflect(), "  ")), want); d != "" {
		t.Errorf("got -, want +\n%s", d)
	}
}

// TestJSON looks at what the config endpoint of the peer does and protobuf's JSON
// does not: 64-bit integers are numbers but for a few fields, names are those of the
// .proto file, numbers and lists are there also when they are not set, messages are
// not.
func TestJSON(t *testing.T) {
	b := AppendJSON(nil, config(t).ProtoReflect())
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for field, want := range map[string]string{
		"max_batch_size": `8`,
		"platform":       `""`,
		"batch_input":    `[]`,
		"metric_tags":    `{}`,
		"dynamic_batching": `{"preferred_batch_size":[],"max_queue_delay_microseconds":0,"preserve_ordering":false,"priority_levels":0,` +
			`"default_priority_level":0,"priority_queue_policy":{}}`,
		"parameters": `{"a":{"string_value":"yes"},"b":{"string_value":"\"q\"\\\n\t\u0001` + "\x7f" + `é"}}`,
	} {
		if got := string(all[field]); got != want {
			t.Errorf("%s: got %s, want %s", field, got, want)
		}
	}
	for _, unset := range []string{"sequence_batching", "ensemble_scheduling", "response_cache"} {
		if v, is := all[unset]; is {
			t.Errorf("%s is there: %s", unset, v)
		}
	}
	var c struct {
		Input []struct {
			Dims []json.RawMessage `json:"dims"`
		} `json:"input"`
		Groups []struct {
			Secondary []map[string]json.RawMessage `json:"secondary_devices"`
		} `json:"instance_group"`
		Optimization struct {
			CUDA struct {
				Spec []struct {
					Input map[string]struct {
						Dim []json.RawMessage `json:"dim"`
					} `json:"input"`
				} `json:"graph_spec"`
			} `json:"cuda"`
		} `json:"optimization"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	got := []string{
		string(c.Input[0].Dims[0]), string(c.Groups[0].Secondary[0]["device_id"]), string(c.Optimization.CUDA.Spec[0].Input["IN"].Dim[0]),
	}
	if d := cmp.Diff(got, []string{`-1`, `"7"`, `"16"`}); d != "" {
		t.Errorf("integers: got -, want +\n%s", d)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		f          float64
		bits       int
		json, text string
	}{
		{0, 64, "0", "0"},
		{math.Copysign(0, -1), 64, "-0", "-0"},
		{1.5, 64, "1.5", "1.5"},
		{float64(float32(0.1)), 32, "0.1", "0.1"},
		{1e20, 64, "100000000000000000000", "1e+20"},
		{1e21, 64, "1e+21", "1e+21"},
		{1e-6, 64, "0.000001", "1e-06"},
		{1e-7, 64, "1e-7", "1e-07"},
		{1e-10, 64, "1e-10", "1e-10"},
		{math.NaN(), 64, `"NaN"`, "nan"},
		{math.Inf(1), 32, `"Infinity"`, "inf"},
		{math.Inf(-1), 64, `"-Infinity"`, "-inf"},
	} {
		if got := string(appendJSONFloat(nil, c.f, c.bits)); got != c.json {
			t.Errorf("%v as JSON: got %s, want %s", c.f, got, c.json)
		}
		if got := string(appendTextFloat(nil, c.f, c.bits)); got != c.text {
			t.Errorf("%v as text: got %s, want %s", c.f, got, c.text)
		}
	}
}

func TestYAML(t *testing.T) {
	got, err := YAML([]byte(`{"name":"no","dims":[-1,4],"empty":{},"none":[],"groups":[{"kind":"KIND_CPU","count":"2"}]}`))
	want := `name: "no"
dims: [-1, 4]
empty: {}
none: []
groups:
  - kind: KIND_CPU
    count: "2"
`
	if err != nil || string(got) != want {
		t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
	}
	if _, err := YAML([]byte("{")); err == nil {
		t.Error("half a document is taken")
	}
}

// TestReadBack fills configurations by chance: the library reads each form as the
// message that it was.
func TestReadBack(t *testing.T) {
	const messages = 100
	for seed := range uint64(messages) {
		r := rand.New(rand.NewPCG(seed, 0))
		was := &pb.ModelConfig{}
		fill(r, was.ProtoReflect(), 0)
		text := AppendText(nil, was.ProtoReflect(), "")
		read := &pb.ModelConfig{}
		if err := prototext.Unmarshal(text, read); err != nil {
			t.Fatalf("seed %d: text: %v\n%s", seed, err, text)
		}
		if d := cmp.Diff(read, was, protocmp.Transform()); d != "" {
			t.Fatalf("seed %d: text: got -, want +\n%s", seed, d)
		}
		doc := AppendJSON(nil, was.ProtoReflect())
		read = &pb.ModelConfig{}
		if err := protojson.Unmarshal(doc, read); err != nil {
			t.Fatalf("seed %d: JSON: %v\n%s", seed, err, doc)
		}
		if d := cmp.Diff(read, was, protocmp.Transform()); d != "" {
			t.Fatalf("seed %d: JSON: got -, want +\n%s", seed, d)
		}
		printed, err := YAML(doc)
		if err != nil {
			t.Fatalf("seed %d: YAML: %v\n%s", seed, err, doc)
		}
		var tree any
		if err := yaml.Unmarshal(printed, &tree); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := json.Marshal(tree)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		read = &pb.ModelConfig{}
		if err := protojson.Unmarshal(again, read); err != nil {
			t.Fatalf("seed %d: YAML: %v\n%s", seed, err, printed)
		}
		if d := cmp.Diff(read, was, protocmp.Transform()); d != "" {
			t.Fatalf("seed %d: YAML: got -, want +\n%s", seed, d)
		}
	}
}

// fill sets fields of a message by chance.
func fill(r *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if r.IntN(3) > 0 || depth > 5 {
			continue
		}
		switch {
		case fd.IsMap():
			for range r.IntN(4) {
				v := m.NewField(fd).Map().NewValue()
				if fd.MapValue().Message() != nil {
					fill(r, v.Message(), depth+1)
				} else {
					v = scalar(r, fd.MapValue())
				}
				m.Mutable(fd).Map().Set(scalar(r, fd.MapKey()).MapKey(), v)
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range r.IntN(4) {
				if fd.Message() != nil {
					fill(r, list.AppendMutable().Message(), depth+1)
				} else {
					list.Append(scalar(r, fd))
				}
			}
		case fd.Message() != nil:
			fill(r, m.Mutable(fd).Message(), depth+1)
		default:
			m.Set(fd, scalar(r, fd))
		}
	}
}

// scalar returns one of the values that are hard for the field's kind.
func scalar(r *rand.Rand, fd protoreflect.FieldDescriptor) protoreflect.Value {
	number := []int64{0, 1, -1, math.MaxInt32, math.MinInt32, 1 << 31, 1 << 53, math.MaxInt64, math.MinInt64}[r.IntN(9)]
	float := []float64{0, 1, -0.1, 1e-6, 1e-7, 1e20, 1e21, 1e38, 3.1415926535897932, math.Inf(1), math.Inf(-1)}[r.IntN(11)]
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) > 0)
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(r.IntN(values.Len())).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(number)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(float))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float)
	default:
		return protoreflect.ValueOfString([]string{
			"", "plain", "no", "y", "~", "null", "1", "0x10", "2001-01-01", "- a", "a: b", "# c",
			"\"'\\", "\x00\x01\x1f\x7f\n\r\t\b\f", "é世界\u2028",
			"\u0080\u0085\u009f\ufeff\ufffe\uffff\U0001F600",
			"{}", "[ ]", " leading and trailing ", "1e3", ".inf", "<<",
		}[r.IntN(22)])
	}
}
