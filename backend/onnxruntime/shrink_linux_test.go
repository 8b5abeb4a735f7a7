package onnxruntime

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend/internal/librarytest"
	"github.com/nesoserve/neso/tensor"
)

// TestArenaShrinkage: what a run takes in between stays with ONNX Runtime after
// a large request, unless the model has its arena shrunk after each run.
func TestArenaShrinkage(t *testing.T) {
	const elements = 64 << 20 / 4
	large := tensor.Tensor{Name: "IN", Datatype: tensor.FP32, Shape: tensor.Shape{elements}, Data: make([]byte, 4*elements)}
	for i := range large.Data { // its pages are there before anything is measured
		large.Data[i] = 0
	}
	for _, c := range []struct {
		shrink string
		stays  bool
	}{{"", true}, {"cpu:0", false}} {
		d, _ := open(t, nil)
		cfg := configOf(t, "between", 0, port("IN", tensor.FP32, -1), port("OUT", tensor.FP32, 1))
		if c.shrink != "" {
			cfg.Parameters[paramShrink] = c.shrink
		}
		in := librarytest.Start(t, d, cfg).(*instance)
		if got, err := ask(in, 0, []string{"OUT"}, floats("IN", tensor.Shape{1}, 3)); got != "OUT [1] [-3]" {
			t.Fatal(got, err)
		}
		before := residentOwn(t)
		if got, err := ask(in, 0, []string{"OUT"}, large); err != nil {
			t.Fatal(got, err)
		}
		kept := residentOwn(t) - before
		t.Logf("%s %q: %d MiB more after a request of 64 MiB", paramShrink, c.shrink, kept>>10)
		if stays := kept > 48<<10; stays != c.stays {
			t.Errorf("%s %q: %d MiB more", paramShrink, c.shrink, kept>>10)
		}
	}
}

// residentOwn is how many KiB of memory that is no file's the process has, without
// what Go has yet to give back: when it does so is not of the test's choosing.
func residentOwn(t *testing.T) (kib int) {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "RssAnon:")
	if !found {
		t.Skip("this system does not say how much memory a process has")
	}
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}
