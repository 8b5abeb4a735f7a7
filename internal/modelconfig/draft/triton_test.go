package draft

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/modelconfig"
)

// finish takes a configuration through all steps of a load, as for a Python
// model on a machine without GPUs.
func finish(t *testing.T, name, text string) (*modelconfig.Config, error) {
	t.Helper()
	d, err := Parse([]byte(text), "config.pbtxt")
	if err != nil {
		return nil, err
	}
	if err := d.CompleteBackend(name, map[string]bool{"model.py": false}); err != nil {
		return nil, err
	}
	d.Normalize()
	if err := d.Validate(true); err != nil {
		return nil, err
	}
	if err := d.CheckDirectory(name); err != nil {
		return nil, err
	}
	if err := d.NormalizeInstances(gpu.Set{Least: gpu.DefaultLeast}, backend.Capabilities{Kind: "KIND_CPU", Count: 1}); err != nil {
		return nil, err
	}
	return d.Finish()
}

// TestTritonJSON compares with what a real server (2.51) answered at the
// config endpoint for the same files.
func TestTritonJSON(t *testing.T) {
	files, err := filepath.Glob("../testdata/triton/*.pbtxt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".pbtxt")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile("../testdata/triton/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			c, err := finish(t, name, string(text))
			if err != nil {
				t.Fatal(err)
			}
			// The field is newer than the release that the answers come from.
			got := strings.Replace(string(c.JSON()), `,"max_inflight_requests":0`, "", 1)
			if got != strings.TrimSpace(string(want)) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// TestTritonFaults holds our first fault against what a real server says: its
// text comes first, ours after it.
func TestTritonFaults(t *testing.T) {
	data, err := os.ReadFile("../testdata/triton_faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(data), "\n== ")[1:] {
		name, rest, _ := strings.Cut(block, "\n")
		text, want, _ := strings.Cut(rest, "\n--\n")
		want = strings.TrimRight(want, "\n")
		t.Run(name, func(t *testing.T) {
			_, err := finish(t, name, text)
			switch {
			case err == nil && want != "":
				t.Errorf("no fault, want %s", want)
			case err != nil && want == "":
				t.Errorf("unexpected fault: %v", err)
			case err != nil && !strings.HasPrefix(err.Error(), want+" ("):
				t.Errorf("got  %s\nwant %s", err, want)
			}
		})
	}
}
