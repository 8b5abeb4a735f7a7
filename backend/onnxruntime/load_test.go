package onnxruntime

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/tensor"
)

func TestComplete(t *testing.T) {
	d, _ := open(t, map[string]string{"default-max-batch-size": "16"})
	for _, c := range []struct{ model, config, want string }{
		{
			"add_sub", `{}`,
			`{"dynamic_batching":{},"input":[{"name":"INPUT0","data_type":"TYPE_FP32","dims":[16]},{"name":"INPUT1","data_type":"TYPE_FP32",` +
				`"dims":[16]}],` +
				`"max_batch_size":16,"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[16]},{"name":"OUTPUT1","data_type":"TYPE_FP32",` +
				`"dims":[16]}]}`,
		},
		{
			"add_sub", `{"max_batch_size":1,"output":[{"name":"OUTPUT0"}]}`,
			`{"input":[{"name":"INPUT0","data_type":"TYPE_FP32","dims":[16]},{"name":"INPUT1","data_type":"TYPE_FP32","dims":[16]}],` +
				`"max_batch_size":1,"output":[{"name":"OUTPUT0"}]}`,
		},
		{
			"identity_bytes", `{"max_batch_size":3,"sequence_batching":{}}`,
			`{"input":[{"name":"IN","data_type":"TYPE_STRING","dims":[-1]}],"max_batch_size":3,"output":[{"name":"OUT","data_type":"TYPE_STRING",` +
				`"dims":[-1]}],"sequence_batching":{}}`,
		},
		{
			"column", `{}`,
			`{"dynamic_batching":{},"input":[{"name":"IN","data_type":"TYPE_FP32","dims":[1]}],"max_batch_size":16,"output":[{"name":"OUT",` +
				`"data_type":"TYPE_FP32","dims":[1],"reshape":{"shape":[]}}]}`,
		},
		{
			"scalar", `{}`,
			`{"input":[{"name":"IN","data_type":"TYPE_FP32","dims":[-1]},{"name":"K","data_type":"TYPE_FP32","dims":[1]}],"max_batch_size":0,` +
				`"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[1]}]}`,
		},
		{
			"optional", `{}`,
			`{"dynamic_batching":{},"input":[{"name":"A","data_type":"TYPE_FP32","dims":[1],"reshape":{"shape":[]}}],"max_batch_size":16,` +
				`"output":[{"name":"OUT","data_type":"TYPE_FP32","dims":[1],"reshape":{"shape":[]}}]}`,
		},
		{"add_sub", `{"input":[{"name":"INPUT0"}],"output":[{"name":"OUTPUT0"}]}`, ``},
		{
			"nonzero", `{"max_batch_size":4}`,
			`error: Invalid argument: autofill failed for model 'model': model does not support batching while non-zero max_batch_size is ` +
				`specified ('OUT' has shape [1,-1]; write max_batch_size: 0, or export the model with a dynamic first dimension)`,
		},
		{
			"sequence", `{}`,
			`error: Unsupported: Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'LIST', expected 'ONNX_TYPE_TENSOR'. (model 'model'; name ` +
				`the tensors to serve as input and output in its configuration; classifiers of skl2onnx give tensors when they are converted with ` +
				`options={'zipmap': False})`,
		},
	} {
		cfg := configOf(t, c.model, 0, backend.IO{})
		cfg.JSON = []byte(c.config)
		got, err := d.Complete(t.Context(), cfg)
		if err != nil {
			got = []byte("error: " + backend.AsError(err).Code.String() + ": " + err.Error())
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s %s:\n%s", c.model, c.config, diff)
		}
	}
}

