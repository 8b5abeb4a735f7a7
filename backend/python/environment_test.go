//go:build unix

package python

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nesoserve/neso/internal/nesotest"
)

// archive writes a .tar.gz with the entries.
func archive(t *testing.T, path string, entries ...tar.Header) {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, h := range entries {
		data := []byte("#!/bin/sh\n")
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(data))
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := tw.Write(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(tw.Close(), zw.Close(), os.WriteFile(path, buf.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

var goodEnvironment = []tar.Header{
	{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
	{Name: "./bin/activate", Typeflag: tar.TypeReg, Mode: 0o644},
	{Name: "bin/python3.11", Typeflag: tar.TypeReg, Mode: 0o755},
	{Name: "bin/python3", Typeflag: tar.TypeSymlink, Linkname: "python3.11"},
	{Name: "bin/python", Typeflag: tar.TypeSymlink, Linkname: "../bin/python3"},
	{Name: "lib/copy", Typeflag: tar.TypeLink, Linkname: "bin/activate"},
}

func TestArchiveIsUnpackedOnce(t *testing.T) {
	cache, file := t.TempDir(), filepath.Join(t.TempDir(), "env.tar.gz")
	archive(t, file, goodEnvironment...)
	e := environments{directory: cache}
	first, err := e.interpreter(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(first.path, cache) || first.root != filepath.Dir(filepath.Dir(first.path)) {
		t.Errorf("got %+v", first)
	}
	if again, err := e.interpreter(file); err != nil || again != first {
		t.Errorf("again: %+v, %v", again, err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(file, later, later); err != nil {
		t.Fatal(err)
	}
	if changed, err := e.interpreter(file); err != nil || changed == first {
		t.Errorf("after a change: %+v, %v", changed, err)
	}
	left, _ := filepath.Glob(filepath.Join(cache, "*-new-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestUnsafeArchives(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"absolute":         {Name: "/tmp/neso-evil", Typeflag: tar.TypeReg, Mode: 0o644},
		"parent":           {Name: "../evil", Typeflag: tar.TypeReg, Mode: 0o644},
		"hidden parent":    {Name: "bin/../../evil", Typeflag: tar.TypeReg, Mode: 0o644},
		"absolute link":    {Name: "etc", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		"escaping link":    {Name: "bin/x", Typeflag: tar.TypeSymlink, Linkname: "../../evil"},
		"escaping hard":    {Name: "x", Typeflag: tar.TypeLink, Linkname: "../evil"},
		"device":           {Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		"twice":            {Name: "bin/activate", Typeflag: tar.TypeReg, Mode: 0o644},
		"through a link":   {Name: "out/evil", Typeflag: tar.TypeReg, Mode: 0o644},
		"below a file":     {Name: "bin/activate/x", Typeflag: tar.TypeReg, Mode: 0o644},
		"fifo":             {Name: "pipe", Typeflag: tar.TypeFifo},
		"link to its root": {Name: "x", Typeflag: tar.TypeLink, Linkname: ".."},
	} {
		dir := t.TempDir()
		file, to := filepath.Join(dir, "env.tar.gz"), filepath.Join(dir, "a", "b")
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		entries := slices.Clone(goodEnvironment)
		if name == "through a link" {
			if err := os.Symlink(dir, filepath.Join(to, "out")); err != nil {
				t.Fatal(err)
			}
		}
		archive(t, file, append(entries, h)...)
		if err := extractArchive(file, to); err == nil {
			t.Errorf("%s: unpacked", name)
		}
		if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
			t.Errorf("%s: escaped", name)
		}
	}
}

func TestEnvironmentErrors(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		make func(path string)
		want string
	}{
		"missing": {func(string) {}, "is not found"},
		"empty": {func(p string) {
			_ = os.Mkdir(p, 0o755)
		}, "/bin/activate does not exist. The Python environment should contain an 'activate' script."},
		"text":          {func(p string) { _ = os.WriteFile(p, nil, 0o644) }, "neither a directory nor a .tar.gz archive nor an interpreter"},
		"broken.tar.gz": {func(p string) { _ = os.WriteFile(p, []byte("x"), 0o644) }, "unpack the Python environment"},
	} {
		path := filepath.Join(dir, name)
		c.make(path)
		e := environments{directory: t.TempDir()}
		if _, err := e.interpreter(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestModelWithEnvironment runs a model in a virtual environment beside it.
func TestModelWithEnvironment(t *testing.T) {
	base := nesotest.Python(t)
	dir := writeModel(t, `
class TritonPythonModel:
	def initialize(self, args):
		assert sys.executable == os.environ["WANT"], sys.executable
		assert os.environ["VIRTUAL_ENV"] + "/bin/python" == sys.executable
		assert os.environ["OMP_NUM_THREADS"] and os.environ["PATH"].startswith(os.environ["VIRTUAL_ENV"])
	def execute(self, requests):
		return []
`)
	root := filepath.Join(dir, "env")
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	// The environment's interpreter is a link, as in a venv; it finds its packages by pyvenv.cfg.
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		t.Fatal(err)
	}
	cfgFile, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(base)), "pyvenv.cfg"))
	if err == nil {
		site := filepath.Join(filepath.Dir(filepath.Dir(base)), "lib")
		err = errors.Join(os.WriteFile(filepath.Join(root, "pyvenv.cfg"), cfgFile, 0o644), os.Symlink(site, filepath.Join(root, "lib")))
	} else {
		err = nil // an interpreter with numpy of its own
	}
	if err = errors.Join(err, os.Symlink(real, filepath.Join(root, "bin", "python"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("WANT", filepath.Join(root, "bin", "python"))
	d, _ := newDriver(t, nil)
	cfg := configOf(dir, testOptions{params: map[string]string{paramEnvironment: "$$TRITON_MODEL_DIRECTORY/env"}})
	m, err := d.Load(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	i, err := m.NewInstance(t.Context(), cfg.Instances[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(i.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}

func TestWorkerEnvironment(t *testing.T) {
	got := workerEnvironment([]string{"PATH=/usr/bin", "OMP_NUM_THREADS=7", "PYTHONPATH=/x", "CONDA_PREFIX=/old"}, "/env", 3)
	want := []string{
		"OMP_NUM_THREADS=7", "PYTHONPATH=/x", "PATH=/env/bin:/usr/bin", "CONDA_PREFIX=/env", "VIRTUAL_ENV=/env",
		"OPENBLAS_NUM_THREADS=3", "MKL_NUM_THREADS=3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestDefaultInterpreter(t *testing.T) {
	_, err := defaultInterpreter("python", "/nowhere/python")
	if err == nil || !strings.Contains(err.Error(), "'/nowhere/python' is not found") {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", dir)
	stale, text := filepath.Join(dir, "stale"), filepath.Join(dir, "text")
	if err := errors.Join(os.Symlink("python3.old", stale), os.WriteFile(text, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		stale: "is not found: it is a link to '" + stale[:len(stale)-len("stale")] + "python3.old'",
		text:  "may not be run by the server's user",
	} {
		if _, err := defaultInterpreter("python", name); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := defaultInterpreter("python", "", ""); err == nil || !strings.Contains(err.Error(), "with numpy") {
		t.Errorf("got %v", err)
	}
	local := filepath.Join(dir, ".venv", "bin", "python")
	if err := errors.Join(os.MkdirAll(filepath.Dir(local), 0o755), os.WriteFile(local, nil, 0o755),
		os.WriteFile(filepath.Join(dir, "python3"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	if in, err := defaultInterpreter("python", "", ""); err != nil || in.path != local {
		t.Errorf("got %v, %v", in, err)
	}
	if in, err := defaultInterpreter("python", "", filepath.Join(dir, "python3")); err != nil || in.path != filepath.Join(dir, "python3") {
		t.Errorf("got %v, %v", in, err)
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"shm-default-byte-size", "1048576", ""},
		{"shm-default-byte-size", "1048575", "shm-default-byte-size can't be smaller than 4 MiBs"},
		{"shm-growth-byte-size", "0", "shm-growth-byte-size can't be smaller than or equal to zero."},
		{"stub-timeout-seconds", "0", "stub-timeout-seconds can't be smaller than or equal to zero."},
		{"stub-timeout-seconds", "x", "stub-timeout-seconds must be an integer, found 'x'"},
		{"thread-pool-size", "0", "thread-pool-size can't be less than 1."},
		{"shm-region-prefix-name", "", "shm-region-prefix-name must be at least one character long."},
		{"shm-region-prefix-name", "x", ""},
		{"default-max-batch-size", "4", ""},
		{"shm_message_queue_size", "1000", ""},
		{"something-else", "x", ""},
	} {
		_, err := parseSettings(map[string]string{c.key: c.value})
		if got := errorText(err); got != c.want {
			t.Errorf("%s=%s: got %q, want %q", c.key, c.value, got, c.want)
		}
	}
	if s, err := parseSettings(map[string]string{"stub-timeout-seconds": "7"}); err != nil || s.stubTimeout != 7*time.Second {
		t.Errorf("got %v, %v", s, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
