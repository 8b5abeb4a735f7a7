package openvino

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// words are OpenVINO's names of the datatypes.
var words = map[tensor.Datatype]string{
	tensor.Bool: "boolean", tensor.FP16: "f16", tensor.BF16: "bf16", tensor.FP32: "f32", tensor.FP64: "f64",
	tensor.Int8: "i8", tensor.Int16: "i16", tensor.Int32: "i32", tensor.Int64: "i64",
	tensor.Uint8: "u8", tensor.Uint16: "u16", tensor.Uint32: "u32", tensor.Uint64: "u64",
}

// ir writes a model of one input IN and one output OUT of the same shape: layers
// of the type after each other, each with what comes before it as both inputs.
type ir struct {
	element, shape string
	layer          string // "Reshape": the same as it came; "MatMul": its square
	layers         int
}

func (m ir) String() string {
	var dims strings.Builder
	rank := 0
	for d := range strings.SplitSeq(m.shape, ",") {
		fmt.Fprintf(&dims, "<dim>%s</dim>", strings.ReplaceAll(d, "?", "-1"))
		rank++
	}
	precision := map[string]string{"boolean": "BOOL"}[m.element]
	if precision == "" {
		precision = strings.ToUpper(strings.Replace(m.element, "f", "FP", 1))
	}
	if m.element == "bf16" {
		precision = "BF16"
	}
	port := func(id int, names string) string {
		return fmt.Sprintf(`<port id="%d" precision="%s"%s>%s</port>`, id, precision, names, dims.String())
	}
	var layers, edges strings.Builder
	edge := func(from, fromPort, to, toPort int) {
		fmt.Fprintf(&edges, `<edge from-layer="%d" from-port="%d" to-layer="%d" to-port="%d" />`, from, fromPort, to, toPort)
	}
	fmt.Fprintf(&layers,
		`<layer id="0" name="IN" type="Parameter" version="opset1"><data shape="%s" element_type="%s" /><output>%s</output></layer>`,
		m.shape, m.element, port(0, ` names="IN"`))
	last, lastPort := 0, 0
	if m.layer == "Reshape" {
		shape := fmt.Sprintf(`precision="I64"><dim>%d</dim></port>`, rank)
		fmt.Fprintf(&layers,
			`<layer id="1" name="S" type="ShapeOf" version="opset3"><data output_type="i64" /><input>%s</input><output><port id="1" `+
				`%s</output></layer>`, port(0, ""), shape)
		fmt.Fprintf(&layers,
			`<layer id="2" name="OUT" type="Reshape" version="opset1"><data special_zero="false" /><input>%s<port id="1" `+
				`%s</input><output>%s</output></layer>`,
			port(0, ""), shape, port(2, ` names="OUT"`))
		edge(0, 0, 1, 0)
		edge(0, 0, 2, 0)
		edge(1, 1, 2, 1)
		last, lastPort = 2, 2
	}
	for i := range m.layers {
		names := ""
		if i == m.layers-1 {
			names = ` names="OUT"`
		}
		fmt.Fprintf(&layers,
			`<layer id="%d" name="M%d" type="MatMul" version="opset1"><data transpose_a="false" transpose_b="false" `+
				`/><input>%s%s</input><output>%s</output></layer>`,
			last+1, i, port(0, ""), port(1, ""), port(2, names))
		edge(last, lastPort, last+1, 0)
		edge(last, lastPort, last+1, 1)
		last, lastPort = last+1, 2
	}
	fmt.Fprintf(&layers, `<layer id="%d" name="R" type="Result" version="opset1" output_names="OUT"><input>%s</input></layer>`, last+1,
		port(0, ""))
	edge(last, lastPort, last+1, 0)
	return `<?xml version="1.0"?><net name="m" version="11"><layers>` + layers.String() + `</layers><edges>` + edges.String() +
		`</edges></net>`
}

