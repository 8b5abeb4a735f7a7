package layout

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/nesoserve/neso/internal/nesotest"
)

func TestParseVersion(t *testing.T) {
	for name, want := range map[string]int64{
		"1": 1, "0": -1, "12": 12, "01": -1, "": -1, "a": -1, "1a": 1, "3-fixed": 3, "-1": -1, "+1": -1, "warmup": -1,
		"9223372036854775807": math.MaxInt64, "9223372036854775808": -1,
	} {
		got, ok := ParseVersion(name)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("ParseVersion(%q) = %d, %v", name, got, ok)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string][2]bool{ // NoModel, MayLoad
		"m": {false, true}, ".hidden": {true, true}, "..m": {true, true}, "lost+found": {true, false}, "..": {true, false},
		"__pycache__": {true, false},
	} {
		if got := [2]bool{NoModel(name), MayLoad(name)}; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestFirstVersion(t *testing.T) {
	top := nesotest.Tree(t, map[string]string{
		"m/10/model.py": "", "m/10/weights/": "", "m/9/model.onnx": "", "m/warmup/raw": "", "m/01/": "",
		"file/1": "", "configured/config.pbtxt": "", "none/x": "",
	})
	got := FirstVersion(os.DirFS(filepath.Join(top, "m")))
	if want := map[string]bool{"model.py": false, "weights": true}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v: the first by name", got, want)
	}
	if FirstVersion(nil) != nil || FirstVersion(os.DirFS(filepath.Join(top, "file"))) != nil ||
		FirstVersion(os.DirFS(filepath.Join(top, "gone"))) != nil {
		t.Error("a version where there is none")
	}
	for name, want := range map[string]bool{"m": true, "configured": true, "file": false, "none": false} {
		directory := filepath.Join(top, name)
		entries, err := os.ReadDir(directory)
		if err != nil {
			t.Fatal(err)
		}
		if IsModel(directory, entries) != want {
			t.Errorf("IsModel of %s", name)
		}
	}
}
