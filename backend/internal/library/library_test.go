package library

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/nesoserve/neso/backend"
)

// spec is that of a library that no machine has.
var spec = Spec{
	Backend: "some-thing", Title: "Something", Linux: []string{"libsome.so", "libsome.so.*"}, Darwin: []string{"libsome.dylib"},
	Windows:  []string{"some.dll"},
	Packages: []string{"something/lib"}, Companions: []string{"helper_*"}, Install: "something",
}

// file is the library's name on this platform.
var file = map[string]string{"darwin": "libsome.dylib", "windows": "some.dll"}[runtime.GOOS]

func init() {
	if file == "" {
		file = "libsome.so.1.2"
	}
}

func put(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("no library"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// fakePython is an interpreter whose module search path is dirs.
func fakePython(t *testing.T, dirs ...string) func() (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nprintf '%s\\n' "+strings.Join(dirs, " ")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() (string, error) { return path, nil }
}

func TestSearchOrder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the interpreter of this test is a shell script")
	}
	top := t.TempDir()
	named, inBackends := put(t, top, "named", file), put(t, top, "backends [1]", "some-thing", file)
	inVariable, inPackages := put(t, top, "variable", "something/lib", file), put(t, top, "site", "something/lib", file)
	all := Locations{
		Named: "named", Base: top, BackendDirectory: filepath.Join(top, "backends [1]"),
		Python: fakePython(t, "/no/such", filepath.Join(top, "site")),
		Getenv: func(name string) string {
			if name == "NESO_SOME_THING_LIBRARY" {
				return filepath.Join(top, "variable")
			}
			return ""
		},
	}
	for _, want := range []string{named, inBackends, inVariable, inPackages, ""} {
		got, source, tried, err := spec.find(all)
		if err != nil || got != want {
			t.Errorf("got %s by %s, %v, want %s; tried %v", got, source, err, want, tried)
		}
		switch want { // take away what was found
		case named:
			all.Named = ""
		case inBackends:
			all.BackendDirectory = top
		case inVariable:
			all.Getenv = nil
		case inPackages:
			all.Python = nil
		}
	}
}

func TestWhatIsMissing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the interpreter of this test is a shell script")
	}
	top := t.TempDir()
	broken := put(t, top, file)
	old := filepath.Join(top, "old")
	put(t, old, "something/lib", "another")
	for _, c := range []struct {
		places Locations
		code   backend.Code
		want   string
	}{
		{Locations{Named: "/no/such/file"}, backend.NotFound, "Something is not found at '/no/such/file', which the model's configuration names"},
		{Locations{Named: filepath.Dir(put(t, top, "empty", "x"))}, backend.NotFound, "has no file"},
		{Locations{Getenv: func(string) string { return "/no/such" }}, backend.NotFound, "which NESO_SOME_THING_LIBRARY names"},
		{Locations{BackendDirectory: top}, backend.Unavailable, "Something cannot be opened: "},
		{Locations{Named: broken}, backend.Unavailable, "(found through the model's configuration)"},
		{
			Locations{Python: func() (string, error) { return "", fmt.Errorf("no Python") }},
			backend.NotFound,
			"Something is not found: install it with 'neso backends add some-thing' or 'pip install something', or name its library in " +
				"NESO_SOME_THING_LIBRARY; searched: backend-directory (not given), NESO_SOME_THING_LIBRARY (not set), site-packages (no Python), the " +
				"system",
		},
		{Locations{Python: fakePython(t, old)}, backend.NotFound, " (its something has no C library: upgrade it), the system"},
		{Locations{Python: func() (string, error) {
			return "/no/such/python", nil
		}}, backend.NotFound, "site-packages of /no/such/python (the interpreter does not run: "},
	} {
		_, err := spec.Open(c.places)
		if err == nil || backend.AsError(err).Code != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s: %s", err, c.code, c.want)
		}
	}
}

func TestAdd(t *testing.T) {
	top := t.TempDir()
	wheel := filepath.Join(top, "something-1-py3-none-any.whl")
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	for _, name := range []string{
		"something/lib/" + file, "something/lib/helper_a", "something/lib/other", "something/" + file,
		"something/lib/../../../" + file, "/etc/helper_b",
	} {
		if part, err := w.Create(name); err != nil {
			t.Fatal(err)
		} else if _, err := part.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	got, err := spec.Add(wheel, filepath.Join(top, "to"))
	if err != nil || len(got) != 2 || filepath.Base(got[0]) != file || filepath.Base(got[1]) != "helper_a" {
		t.Errorf("wrote %v, %v", got, err)
	}
	left, _ := os.ReadDir(filepath.Join(top, "to", "some-thing"))
	if len(left) != 2 {
		t.Errorf("%d files lie there, want 2", len(left))
	}
	for _, bad := range []string{filepath.Join(top, "missing.whl"), put(t, top, "bad.whl")} {
		if _, err := spec.Add(bad, top); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	bundling := spec
	bundling.Bundled = []string{"something.libs"}
	bundle := filepath.Join(top, "bundle.whl")
	if f, err = os.Create(bundle); err != nil {
		t.Fatal(err)
	}
	w = zip.NewWriter(f)
	for _, name := range []string{"something/lib/" + file, "something.libs/libneeded-1.so", "another.libs/libneeded-1.so"} {
		if _, err := w.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	bundles := filepath.Join(top, "bundles")
	if got, err = bundling.Add(bundle, bundles); err != nil || len(got) != 2 ||
		got[1] != filepath.Join(bundles, "some-thing", "something.libs", "libneeded-1.so") {
		t.Errorf("wrote %v, %v", got, err)
	}
	if path, _, _, err := bundling.find(Locations{BackendDirectory: bundles}); path != got[0] || err != nil {
		t.Errorf("found %s, %v, want %s", path, err, got[0])
	}
	other := Spec{Backend: "b", Title: "B", Linux: []string{"x"}, Darwin: []string{"x"}, Windows: []string{"x"}, Packages: []string{"p"}}
	if _, err := other.Add(wheel, top); err == nil || !strings.Contains(err.Error(), "has no library of B for ") {
		t.Errorf("a wheel of something else: %v", err)
	}
}

func TestText(t *testing.T) {
	for _, s := range []string{"", "a", "größer"} {
		b := CString(s)
		address := addressOf(b)
		if got := GoString(address); got != s {
			t.Errorf("%q comes back as %q", s, got)
		}
		if got := string(Bytes(address, len(s))); got != s {
			t.Errorf("%q: bytes %q", s, got)
		}
	}
	if GoString(0) != "" || Bytes(0, 4) != nil {
		t.Error("NULL has content")
	}
}

func addressOf(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }

func TestBeside(t *testing.T) {
	top := t.TempDir()
	p := Locations{BackendDirectory: top}
	if spec.Beside(p, "helper_*") {
		t.Error("without a library there is something beside it")
	}
	put(t, top, "some-thing", file)
	if spec.Beside(p, "helper_*") {
		t.Error("there is a helper where there is none")
	}
	put(t, top, "some-thing", "helper_a")
	if !spec.Beside(p, "helper_*") {
		t.Error("the helper is not found")
	}
}