func configFor(t testing.TB, content string, d tensor.Datatype, batch int, dims ...int64) backend.Config {
	t.Helper()
	cfg := librarytest.Config(t, defaultFilename, []byte(content))
	if err := os.WriteFile(filepath.Join(cfg.VersionDirectory, "model.bin"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.MaxBatchSize = batch
	cfg.Inputs, cfg.Outputs = []backend.IO{{Name: "IN", Datatype: d, Dims: dims}}, []backend.IO{{Name: "OUT", Datatype: d, Dims: dims}}
	return cfg
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: New(Options{Interpreter: librarytest.Named}),
		Identity: func(t *testing.T, d tensor.Datatype, batch int) backend.Config {
			if words[d] == "" {
				t.Skipf("the backend has no tensors of %s", d)
			}
			if d == tensor.Int64 || d == tensor.Uint64 || d == tensor.FP64 {
				t.Skipf("OpenVINO computes %s in 32 bits on the CPU: the suite wants all bits back", d)
			}
			shape := "?"
			if batch > 0 {
				shape = "?,?"
			}
			return configFor(t, ir{element: words[d], shape: shape, layer: "Reshape"}.String(), d, batch, -1)
		},
		Slow: func(t *testing.T) (backend.Config, []tensor.Tensor) {
			const n = 1500
			cfg := configFor(t, ir{element: "f32", shape: "1500,1500", layer: "MatMul", layers: 1000}.String(), tensor.FP32, 0, n, n)
			return cfg, []tensor.Tensor{{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{n, n}, Data: make([]byte, 4*n*n)}}
		},
		Broken: func(t *testing.T) backend.Config { return configFor(t, "<net", tensor.FP32, 0, -1) },
	})
}

// TestThreads: the instances of a version have the cores together, each a stream.
func TestThreads(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		instances  int
		parameters map[string]string
		want       string
	}{
		{1, nil, fmt.Sprintf("ENABLE_CPU_PINNING=NO INFERENCE_NUM_THREADS=%d NUM_STREAMS=1", cores)},
		{3 * cores, nil, fmt.Sprintf("ENABLE_CPU_PINNING=NO INFERENCE_NUM_THREADS=%d NUM_STREAMS=%d", cores, cores)},
		{2, map[string]string{"INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}, "ENABLE_CPU_PINNING=NO INFERENCE_NUM_THREADS=1 NUM_STREAMS=1"},
		{2, map[string]string{"PERFORMANCE_HINT": "LATENCY"}, fmt.Sprintf(
			"ENABLE_CPU_PINNING=NO INFERENCE_NUM_THREADS=%d PERFORMANCE_HINT=LATENCY", cores)},
		{1, map[string]string{"TARGET_DEVICE": "GPU"}, ""},
	} {
		cfg := backend.Config{Name: "m", Parameters: c.parameters}
		for range c.instances {
			cfg.Instances = append(cfg.Instances, backend.InstanceConfig{Kind: "KIND_CPU"})
		}
		o, err := readOptions(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range o.properties {
			got = append(got, p[0]+"="+p[1])
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%d instances, %v: got %s, want %s", c.instances, c.parameters, text, c.want)
		}
	}
}

func TestDatatypesThatTheProtocolLacks(t *testing.T) {
	b := librarytest.Open(t, New(Options{Interpreter: librarytest.Named}), nil, io.Discard)
	for element, want := range map[string]string{
		"string": "unsupported datatype of 'IN' for model 'model': OpenVINO's C library gives no access to strings (put a tokenizer",
		"u4":     "OpenVINO's element type u4, which the protocol does not have",
	} {
		cfg := configFor(t, ir{element: element, shape: "?,?", layer: "Reshape"}.String(), tensor.Bytes, 4, -1)
		cfg.JSON = []byte("{}")
		if _, err := b.Complete(t.Context(), cfg); err == nil || backend.AsError(err).Code != backend.Unsupported ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("completing a model of %s: %v", element, err)
		}
		if _, err := b.Load(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("loading a model of %s: %v", element, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name, value, want string
	}{
		{"NUM_STREAMS", "auto", "NUM_STREAMS=AUTO"},
		{"NUM_STREAMS", "3", "NUM_STREAMS=3"},
		{"NUM_STREAMS", "few", "expected the parameter 'NUM_STREAMS' to be either AUTO/NUMA/<int_value>, got few"},
		{"INFERENCE_NUM_THREADS", "-1", "expected the parameter 'INFERENCE_NUM_THREADS' to be a non-negative number, got -1"},
		{"INFERENCE_NUM_THREADS", "5", "INFERENCE_NUM_THREADS=5"},
		{"PERFORMANCE_HINT", "Latency", "PERFORMANCE_HINT=LATENCY"},
		{"HINT_BF16", "NO", "expected the parameter 'HINT_BF16' to be YES, got no"},
		{"HINT_BF16", "yes", "INFERENCE_PRECISION_HINT=bf16"},
		{"KV_CACHE_PRECISION", "u8", "KV_CACHE_PRECISION=u8"},
	} {
		cfg := backend.Config{Name: "m", Parameters: map[string]string{c.name: c.value}}
		o, err := readOptions(&cfg)
		got := fmt.Sprint(err)
		if err == nil {
			var all []string
			for _, p := range o.properties {
				all = append(all, p[0]+"="+p[1])
			}
			got = strings.Join(all, " ")
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s=%s: got %q, want %q in it", c.name, c.value, got, c.want)
		}
	}
}
