package library

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// siteCache holds the module search path of interpreters: asking one costs
// tens of milliseconds, and it does not change while a server runs.
var siteCache struct {
	mu   sync.Mutex
	dirs map[string][]string
}

// PackageHas reports whether the packages of the interpreter have a file or
// directory that matches the pattern, a path with slashes below site-packages.
func PackageHas(python func() (string, error), pattern string) bool {
	interpreter, err := python()
	if err != nil {
		return false
	}
	dirs, err := sitePackages(interpreter)
	if err != nil {
		return false
	}
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(globQuote(dir), filepath.FromSlash(pattern)))
		if err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// sitePackages returns the directories in which the interpreter finds packages.
func sitePackages(interpreter string) ([]string, error) {
	siteCache.mu.Lock()
	defer siteCache.mu.Unlock()
	if dirs, ok := siteCache.dirs[interpreter]; ok {
		return dirs, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "-c", `import sys; print("\n".join(p for p in sys.path if p))`)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("the interpreter does not run: %w", err)
	}
	var dirs []string
	for line := range strings.Lines(string(out)) {
		if dir := strings.TrimSpace(line); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	if siteCache.dirs == nil {
		siteCache.dirs = map[string][]string{}
	}
	siteCache.dirs[interpreter] = dirs
	return dirs, nil
}