// TestCompletedSessionServes: the session that completed a configuration is that
// of the version, unless the file has changed.
func TestCompletedSessionServes(t *testing.T) {
	d, _ := open(t, nil)
	cfg := configOf(t, "add_sub", 4, port("INPUT0", tensor.FP32, 16), port("INPUT1", tensor.FP32, 16), backend.IO{},
		port("OUTPUT0", tensor.FP32, 16))
	cfg.JSON = []byte(`{}`)
	for _, changed := range []bool{false, true} {
		if _, err := d.Complete(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		ready, ok := d.ready.Take(&cfg)
		if !ok {
			t.Fatal("no session waits for the load")
		}
		d.ready.Keep(&cfg, ready)
		if changed {
			content, err := os.ReadFile("testdata/identity_fp32.onnx")
			if err == nil {
				err = os.WriteFile(filepath.Join(cfg.VersionDirectory, defaultFilename), content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		m, err := d.Load(t.Context(), cfg)
		if changed != (err != nil) {
			t.Fatalf("changed %v: %v", changed, err)
		}
		if err == nil {
			if m.(*model).shared != ready {
				t.Error("another session was made")
			}
			_ = m.Close()
		}
	}
}

func TestContradictions(t *testing.T) {
	d, _ := open(t, nil)
	fp := func(name string, dims ...int64) backend.IO { return port(name, tensor.FP32, dims...) }
	ragged := func(in backend.IO) backend.IO { in.Ragged = true; return in }
	pair := func(in ...backend.IO) []backend.IO { return append(in, backend.IO{}, fp("OUTPUT0", 16)) }
	for _, c := range []struct {
		model string
		batch int
		ios   []backend.IO
		want  string
	}{
		{
			"add_sub", 4, pair(fp("INPUT0", 16)),
			`Invalid argument: unable to load model 'model', configuration expects 1 inputs, model provides 2 (the configuration lacks 'INPUT1' ` +
				`(data_type: TYPE_FP32, dims: [ 16 ]))`,
		},
		{
			"add_sub", 4, pair(fp("INPUT0", 16), fp("input1", 16)),
			`Invalid argument: unable to load model 'model', configuration expects 2 inputs, model provides 2 (the configuration lacks 'INPUT1' ` +
				`(data_type: TYPE_FP32, dims: [ 16 ])); unexpected inference input 'input1', allowed inputs are: INPUT0, INPUT1 (write 'INPUT1')`,
		},
		{
			"add_sub", 4, pair(port("INPUT0", tensor.Int32, 16), fp("INPUT1", 8)),
			`Invalid argument: unable to load model 'model', configuration expects datatype TYPE_INT32 for input 'INPUT0', model provides ` +
				`TYPE_FP32 (write data_type: TYPE_FP32); ` +
				`model 'model', tensor 'INPUT1': the model expects 2 dimensions (shape [-1,16]) but the model configuration specifies 2 dimensions ` +
				`(an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,8]) (write ` +
				`dims: [ 16 ])`,
		},
		{
			"add_sub", 0, pair(fp("INPUT0", 16), fp("INPUT1", -1, 16)),
			`Invalid argument: model 'model', tensor 'INPUT0': the model expects 2 dimensions (shape [-1,16]) but the model configuration ` +
				`specifies 1 dimensions (shape [16]) (write dims: [ -1, 16 ]); ` +
				`model 'model', tensor 'OUTPUT0': the model expects 2 dimensions (shape [-1,16]) but the model configuration specifies 1 dimensions ` +
				`(shape [16]) (write dims: [ -1, 16 ])`,
		},
		{
			"nonzero", 4,
			[]backend.IO{ragged(fp("IN", -1)), port("OUT", tensor.Int64, -1)},
			`Invalid argument: model 'model', tensor 'OUT': for the model to support batching the shape should have at least 1 dimension and the ` +
				`first dimension must be -1; but shape expected by the model is [1,-1] (write max_batch_size: 0, or export the model with a dynamic ` +
				`first dimension)`,
		},
		{
			"identity_fp32", 4,
			[]backend.IO{ragged(fp("IN", -1)), fp("RESULT", -1)},
			`Invalid argument: unable to load model 'model', configuration expects model provides input with shape [-1]  for ragged input 'IN', ` +
				`model provides [-1,-1] (a ragged batch is one list of all elements); unexpected inference output 'RESULT', allowed outputs are: OUT`,
		},
		{
			"scalar", 0,
			[]backend.IO{fp("IN", -1), fp("K", 2), {}, fp("OUT", 1)},
			`Invalid argument: unable to load model 'model', scalar tensor 'K', should only provide 1 in the model configuration when the model ` +
				`doesn't support batching. Model configuration provided: [2]. (write dims: [ 1 ])`,
		},
		{
			"sequence", 0,
			[]backend.IO{fp("IN", -1), fp("LIST", -1)},
			`Unsupported: Unsupported ONNX Type 'ONNX_TYPE_SEQUENCE' for I/O 'LIST', expected 'ONNX_TYPE_TENSOR'. (classifiers of skl2onnx give ` +
				`tensors when they are converted with options={'zipmap': False})`,
		},
		{"sequence", 0, []backend.IO{fp("IN", -1), fp("OUT", -1)}, ``}, // the list is not asked for
		{
			"column", 4,
			[]backend.IO{fp("IN", 1), fp("OUT", 1)},
			`Invalid argument: model 'model', tensor 'OUT': the model expects 1 dimensions (shape [-1]) but the model configuration specifies 2 ` +
				`dimensions (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete shape [-1,` +
				`1]) (write dims: [ 1 ] and reshape { shape: [ ] })`,
		},
	} {
		m, err := d.Load(t.Context(), configOf(t, c.model, c.batch, c.ios...))
		got := ""
		if err != nil {
			got = backend.AsError(err).Code.String() + ": " + err.Error()
		} else {
			_ = m.Close()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.model, diff)
		}
	}
}

func TestBadFiles(t *testing.T) {
	d, _ := open(t, nil)
	whole, err := os.ReadFile("testdata/add_sub.onnx")
	if err != nil {
		t.Fatal(err)
	}
	content := func(name string) []byte {
		b, err := os.ReadFile("testdata/" + name + ".onnx")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		content []byte
		want    []string
	}{
		"empty":        {nil, []string{"'model/1/model.onnx' is not an ONNX model: the file is empty"}},
		"cut off":      {whole[:len(whole)/2], []string{"onnx runtime error 7: ", "model/1/model.onnx", "cut off"}},
		"garbage":      {[]byte("hello world, this is not a model"), []string{"onnx runtime error 7: ", "cut off, damaged"}},
		"lfs pointer":  {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), []string{"Git LFS pointer", "git lfs pull"}},
		"zip":          {[]byte("PK\x03\x04rest"), []string{"a zip archive"}},
		"pickle":       {[]byte("\x80\x04\x95rest"), []string{"a Python pickle", "export the model to ONNX"}},
		"tflite":       {[]byte("\x1c\x00\x00\x00TFL3rest"), []string{"TensorFlow Lite"}},
		"web page":     {[]byte("<!DOCTYPE html><html>"), []string{"a web page"}},
		"new opset":    {content("opset"), []string{"needs a newer ONNX Runtime than 1.", "older opset"}},
		"new ir":       {content("ir"), []string{"needs a newer ONNX Runtime than 1.", "older IR version"}},
		"own operator": {content("custom"), []string{"model_operations.op_library_filename"}},
		"weights gone": {content("external"), []string{"weights.bin", "must lie beside it"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := librarytest.Config(t, defaultFilename, c.content)
			cfg.JSON = []byte("{}")
			_, err := d.Complete(t.Context(), cfg)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(c.want, "") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), cfg.Directory) {
				t.Errorf("%q tells of the machine", err)
			}
		})
	}
	cfg := librarytest.Config(t, defaultFilename, nil)
	for filename, want := range map[string]string{
		"other.onnx":    "unable to find 'model/1/other.onnx' for model instance 'model'",
		"../model.onnx": "default_model_filename '../model.onnx' of model 'model' leads out of the version directory",
	} {
		cfg.Filename = filename
		if _, err := d.Load(t.Context(), cfg); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestCorruptFiles flips each byte of a model in turn: it loads or fails, and the
// process lives.
func TestCorruptFiles(t *testing.T) {
	d, _ := open(t, nil)
	whole, err := os.ReadFile("testdata/add_sub.onnx")
	if err != nil {
		t.Fatal(err)
	}
	cfg := librarytest.Config(t, defaultFilename, nil)
	cfg.JSON = []byte("{}")
	for i := range whole {
		broken := append([]byte(nil), whole...)
		broken[i] ^= 0x55
		if err := os.WriteFile(filepath.Join(cfg.VersionDirectory, defaultFilename), broken, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = d.Complete(t.Context(), cfg)
	}
}

func TestDirectoryAsModel(t *testing.T) {
	d, _ := open(t, nil)
	cfg := configOf(t, "identity_fp32", 4, port("IN", tensor.FP32, -1), port("OUT", tensor.FP32, -1))
	inner := filepath.Join(cfg.VersionDirectory, "inner.onnx")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(cfg.VersionDirectory, defaultFilename), filepath.Join(inner, defaultFilename)); err != nil {
		t.Fatal(err)
	}
	cfg.Filename = "inner.onnx"
	in := start(t, d, cfg)
	if got, err := ask(in, 1, []string{"OUT"}, floats("IN", tensor.Shape{1, 1}, 4)); got != "OUT [1,1] [4]" {
		t.Error(got, err)
	}
}

func TestParameters(t *testing.T) {
	d, _ := open(t, nil)
	for _, c := range []struct {
		parameters map[string]string
		json, want string
	}{
		{
			map[string]string{"execution_mode": "2"},
			`{}`,
			"Invalid configuration value provided. Expected values for  execution_mode are 0 or 1 but got 2 .",
		},
		{
			map[string]string{"execution_mode": "one", "enable_mem_arena": "maybe"},
			`{}`,
			"parameter 'execution_mode' of model 'model': failed to convert 'one' to integral number; parameter 'enable_mem_arena' of model",
		},
		{
			map[string]string{"intra_op_thread_count": "many"},
			`{}`,
			"parameter 'intra_op_thread_count' of model 'model': failed to convert 'many' to integral number",
		},
		{
			map[string]string{"inter_op_thread_count": "-1"},
			`{}`,
			"parameter 'inter_op_thread_count' of model 'model': expected 0 or more, got -1",
		},
		{
			map[string]string{"enable_mem_arena": "perhaps"},
			`{}`,
			"parameter 'enable_mem_arena' of model 'model': failed to convert 'perhaps' to boolean",
		},
		{
			nil, `{"optimization":{"execution_accelerators":{"cpu_execution_accelerator":[{"name":"abacus"}]}}}`,
			"unknown Execution Accelerator 'abacus' is requested (model 'model'; known ones: ",
		},
		{
			nil, `{"optimization":{"execution_accelerators":{"cpu_execution_accelerator":[{"name":"openvino"}]}}}`,
			"execution accelerator 'openvino' of model 'model' needs OpenVINOExecutionProvider, which ONNX Runtime 1.",
		},
		{nil, `{"model_operations":{"op_library_filename":["missing.so"]}}`, "operator library 'missing.so' of model 'model': "},
		{map[string]string{
			"execution_mode": "1", "intra_op_thread_count": "2", "inter_op_thread_count": "2", "enable_mem_arena": "1",
			"enable_mem_pattern":                            "false",
			"session.use_device_allocator_for_initializers": "1", "memory.enable_memory_arena_shrinkage": "cpu:0", "share_session": "0",
			"another": "is ignored",
		}, `{"optimization":{"graph":{"level":1}}}`, ""},
		{map[string]string{"enable_mem_arena": "0"}, `{"optimization":{"graph":{"level":-1}}}`, ""},
		{nil, `{"optimization":{"graph":{"level":2}}}`, ""},
		{map[string]string{"onnxruntime_library": "nowhere.so"}, `{}`, "ONNX Runtime is not found at '"},
	} {
		cfg := configOf(t, "identity_fp32", 4, port("IN", tensor.FP32, -1), port("OUT", tensor.FP32, -1))
		cfg.JSON = []byte(c.json)
		cfg.Parameters = c.parameters
		m, err := d.Load(t.Context(), cfg)
		if c.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v %s: got %v, want %s", c.parameters, c.json, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v %s: %v", c.parameters, c.json, err)
			continue
		}
		in, err := m.NewInstance(t.Context(), cfg.Instances[0])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ask(in.(*instance), 1, []string{"OUT"}, floats("IN", tensor.Shape{1, 1}, 4)); got != "OUT [1,1] [4]" {
			t.Error(got, err)
		}
		_, _ = in.Close(), m.Close()
	}
}

