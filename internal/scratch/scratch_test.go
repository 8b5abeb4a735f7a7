//go:build unix

package scratch

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, err := Make("neso-a-")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := Make("neso-a-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead.Path, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = dead.lock.Close() // as the end of its process does
	other := func(name string, mode os.FileMode, withLock bool) string {
		path := filepath.Join(os.TempDir(), name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if withLock {
			if err := os.WriteFile(filepath.Join(path, lockName), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kept := []string{
		held.Path,
		other("neso-a-unlocked", 0o700, false),
		other("neso-a-public", 0o777, true),
		other("neso-b-other", 0o700, true),
	}
	target := other("target", 0o700, true)
	link := filepath.Join(os.TempDir(), "neso-a-link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, target, link)

	last, err := Make("neso-a-")
	if err != nil {
		t.Fatal(err)
	}
	if exists(dead.Path) {
		t.Error("the directory of a dead process stays")
	}
	for _, path := range kept {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	for _, d := range []*Dir{held, last} {
		if err := d.Remove(); err != nil || exists(d.Path) {
			t.Errorf("Remove: %v", err)
		}
	}
}

// Who sweeps may find a directory before its maker has locked it: that one makes another.
func TestMakeWhileAnotherSweeps(t *testing.T) {
	parent := t.TempDir()
	for range 300 {
		var sweeper sync.WaitGroup
		sweeper.Go(func() {
			for range attempts - 1 {
				sweep(parent, "neso-a-")
			}
		})
		d, err := MakeIn(parent, "neso-a-")
		sweeper.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if !exists(d.Path) {
			t.Fatal("a directory whose process lives has been removed")
		}
		if err := d.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNoPlace(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	if _, err := Make("neso-a-"); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("got %v", err)
	}
}
