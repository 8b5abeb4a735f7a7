package modelfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nesoserve/neso/backend"
)

func TestPath(t *testing.T) {
	cfg := &backend.Config{Name: "m", VersionDirectory: "v"}
	for name, want := range map[string]string{
		"model.onnx": filepath.Join("v", "model.onnx"), "a/b.pt": filepath.Join("v", "a", "b.pt"), "a/../b": filepath.Join("v", "b"),
		"../2/model.pt": "", "/etc/passwd": "", "a/../../b": "", "": "",
	} {
		got, err := Path(cfg, name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", name, got, err, want)
		}
	}
	_, err := Path(cfg, "../x")
	if want := "default_model_filename '../x' of model 'm' leads out of the version directory"; err == nil || err.Error() != want ||
		backend.AsError(err).Code != backend.InvalidArg {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPathOfADevice(t *testing.T) {
	if _, err := os.Stat("/dev/null"); err != nil {
		t.Skipf("there is no device to look at: %v", err)
	}
	_, err := Path(&backend.Config{Name: "m", VersionDirectory: "/dev"}, "null")
	if want := "'null' of model 'm' is a pipe, a socket or a device, not a file"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestStamp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if Stamp(path) != "" {
		t.Error("a file that is not there has a stamp")
	}
	for _, content := range []string{"a", "ab"} {
		before := Stamp(path)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if Stamp(path) == before {
			t.Error("another content has the same stamp")
		}
	}
}
