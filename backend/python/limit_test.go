//go:build unix

package python

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
)

// sleepy sleeps for as many seconds as its input says.
const sleepy = `
class TritonPythonModel:
	def execute(self, requests):
		first = float(pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0])
		time.sleep(first)
		return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]) for r in requests]
`

func TestExecutionLimit(t *testing.T) {
	for name, o := range map[string]testOptions{
		"parameter": {params: map[string]string{"EXECUTION_TIMEOUT_SECONDS": "0.5"}},
		"setting":   {settings: map[string]string{"execution-timeout-seconds": "0.5"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := mustLoad(t, sleepy, o)
			const ended = "Internal: Stub process 'm_0_0' is not healthy. execute did not return within 500ms (EXECUTION_TIMEOUT_SECONDS), the " +
				"process was ended"
			answers := func(when string) {
				t.Helper()
				// A machine that stands still makes any batch too long. Until another
				// worker follows, requests are told what became of the last one.
				got := describe(m.infer(floats("IN", 0)))
				for end := time.Now().Add(2 * time.Minute); strings.HasPrefix(got, ended) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					got = describe(m.infer(floats("IN", 0)))
				}
				if got != "OUT FP32 [1] 00000000;" {
					t.Fatalf("%s: %s", when, got)
				}
			}
			answers("at first")
			text, stack := "", ""
			// It may stand still when it is asked where it is.
			for end := time.Now().Add(2 * time.Minute); stack == "" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				text, stack, _ = strings.Cut(describe(m.infer(floats("IN", 600))), "\nIt was at:\n")
			}
			if text != ended || !strings.Contains(stack, "model.py\", line ") || !strings.HasSuffix(stack, " in execute") {
				t.Errorf("got  %s\nand  %s\nwant %s, and where it was", text, stack, ended)
			}
			answers("after the restart")
		})
	}
}

// TestExecutionLimitCountsOneBatch sends batches that together take longer
// than one may.
func TestExecutionLimitCountsOneBatch(t *testing.T) {
	m := mustLoad(t, sleepy, testOptions{params: map[string]string{"EXECUTION_TIMEOUT_SECONDS": "1"}})
	// A machine that stands still makes any batch too long; were it their sum, they
	// would be too long each time.
	for range 10 {
		var wg sync.WaitGroup
		var failed atomic.Int64
		for range 6 {
			wg.Go(func() {
				r, c := newRequest(floats("IN", 0.25))
				if err := m.run(r); err != nil {
					failed.Add(1)
				}
				c.wait(t)
			})
		}
		wg.Wait()
		if failed.Load() == 0 {
			return
		}
	}
	t.Error("batches of a quarter of the limit were ended each time")
}

// TestExecutionLimitLoop: a model that always hangs is not ready in the end.
func TestExecutionLimitLoop(t *testing.T) {
	m := mustLoad(t, sleepy, testOptions{params: map[string]string{"EXECUTION_TIMEOUT_SECONDS": "0.05"}})
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		m.infer(floats("IN", 600))
		if err := m.model.Ready(); err != nil {
			if !strings.Contains(err.Error(), "execute did not return within 50ms") {
				t.Errorf("not ready because of %v", err)
			}
			return
		}
	}
	t.Error("the model stays ready")
}

