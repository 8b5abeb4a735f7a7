//go:build unix

package python

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nesoserve/neso/backend"
)

// crashing returns its input, unless the first value says how to die.
const crashing = `
class TritonPythonModel:
	def execute(self, requests):
		first = pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0]
		if first == -9:
			print("last words", file=sys.stderr)
			os.kill(os.getpid(), signal.SIGKILL)
		if first == -11:
			os.kill(os.getpid(), signal.SIGSEGV)
		if first == -3:
			os._exit(3)
		if first == -1:
			sys.exit(4)
		return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]) for r in requests]
`

func TestDeath(t *testing.T) {
	for _, zygote := range []string{"1", "0"} {
		t.Run("zygote="+zygote, func(t *testing.T) {
			t.Setenv("NESO_PYTHON_ZYGOTE", zygote)
			m := mustLoad(t, crashing, testOptions{})
			for _, c := range []struct {
				first float32
				want  string
			}{
				{-9, "the process was killed by SIGKILL (out of memory?); its last output:\nlast words"},
				{-3, "the process exited with code 3"},
				{-11, "the process was killed by SIGSEGV"},
			} {
				got := describe(m.infer(floats("IN", c.first)))
				if !strings.HasPrefix(got, "Internal: Stub process 'm_0_0' is not healthy. ") || !strings.Contains(got, c.want) {
					t.Errorf("%v: got %q, want %q", c.first, got, c.want)
				}
				// The next request finds a new worker.
				if got := describe(m.infer(floats("IN", 1))); got != "OUT FP32 [1] 0000803f;" {
					t.Errorf("after %v: %s", c.first, got)
				}
				if err := m.model.Ready(); err != nil {
					t.Errorf("after %v: %v", c.first, err)
				}
			}
			if got := describe(m.infer(floats("IN", -1))); !strings.Contains(got, "SystemExit: 4") {
				t.Errorf("sys.exit: %s", got)
			}
		})
	}
}

// TestDeathWithQueue kills the worker with batches on their way: all fail with
// the cause, none hangs.
func TestDeathWithQueue(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		time.sleep(0.1)
		os._exit(7)
`, testOptions{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			r, c := newRequest(floats("IN", 1))
			_ = m.run(r)
			if got := describe(c.wait(t)[0]); !strings.Contains(got, "exited with code 7") {
				t.Errorf("got %s", got)
			}
		})
	}
	wg.Wait()
}

func TestCrashLoop(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		os._exit(5)
`, testOptions{})
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		m.infer(floats("IN", 1))
		if err := m.model.Ready(); err != nil && strings.Contains(err.Error(), "exited with code 5") {
			return
		}
	}
	t.Error("the model stays ready")
}

// TestRestartFails lets the model break for good after its first death.
func TestRestartFails(t *testing.T) {
	m := mustLoad(t, `
import pathlib
class TritonPythonModel:
	def initialize(self, args):
		flag = pathlib.Path(args["model_repository"]) / "flag"
		if flag.exists():
			raise RuntimeError("no second life")
		flag.write_text("x")
	def execute(self, requests):
		os._exit(5)
`, testOptions{})
	m.infer(floats("IN", 1))
	if got := describe(m.infer(floats("IN", 1))); !strings.Contains(got, "RuntimeError: no second life") {
		t.Errorf("got %s", got)
	}
	if err := m.model.Ready(); err == nil {
		t.Error("the model is ready")
	}
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"import", "import nonsense_module_that_is_not_there\n", "ModuleNotFoundError: No module named 'nonsense_module_that_is_not_there'"},
		{"syntax", "class TritonPythonModel(:\n", "SyntaxError"},
		{"no class", "x = 1\n", "TritonPythonModel"},
		{"initialize", "class TritonPythonModel:\n\tdef initialize(self, args):\n\t\traise ValueError('bad weights')\n\tdef execute(self, " +
			"requests):\n\t\tpass\n", "ValueError: bad weights\n\nAt:\n"},
		{
			"death in initialize",
			"class TritonPythonModel:\n\tdef initialize(self, args):\n\t\tos._exit(9)\n\tdef execute(self, requests):\n\t\tpass\n",
			"exited with code 9",
		},
		{"death at import", "os._exit(8)\n", "exited with code 8"},
	} {
		for _, complete := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				_, err := load(t, c.source, testOptions{complete: complete})
				var e *backend.Error
				if !errors.As(err, &e) || e.Code != backend.Internal || !strings.Contains(e.Message, c.want) {
					t.Errorf("complete %v: got %v, want %q", complete, err, c.want)
				}
			})
		}
	}
}