func TestGPUNeedsTheProvider(t *testing.T) {
	d, _ := open(t, nil)
	cfg := configOf(t, "identity_fp32", 4, port("IN", tensor.FP32, -1), port("OUT", tensor.FP32, -1))
	cfg.Instances[0].Kind = kindGPU
	_, err := d.Load(t.Context(), cfg)
	e, _ := d.environment(&cfg)
	if e.has("CUDAExecutionProvider") {
		t.Skip("the library has CUDA")
	}
	if err == nil || !strings.Contains(err.Error(), "instance group of KIND_GPU of model 'model' needs CUDAExecutionProvider") ||
		!strings.Contains(err.Error(), "install onnxruntime-gpu") {
		t.Errorf("got %v", err)
	}
}

func TestProviderOptions(t *testing.T) {
	got, err := tensorRTOptions(map[string]string{
		"precision_mode": "FP16", "max_workspace_size_bytes": "1024",
		"int8_calibration_table_name": "t", "trt_engine_cache_enable": "1",
	}, 3)
	want := map[string]string{
		"device_id": "3", "trt_fp16_enable": "1", "trt_max_workspace_size": "1024",
		"trt_int8_calibration_table_name": "t", "trt_engine_cache_enable": "1",
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %s", err, cmp.Diff(want, got))
	}
	for name, value := range map[string]string{"precision_mode": "FP8", "speed": "high", "device_id": "1"} {
		if _, err := tensorRTOptions(map[string]string{name: value}, 0); err == nil {
			t.Errorf("%s=%s is taken", name, value)
		}
	}
	got, err = cudaOptions(map[string]string{"use_ep_level_unified_stream": "1"},
		&sessionOptions{device: 1, cudaParameters: map[string]string{
			"cudnn_conv_algo_search": "1", "gpu_mem_limit": "99",
			"arena_extend_strategy": "1",
		}})
	want = map[string]string{
		"device_id": "1", "cudnn_conv_algo_search": "HEURISTIC", "gpu_mem_limit": "99",
		"arena_extend_strategy": "kSameAsRequested", "use_ep_level_unified_stream": "1",
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %s", err, cmp.Diff(want, got))
	}
	if _, err := cudaOptions(nil, &sessionOptions{cudaParameters: map[string]string{"cudnn_conv_algo_search": "7"}}); err == nil {
		t.Error("a search that does not exist is taken")
	}
}

