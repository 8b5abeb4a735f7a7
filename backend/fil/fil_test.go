package fil

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/backendtest"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/internal/nesotest"
	"github.com/nesoserve/neso/tensor"
)

func TestMain(m *testing.M) { nesotest.Main(m) }

// configFor puts content into the version directory of a model.
func configFor(t testing.TB, name string, content []byte) backend.Config {
	t.Helper()
	cfg := librarytest.Config(t, name, content)
	cfg.MaxBatchSize = 1 << 20
	cfg.Inputs = []backend.IO{{Name: inputName, Datatype: tensor.FP32, Dims: tensor.Shape{8}}}
	cfg.Outputs = []backend.IO{{Name: outputName, Datatype: tensor.FP32, Dims: tensor.Shape{1}}}
	return cfg
}

func legacy(t testing.TB) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "xgboost.model"))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func open(t testing.TB, values map[string]string) backend.Backend {
	t.Helper()
	b := librarytest.Open(t, New(Options{Interpreter: librarytest.Named}), values, io.Discard)
	return b
}

func start(t testing.TB, b backend.Backend, cfg backend.Config) *instance {
	t.Helper()
	return librarytest.Start(t, b, cfg).(*instance)
}

// ask runs one request with rows of 8 and returns its numbers.
func ask(t testing.TB, in *instance, rows []float32) []float32 {
	t.Helper()
	var data bytes.Buffer
	if err := binary.Write(&data, binary.LittleEndian, rows); err != nil {
		t.Fatal(err)
	}
	n := int64(len(rows) / 8)
	s := &librarytest.Answers{}
	input := tensor.Tensor{Name: inputName, Datatype: tensor.FP32, Shape: tensor.Shape{n, 8}, Data: data.Bytes()}
	r := &backend.Request{BatchSize: int(n), Requested: []string{outputName}, Inputs: []tensor.Tensor{input}, Responder: s}
	if err := in.Execute(context.Background(), &backend.Batch{Requests: []*backend.Request{r}, Inputs: r.Inputs, Size: int(n)}); err != nil {
		t.Fatal(err)
	}
	defer s.Got[0].Release()
	got := make([]float32, n)
	if err := binary.Read(bytes.NewReader(s.Got[0].Outputs[0].Data), binary.LittleEndian, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// expected are rows, null for NaN, and what the XGBoost that wrote the model
// answers.
func expected(t testing.TB) (rows, answer []float32) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "xgboost.expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var e struct {
		Rows   [][]*float32
		Answer []float32
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	for _, row := range e.Rows {
		for _, v := range row {
			if v == nil {
				rows = append(rows, float32(math.NaN()))
				continue
			}
			rows = append(rows, *v)
		}
	}
	return rows, e.Answer
}

func TestLegacyModelAnswersAsItsFrameworkDid(t *testing.T) {
	rows, want := expected(t)
	b := open(t, nil)
	in := start(t, b, configFor(t, "xgboost.model", legacy(t)))
	for i, got := range ask(t, in, rows) {
		if math.Abs(float64(got-want[i])) > 1e-5 {
			t.Errorf("row %d: got %v, want %v", i, got, want[i])
		}
	}
	// Many rows are divided among goroutines; the answers are the same.
	const copies = 20_000
	many := make([]float32, 0, copies*len(rows))
	for range copies {
		many = append(many, rows...)
	}
	in.threads, in.scratch = 4, make([]scratch, 4)
	for i, got := range ask(t, in, many) {
		if want := want[i%len(want)]; math.Abs(float64(got-want)) > 1e-5 {
			t.Fatalf("row %d: got %v, want %v", i, got, want)
		}
	}
	if got := ask(t, in, nil); len(got) != 0 {
		t.Errorf("no rows gave %v", got)
	}
}

func TestSuite(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Driver: New(Options{Interpreter: librarytest.Named}),
		Slow: func(t *testing.T) (backend.Config, []tensor.Tensor) {
			cfg := configFor(t, "xgboost.model", legacy(t))
			cfg.MaxBatchSize = 1 << 30
			cfg.Parameters[paramThreads] = "1"
			cfg.Inputs[0].Datatype = tensor.FP32
			const n = 1 << 23 // 256 MiB, a second or two: the suite cancels much sooner
			return cfg, []tensor.Tensor{{Name: inputName, Datatype: tensor.FP32, Shape: tensor.Shape{n, 8}, Data: make([]byte, n*8*4)}}
		},
		Broken: func(t *testing.T) backend.Config { return configFor(t, "xgboost.json", []byte("{}")) },
	})
}

