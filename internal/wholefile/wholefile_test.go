package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alone fails when a directory has more than so many entries.
func alone(t *testing.T, dir string, want int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != want {
		t.Errorf("%d entries, want %d: %v %v", len(entries), want, entries, err)
	}
}

func TestWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"first", "", "second"} {
		if err := Bytes(path, []byte(text)); err != nil || read(t, path) != text {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Bytes(path, []byte("third")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v: its permissions have changed", info, err)
	}
	alone(t, dir, 1)
}

func TestNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	half := func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return errors.New("no more")
	}
	if err := Write(path, half); err == nil || err.Error() != "failed to write "+path+": no more" {
		t.Errorf("got %v", err)
	}
	alone(t, dir, 0)
	if err := Bytes(path, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, half); err == nil || read(t, path) != "whole" {
		t.Errorf("got %v, and the file has %q", err, read(t, path))
	}
	alone(t, dir, 1)
	gone := filepath.Join(dir, "none", "f")
	if err := Bytes(gone, nil); err == nil || !strings.HasPrefix(err.Error(), "failed to write "+gone+": ") ||
		strings.Contains(err.Error(), ".f-") {
		t.Errorf("got %v", err)
	}
}

func TestLinksAndWhatIsNoFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links want a right of their own on Windows")
	}
	dir, other := t.TempDir(), t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(other, "target")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"not there before", "there"} {
		if err := Bytes(link, []byte(text)); err != nil || read(t, target) != text {
			t.Errorf("%q: %v", text, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link has become a file: %v %v", info, err)
	}
	if err := Bytes(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s is %v, %v", os.DevNull, info, err)
	}
	if err := Bytes(dir, nil); err == nil {
		t.Error("a directory was written")
	}
	alone(t, dir, 1)
	alone(t, other, 1)
}
