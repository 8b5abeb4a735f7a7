package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A project is one of others, whose programs the tests run. They are built where its
// module lies, which has replacements of modules that hold there alone.
type project struct {
	name, module, version string
	programs              []program // in the order in which they are made: who finds the last one has all
	files                 []string  // files and directories of the module, kept by their last name
	plain                 bool      // without the optimizer: half the time of building, for programs that have little to do
}

type program struct{ name, from string }

var kserveProject = project{
	name: "kserve", module: "github.com/kserve/kserve", version: "v0.19.0",
	programs: []program{{"manager", "./cmd/manager"}, {"agent", "./cmd/agent"}},
	files:    []string{"charts", "python/storage-initializer/scripts/initializer-entrypoint"},
}

// scalers scale by metrics: through the adapter Kubernetes' own autoscaler has those of
// Prometheus, and KEDA has autoscalers of its own made for its triggers.
var scalers = []project{
	{
		name: "prometheus-adapter", module: "sigs.k8s.io/prometheus-adapter", version: "v0.12.0",
		programs: []program{{"prometheus-adapter", "./cmd/adapter"}}, plain: true,
	},
	{
		name: "keda", module: "github.com/kedacore/keda/v2", version: "v2.21.0",
		programs: []program{{"keda-operator", "./cmd/operator"}, {"keda-adapter", "./cmd/adapter"}},
		files:    []string{"config/crd"}, plain: true,
	},
}

// scale makes all that the tests of autoscalers need.
func (l layout) scale() error {
	dir, err := l.unpackDebian("prometheus")
	if err != nil {
		return err
	}
	fmt.Println(dir)
	for _, p := range scalers {
		if err := l.project(p); err != nil {
			return err
		}
	}
	return nil
}

// project makes the directory NAME-VERSION in the cache: the programs and the files.
func (l layout) project(p project) error {
	dir := filepath.Join(l.cache, p.name+"-"+p.version)
	missing := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err != nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(l.cache, p.name+".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	module := ""
	// have has one of the parts made, unless it is there.
	have := func(name string, fill func(part string) error) error {
		if !missing(name) {
			return nil
		}
		if module == "" {
			if module, err = p.download(work); err != nil {
				return err
			}
		}
		part := filepath.Join(work, name)
		if err := fill(part); err != nil {
			return err
		}
		return os.Rename(part, filepath.Join(dir, name))
	}
	for _, f := range p.files {
		if err := have(filepath.Base(f), func(part string) error { return duplicate(filepath.Join(module, f), part) }); err != nil {
			return err
		}
	}
	cache := filepath.Join(l.cache, "gocache-"+p.name)
	for _, g := range p.programs {
		if err := have(g.name, func(part string) error { return p.build(module, g, part, cache) }); err != nil {
			return err
		}
	}
	fmt.Println(dir)
	return os.RemoveAll(cache)
}

// duplicate copies a file or a directory. What a module has cannot be written to; the copy can.
func duplicate(from, to string) error {
	about, err := os.Stat(from)
	if err != nil {
		return err
	}
	if about.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// build makes a program. KServe's controller takes some seven minutes of one processor,
// KEDA's two up to an hour; what both are made of, the cache has for the second.
func (p project) build(module string, g program, file, cache string) error {
	fmt.Printf("cluster: building %s of %s %s, once\n", g.name, p.module, p.version)
	flags := "all=-dwarf=false"
	if p.plain {
		flags = "all=-N -l -dwarf=false"
	}
	c := exec.Command("nice", "-n", "19", "go", "build", "-C", module, "-p", "1", "-mod=readonly", "-trimpath", "-ldflags=-s -w",
		"-gcflags="+flags, "-o", file, g.from)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOCACHE="+cache)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("building %s of %s: %w", g.name, p.module, err)
	}
	return nil
}

// download returns where the module lies.
func (p project) download(work string) (string, error) {
	c := exec.Command("go", "mod", "download", "-json", p.module+"@"+p.version)
	c.Dir = work
	out, failed := c.Output()
	var m struct{ Dir, Error string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", fmt.Errorf("go mod download %s: %w", p.module, errors.Join(failed, err))
	}
	if m.Error != "" || m.Dir == "" {
		return "", fmt.Errorf("go mod download %s: %s", p.module, m.Error)
	}
	return m.Dir, nil
}