func TestExecutionLimitValue(t *testing.T) {
	for _, value := range []string{"", "x", "-1", "NaN", "1e300"} {
		if _, err := load(t, identity, testOptions{params: map[string]string{"EXECUTION_TIMEOUT_SECONDS": value}}); err == nil ||
			!strings.Contains(err.Error(), "EXECUTION_TIMEOUT_SECONDS") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestIsReady(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"yes", "def is_ready(self): return True", ""},
		{"no", "def is_ready(self): return False", "is_ready() of the model returned False"},
		{"coroutine", "async def is_ready(self): return True", ""},
		{"not a bool", "def is_ready(self): return 1", "is_ready() must return a boolean value"},
		{"raises", "def is_ready(self): raise ValueError('not yet')", "ValueError: not yet"},
		{"none", "is_ready = None", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustLoad(t, identity+"\t"+c.body+"\n", testOptions{})
			err := m.model.Ready()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestIsReadyShared: probes at the same time share one call.
func TestIsReadyShared(t *testing.T) {
	answer := filepath.Join(t.TempDir(), "answer")
	m := mustLoad(t, identity+`
	def is_ready(self):
		print("asked", flush=True)
		while not os.path.exists("`+answer+`"):
			time.sleep(0.001)
		return True
`, testOptions{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := m.model.Ready(); err != nil {
				t.Error(err)
			}
		})
	}
	for end := time.Now().Add(time.Minute); waitingProbes() < 7; time.Sleep(time.Millisecond) { // the eighth asks
		if time.Now().After(end) {
			t.Error("the probes do not wait for the one that asks")
			break
		}
	}
	if err := os.WriteFile(answer, nil, 0o600); err != nil {
		t.Error(err)
	}
	wg.Wait()
	m.close()
	if n := strings.Count(m.log.String(), "asked"); n != 1 {
		t.Errorf("is_ready ran %d times", n)
	}
}

// waitingProbes returns how many goroutines wait for another one's is_ready.
func waitingProbes() (n int) {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		if head, _, _ := strings.Cut(g, "\n"); strings.Contains(head, "[select") && strings.Contains(g, "(*probe).ready(") {
			n++
		}
	}
	return n
}

// writeCustom puts a python-based backend into a backend directory.
func writeCustom(t testing.TB, name, source string) (directory string) {
	t.Helper()
	directory = t.TempDir()
	folder := filepath.Join(directory, name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"model.py": strings.ReplaceAll(source, "\t", "    "), "beside.py": "WORD = 'beside'\n"} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

func TestImplements(t *testing.T) {
	directory := writeCustom(t, "mine", "")
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(directory, path), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, directory, runtime string
		want                     bool
	}{
		{"mine", directory, "", true},
		{"mine", directory, "model.py", true},
		{"mine", directory, "libtriton_mine.so", false},
		{"mine", "", "", false},
		{"other", directory, "", false},
		{"other", directory, "model.py", false},
		{"../" + filepath.Base(directory) + "/mine", directory, "", false},
		{"python", directory, "", false},
	} {
		if got := implements(c.name, c.directory, c.runtime); got != c.want {
			t.Errorf("implements(%q, %q, %q) = %v", c.name, c.directory, c.runtime, got)
		}
	}
	write("mine/libtriton_mine.so")
	if implements("mine", directory, "") || !implements("mine", directory, "model.py") {
		t.Error("a native library comes first, unless model.py is asked for")
	}
}

func TestCustomBackend(t *testing.T) {
	d, _ := newDriver(t, nil)
	d.server.Directory = writeCustom(t, "mine", `
import os
import numpy as np
import triton_python_backend_utils as pb_utils
import beside

class TritonPythonModel:
	@staticmethod
	def auto_complete_config(config):
		config.set_max_batch_size(4)
		return config
	def initialize(self, args):
		with open(os.path.join(pb_utils.get_model_dir(), "number.txt")) as f:
			self.number = float(f.read())
		assert beside.WORD == "beside" and args["model_repository"] == os.path.dirname(pb_utils.get_model_dir())
	def execute(self, requests):
		return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.full(1, self.number, np.float32))]) for r in requests]
`)
	dir := filepath.Join(t.TempDir(), "m")
	if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "1", "number.txt"), []byte("2"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := &testModel{t: t, driver: d, cfg: configOf(dir, testOptions{})}
	m.cfg.Backend, m.cfg.Filename = "mine", ""
	completed, err := d.Complete(t.Context(), m.cfg)
	if err != nil || !strings.Contains(string(completed), `"max_batch_size":4`) {
		t.Errorf("completed to %s, %v", completed, err)
	}
	if m.model, err = d.Load(t.Context(), m.cfg); err != nil {
		t.Fatal(err)
	}
	if m.instance, err = m.model.NewInstance(t.Context(), m.cfg.Instances[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	if got := describe(m.infer(floats("IN", 1))); got != "OUT FP32 [1] 00000040;" {
		t.Error(got)
	}
	if got := d.environmentOf(&m.cfg); got != "" {
		t.Errorf("environment %s without an archive", got)
	}
	archive := filepath.Join(d.server.Directory, "mine", "pb_exec_env_model.py.tar.gz")
	if err := os.WriteFile(archive, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := d.environmentOf(&m.cfg); got != archive {
		t.Errorf("environment %s, want the archive", got)
	}
	own := backend.Config{Backend: "mine", Parameters: map[string]string{"EXECUTION_ENV_PATH": "own"}}
	if got := d.environmentOf(&own); got != "own" {
		t.Errorf("environment %s, want the model's own", got)
	}
}

func TestIgnoredSettings(t *testing.T) {
	_, log := newDriver(t, map[string]string{"shm-region-prefix-name": "x", "stub-timeout-seconds": "5"})
	text := log.String()
	if want := "setting=shm-region-prefix-name because=\"shared memory has no name\""; strings.Count(text, want) != 1 {
		t.Errorf("want %q once in\n%s", want, text)
	}
	if strings.Contains(text, "stub-timeout") {
		t.Error("a setting with an effect is reported")
	}
}
