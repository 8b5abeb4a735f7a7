package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// kserveModule has KServe's controller and agent, the charts that install it, and the
// entry point of its storage initializer.
const kserveModule, kserveVersion = "github.com/kserve/kserve", "v0.19.0"

// kservePrograms in the order in which they are made: who finds the last one has all.
var kservePrograms = []string{"manager", "agent"}

// kserve makes the directory kserve-VERSION in the cache: the programs, built where their
// module lies, which has replacements of modules that hold there alone, and its files.
func (l layout) kserve() error {
	dir := filepath.Join(l.cache, "kserve-"+kserveVersion)
	var missing []string
	for _, name := range append([]string{"charts", "initializer-entrypoint"}, kservePrograms...) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		fmt.Println(dir)
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(l.cache, "kserve.new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	module, err := download(work)
	if err != nil {
		return err
	}
	cache := filepath.Join(l.cache, "gocache-kserve")
	for _, name := range missing {
		part := filepath.Join(work, name)
		switch name {
		case "charts":
			err = os.CopyFS(part, os.DirFS(filepath.Join(module, name)))
		case "initializer-entrypoint":
			var text []byte
			if text, err = os.ReadFile(filepath.Join(module, "python/storage-initializer/scripts", name)); err == nil {
				err = os.WriteFile(part, text, 0o644)
			}
		default:
			err = buildKServe(module, name, part, cache)
		}
		if err == nil {
			err = os.Rename(part, filepath.Join(dir, name))
		}
		if err != nil {
			return err
		}
	}
	fmt.Println(dir)
	return os.RemoveAll(cache)
}

// buildKServe builds a program of the module. The controller takes some seven minutes of
// one processor; what both are made of, the cache has for the second.
func buildKServe(module, name, file, cache string) error {
	fmt.Printf("cluster: building KServe's %s %s from its module, once\n", name, kserveVersion)
	c := exec.Command("nice", "-n", "19", "go", "build", "-C", module, "-p", "1", "-mod=readonly", "-trimpath", "-ldflags=-s -w",
		"-gcflags=all=-dwarf=false", "-o", file, "./cmd/"+name)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOCACHE="+cache)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("building KServe's %s: %w", name, err)
	}
	return nil
}

// download returns where KServe's module lies.
func download(work string) (string, error) {
	c := exec.Command("go", "mod", "download", "-json", kserveModule+"@"+kserveVersion)
	c.Dir = work
	out, failed := c.Output()
	var m struct{ Dir, Error string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("go mod download %s: %w", kserveModule, errors.Join(failed, err))
	}
	if m.Error != "" || m.Dir == "" {
		return "", fmt.Errorf("go mod download %s: %s", kserveModule, m.Error)
	}
	return m.Dir, nil
}