// TestThreads: the instances of a version have the cores together.
func TestThreads(t *testing.T) {
	b := open(t, nil)
	cores := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		instances int
		parameter string
		want      int
	}{{1, "", cores}, {cores, "", 1}, {3 * cores, "", 1}, {1, "3", 3}, {cores, "2", 2}, {1, "0", cores}, {1, "-1", cores}} {
		cfg := configFor(t, "xgboost.model", legacy(t))
		for len(cfg.Instances) < c.instances {
			cfg.Instances = append(cfg.Instances, cfg.Instances[0])
		}
		if c.parameter != "" {
			cfg.Parameters[paramThreads] = c.parameter
		}
		if got := start(t, b, cfg).threads; got != c.want {
			t.Errorf("%d instances, %s: %d threads, want %d", c.instances, c.parameter, got, c.want)
		}
	}
}

func TestFormatOf(t *testing.T) {
	for head, want := range map[string]format{
		"binf\x00": xgboostLegacy, "tree\nversion=v4": lightGBM, "tree\r\nversion": lightGBM, "{L\x00\x00": xgboostUBJSON,
		"{\"learner\":":    xgboostJSON,
		" {\n \"learner\"": xgboostJSON, "\x80\x04\x95": pickled, "PK\x03\x04": pickled, "\x1f\x8b\x08": pickled, "\x78\x9c": pickled,
		"\x04\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x02\x02": checkpoint, "": "", "a": "", "noise": "", "{": xgboostJSON,
	} {
		if got := formatOf([]byte(head)); got != want {
			t.Errorf("formatOf(%q) is %q, want %q", head, got, want)
		}
	}
}

func TestPickleIsRefused(t *testing.T) {
	for values, want := range map[string]string{"": "allow-pickle", "true": "cannot be read"} {
		settings := map[string]string{}
		if values != "" {
			settings["allow-pickle"] = values
		}
		b := open(t, settings)
		_, err := b.Load(t.Context(), configFor(t, "model.pkl", []byte("\x80\x04broken")))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("allow-pickle=%s: got %v, want %q", values, err, want)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte("tree\nversion=v4\ntree_sizes=10 20\n\nTree=0\nend of trees\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		formatOf(content)
		path := filepath.Join(t.TempDir(), "model.txt")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = checkLightGBM(path)
	})
}

// BenchmarkPredict is the library's own cost of a batch.
func BenchmarkPredict(b *testing.B) {
	path := os.Getenv("NESO_BENCH_FOREST")
	if path == "" {
		path = filepath.Join("testdata", "xgboost.model")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	d := open(b, nil)
	cfg := configFor(b, filepath.Base(path), content)
	o, err := readOptions(&cfg)
	if err != nil {
		b.Fatal(err)
	}
	f, err := d.(*driver).load(b.Context(), &cfg, o)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Drop()
	random := rand.New(rand.NewPCG(1, 2))
	for _, rows := range []int{1, 8, 32} {
		b.Run(strconv.Itoa(rows), func(b *testing.B) {
			in, out := make([]float32, rows*f.features), make([]float32, rows*f.outputs())
			for i := range in {
				in[i] = random.Float32()
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := f.predict(unsafe.Pointer(&in[0]), rows, unsafe.Pointer(&out[0])); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAMissingInputIsAnError(t *testing.T) {
	in := start(t, open(t, nil), configFor(t, "xgboost.model", legacy(t)))
	s := &librarytest.Answers{}
	r := &backend.Request{BatchSize: 1, Requested: []string{outputName}, Responder: s}
	err := in.Execute(t.Context(), &backend.Batch{Requests: []*backend.Request{r}, Size: 1})
	if e := backend.AsError(err); e == nil || e.Code != backend.InvalidArg {
		t.Errorf("got %v", err)
	}
}