func TestThreads(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	instances := func(n int) []backend.InstanceConfig {
		var all []backend.InstanceConfig
		for i := range n {
			all = append(all, backend.InstanceConfig{Name: fmt.Sprint(i), Kind: "KIND_CPU"})
		}
		return all
	}
	for _, c := range []struct {
		instances  int
		own        bool
		settings   settings
		parameters string
		want       int
	}{
		{1, false, settings{}, "", cores},
		{1, true, settings{}, "", cores},
		{cores, false, settings{}, "", 1},
		{cores, true, settings{}, "", 1},
		{3 * cores, true, settings{}, "", 1},
		{3 * cores, false, settings{}, "", 1},
		{1, false, settings{intra: 7}, "", 7},
		{1, false, settings{intra: 7}, "3", 3},
		{1, false, settings{}, "0", cores},
	} {
		d := &driver{settings: c.settings}
		cfg := backend.Config{Instances: instances(c.instances), Parameters: map[string]string{}}
		if c.own {
			cfg.Parameters[paramShare] = "0"
		}
		if c.parameters != "" {
			cfg.Parameters[paramIntraThreads] = c.parameters
		}
		o, err := d.readOptions(&cfg, &modelConfig{}, cfg.Instances[0])
		if err != nil || o.intra != c.want {
			t.Errorf("%+v: %d threads, %v", c, o.intra, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		values map[string]string
		want   settings
		bad    bool
	}{
		{nil, settings{maxBatchSize: 4}, false},
		{map[string]string{
			"default-max-batch-size": "0", "enable-global-threadpool": "1", "intra_op_thread_count": "2",
			"inter_op_thread_count": "3",
		}, settings{sharedThreads: true, intra: 2, inter: 3}, false},
		{map[string]string{"default-max-batch-size": "x"}, settings{}, true},
		{map[string]string{"enable-global-threadpool": "x"}, settings{}, true},
	} {
		got, err := parseSettings(backend.Settings{Values: c.values})
		if (err != nil) != c.bad || err == nil && got != c.want {
			t.Errorf("%v: got %+v, %v", c.values, got, err)
		}
	}
}

// TestSharedThreads: one pool for all sessions.
func TestSharedThreads(t *testing.T) {
	d, _ := open(t, map[string]string{"enable-global-threadpool": "1", "intra_op_thread_count": "2", "inter_op_thread_count": "1"})
	in := start(t, d, configOf(t, "identity_fp32", 4, port("IN", tensor.FP32, -1), port("OUT", tensor.FP32, -1)))
	if got, err := ask(in, 1, []string{"OUT"}, floats("IN", tensor.Shape{1, 1}, 4)); got != "OUT [1,1] [4]" {
		t.Error(got, err)
	}
}

// TestLog: what ONNX Runtime has to say is in the server's log.
func TestLog(t *testing.T) {
	d, log := open(t, nil)
	in := start(t, d, configOf(t, "table", 8, port("IN", tensor.Int32, 1), port("OUT", tensor.Int32, 1)))
	if _, err := ask(in, 1, []string{"OUT"}, numbers("IN", tensor.Int32, tensor.Shape{1, 1}, []int32{-5})); err == nil {
		t.Fatal("no error")
	}
	if text := log.String(); !strings.Contains(text, "ONNX Runtime opened") || !strings.Contains(text, "out of data bounds") {
		t.Errorf("the log says\n%s", text)
	}
}

func TestLogIsBounded(t *testing.T) {
	l := &limitedLog{}
	passed, omitted := 0, 0
	for second := range int64(3) {
		for range 3 * linesPerSecond {
			ok, n := l.allow(second + 1)
			if ok {
				passed++
			}
			omitted += n
		}
	}
	if passed != 3*linesPerSecond || omitted != 4*linesPerSecond {
		t.Errorf("%d lines passed, %d told as left out", passed, omitted)
	}
}

// TestConfigJSON: the fields are those of the real form.
func TestConfigJSON(t *testing.T) {
	cfg := backend.Config{
		Name: "m",
		JSON: []byte(`{"max_batch_size":2,"optimization":{"graph":{"level":1},` +
			`"execution_accelerators":{"gpu_execution_accelerator":[{"name":"tensorrt","parameters":{"precision_mode":"FP16"}}],` +
			`"cpu_execution_accelerator":[]}},"model_operations":{"op_library_filename":["a.so"]}}`),
	}
	c, err := parseConfig(&cfg)
	if err != nil || c.MaxBatchSize != 2 || c.Optimization.Graph.Level != 1 ||
		c.Optimization.ExecutionAccelerators.GPU[0].Parameters["precision_mode"] != "FP16" || c.ModelOperations.OpLibraryFilename[0] != "a.so" {
		t.Errorf("%+v, %v", c, err)
	}
	cfg.JSON = json.RawMessage(`{`)
	if _, err := parseConfig(&cfg); err == nil {
		t.Error("no error")
	}
}