func TestFilesAndParameters(t *testing.T) {
	d, _ := newDriver(t, nil)
	cfg := configOf(t.TempDir(), testOptions{})
	for _, c := range []struct {
		edit func(*backend.Config)
		want string
	}{
		{func(*backend.Config) {}, "Python model file not found in '" + filepath.Join(cfg.VersionDirectory, "model.py") + "'"},
		{func(c *backend.Config) { c.Filename = "model.pt" }, `Model name must end with '.py'. Model name is "model.pt".`},
	} {
		edited := cfg
		c.edit(&edited)
		if _, err := d.Load(t.Context(), edited); err == nil || err.Error() != c.want {
			t.Errorf("Load: got %v, want %s", err, c.want)
		}
		if _, err := d.Complete(t.Context(), edited); err == nil || err.Error() != c.want {
			t.Errorf("Complete: got %v, want %s", err, c.want)
		}
	}
	if _, err := load(t, identity, testOptions{params: map[string]string{paramForceCPU: "maybe"}}); err == nil ||
		err.Error() != "Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: maybe'" {
		t.Errorf("got %v", err)
	}
	mustLoad(t, identity, testOptions{params: map[string]string{paramForceCPU: "no"}})
}

// TestHangAtStart names an interpreter that never says hello.
func TestHangAtStart(t *testing.T) {
	script := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho starting >&2\nexec sleep 600\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, zygote := range []string{"1", "0"} {
		t.Setenv("NESO_PYTHON_ZYGOTE", zygote)
		// On a machine that stands still the second may be over before it says a word.
		for try, said := 1, false; !said; try++ {
			_, err := load(t, identity, testOptions{
				settings: map[string]string{"stub-timeout-seconds": "1"},
				params:   map[string]string{paramEnvironment: script},
			})
			if err == nil || !strings.Contains(err.Error(), "did not start within 1s") {
				t.Fatalf("zygote %s: got %v", zygote, err)
			}
			if said = strings.Contains(err.Error(), "starting"); !said && try == 10 {
				t.Fatalf("zygote %s: its words are missing in %v", zygote, err)
			}
		}
	}
}

// TestFinalizeTakesItsTime: a worker is given little time to end, but its model's
// finalize as long as it takes.
func TestFinalizeTakesItsTime(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	m := mustLoad(t, fmt.Sprintf(`
class TritonPythonModel:
	def execute(self, requests):
		return []
	def finalize(self):
		time.sleep(0.5)
		open(%q, "w").close()
`, done), testOptions{grace: 10 * time.Millisecond})
	m.close()
	if _, err := os.Stat(done); err != nil {
		t.Error("finalize was cut off")
	}
}

// TestHangAtEnd unloads a model whose finalize never returns.
func TestHangAtEnd(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		return []
	def finalize(self):
		signal.signal(signal.SIGTERM, signal.SIG_IGN)
		while True:
			time.sleep(1)
`, testOptions{finalize: 50 * time.Millisecond})
	m.close() // SIGTERM is ignored, SIGKILL is not; checkNoChildren looks
}

// TestOutOfMemory limits the worker's address space: the exception is the
// request's error, and the worker lives.
func TestOutOfMemory(t *testing.T) {
	m := mustLoad(t, `
import resource
class TritonPythonModel:
	def execute(self, requests):
		if pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0] == 1:
			resource.setrlimit(resource.RLIMIT_AS, (2 << 30, resource.RLIM_INFINITY))
			np.ones(1 << 32, np.uint8)
		return [pb_utils.InferenceResponse([]) for r in requests]
`, testOptions{})
	if got := describe(m.infer(floats("IN", 1))); !strings.Contains(got, "MemoryError") {
		t.Errorf("got %s", got)
	}
	if got := describe(m.infer(floats("IN", 0))); got != "" {
		t.Errorf("got %s", got)
	}
}

// TestZygoteDies kills the zygote: running workers go on, and the next start
// makes another one.
func TestZygoteDies(t *testing.T) {
	m := mustLoad(t, `
class TritonPythonModel:
	def execute(self, requests):
		if pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0] == 1:
			os.kill(os.getppid(), signal.SIGKILL)
			while os.getppid() == self.parent:
				time.sleep(0.001)
		if pb_utils.get_input_tensor_by_name(requests[0], "IN").as_numpy()[0] == 2:
			os._exit(1)
		return [pb_utils.InferenceResponse([]) for r in requests]
	def initialize(self, args):
		self.parent = os.getppid()
`, testOptions{})
	for _, v := range []float32{1, 0} {
		if got := describe(m.infer(floats("IN", v))); got != "" {
			t.Errorf("%v: %s", v, got)
		}
	}
	if got := describe(m.infer(floats("IN", 2))); !strings.Contains(got, "is not healthy. the process ended") {
		t.Errorf("got %s", got)
	}
	if got := describe(m.infer(floats("IN", 0))); got != "" {
		t.Errorf("with another zygote: %s", got)
	}
}
