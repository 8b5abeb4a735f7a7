package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheLockComesBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	l, err := readLock(file)
	if err != nil {
		t.Fatal(err)
	}
	l.set("arm64", "libc6", locking{"2.36-9", "ab"})
	l.set("amd64", "zlib1g", locking{"1:1.2", "cd"})
	if err := l.write(file); err != nil {
		t.Fatal(err)
	}
	again, err := readLock(file)
	if err != nil || len(again.packages) != 2 || again.at("amd64", "zlib1g") != (locking{"1:1.2", "cd"}) || again.at("x", "x") != (locking{}) {
		t.Errorf("%+v %v", again, err)
	}
	if err := os.WriteFile(file, []byte("# a comment\n\namd64 libc6 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readLock(file); err == nil || !strings.Contains(err.Error(), "lock:3: expected architecture, package, version and SHA-256") {
		t.Error(err)
	}
}

// TestTheLockHasWhatImagesTake reads the lock of the repository: a package that is
// added to a list must be in it.
func TestTheLockHasWhatImagesTake(t *testing.T) {
	l, err := readLock("../../../../scripts/images.lock")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{"amd64", "arm64"} {
		for _, w := range append(pythonPackages(), systemPackages...) {
			if got := l.at(a, w.name); got.version == "" || len(got.sha256) != 64 {
				t.Errorf("%s %s: %+v", a, w.name, got)
			}
		}
	}
}

func TestMatches(t *testing.T) {
	for name, want := range map[string]bool{
		"lib/x86_64-linux-gnu/libc.so.6": true, "lib/x86_64-linux-gnu/libcrypt.so.1": false, "usr/lib/a/b": true, "usr/lib": false,
	} {
		if got := matches([]string{"lib/*/lib[cm].so.6", "usr/lib/"}, name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestWhatACheckoutHasCompiledIsNoPartOfAnImage: two machines make the same image.
func TestWhatACheckoutHasCompiledIsNoPartOfAnImage(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"neso/__pycache__/a.cpython-312.pyc", "neso/client/__pycache__/b.cpython-311.pyc", "neso/a.py"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := uncompile(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"neso/__pycache__": false, "neso/client/__pycache__": false, "neso/client": true, "neso/a.py": true,
	} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
