//go:build unix

package python

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
)

// stuckImport never comes to its class, stuckInit not to an instance.
const stuckImport = `
def wait_for_godot():
	print("waiting", flush=True)
	time.sleep(3600)
wait_for_godot()
class TritonPythonModel:
	def execute(self, requests): pass
`

const stuckInit = `
class TritonPythonModel:
	def initialize(self, args):
		print("fetching weights", flush=True)
		self.fetch()
	def fetch(self):
		time.sleep(3600)
	def execute(self, requests): pass
`

// TestLoadLimit: a load that never ends is ended, and its error says where the
// model was.
func TestLoadLimit(t *testing.T) {
	for _, c := range []struct {
		name, source string
		o            testOptions
		want         []string
	}{
		{"import", stuckImport, testOptions{params: map[string]string{"LOAD_TIMEOUT_SECONDS": "5"}}, []string{
			"Stub process 'm_0_0' is not healthy. the model was not loaded within 5s (LOAD_TIMEOUT_SECONDS), the process was ended; its last " +
				"output:\nwaiting\nIt was at:\n", " in wait_for_godot\n", " in <module>",
		}},
		{"initialize", stuckInit, testOptions{params: map[string]string{"LOAD_TIMEOUT_SECONDS": "5"}}, []string{
			"the instance was not initialized within 5s (LOAD_TIMEOUT_SECONDS), the process was ended; its last output:\nfetching weights\nIt was " +
				"at:\n", " in fetch\n", " in initialize",
		}},
		{
			"setting", stuckInit,
			testOptions{settings: map[string]string{"load-timeout-seconds": "1.5"}},
			[]string{"within 1.5s (LOAD_TIMEOUT_SECONDS)"},
		},
		{
			"complete", stuckImport,
			testOptions{complete: true, params: map[string]string{"LOAD_TIMEOUT_SECONDS": "1"}},
			[]string{"the model was not loaded within 1s"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := endedLoad(t, c.source, c.o, c.want...)
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "neso_worker") || strings.Contains(err.Error(), "importlib") {
				t.Errorf("the worker's own functions are in\n%v", err)
			}
		})
	}
}

// endedLoad returns why a load has failed. On a machine that stands still the time
// may be up before the model is where it hangs, and once more is tried then.
func endedLoad(t *testing.T, source string, o testOptions, want ...string) error {
	t.Helper()
	for try := 1; ; try++ {
		_, err := load(t, source, o)
		if err == nil {
			t.Fatal("it has loaded")
		}
		if try == 10 || !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			return err
		}
	}
}

func TestLoadLimitValue(t *testing.T) {
	for _, o := range []testOptions{
		{params: map[string]string{"LOAD_TIMEOUT_SECONDS": "soon"}},
		{params: map[string]string{"LOAD_TIMEOUT_SECONDS": "-1"}},
	} {
		if _, err := load(t, identity, o); err == nil || !strings.Contains(err.Error(), "LOAD_TIMEOUT_SECONDS") {
			t.Errorf("%v: %v", o.params, err)
		}
	}
	if _, err := parseSettings(map[string]string{"load-timeout-seconds": "x"}); err == nil || !strings.Contains(err.Error(),
		"load-timeout-seconds must be a number of seconds from 0 on, found 'x'") {
		t.Error(err)
	}
	m := mustLoad(t, identity, testOptions{params: map[string]string{"LOAD_TIMEOUT_SECONDS": "0"}})
	if got := describe(m.infer(floats("IN", 0))); got != "OUT FP32 [1] 00000000;" {
		t.Error(got)
	}
}

// TestLoadAtTheMemoryLimit: a load that fails, or goes on for ever, for want of
// memory names the limit.
func TestLoadAtTheMemoryLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("workers are limited on Linux only")
	}
	const fill = `
import mmap
pieces = []
try:
	while True: pieces.append(mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
except (MemoryError, OSError): del pieces[-2:]
class TritonPythonModel:
	def initialize(self, args):
		{{}}
	def execute(self, requests): pass
`
	for _, c := range []struct{ name, then, seconds, want string }{
		{"fails", "raise ValueError('no')", "60", "ValueError: no"},
		{"forever", "time.sleep(3600)", "5", "the instance was not initialized within 5s (LOAD_TIMEOUT_SECONDS), the process was ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := endedLoad(t, strings.ReplaceAll(fill, "{{}}", c.then),
				testOptions{params: map[string]string{"WORKER_MEMORY_BYTES": "400M", "LOAD_TIMEOUT_SECONDS": c.seconds}}, c.want)
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "of the 400 MiB that WORKER_MEMORY_BYTES allows") {
				t.Errorf("want %s and the limit, got %v", c.want, err)
			}
		})
	}
	_, err := load(t, "bytes = bytearray(1 << 31)\n", testOptions{params: map[string]string{"WORKER_MEMORY_BYTES": "400M"}})
	if e, ok := errors.AsType[*backend.Error](err); !ok || !strings.Contains(e.Message, "MemoryError") ||
		!strings.Contains(e.Message, "400 MiB by WORKER_MEMORY_BYTES") {
		t.Errorf("a single allocation: %v", err)
	}
}
