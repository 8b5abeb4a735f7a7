package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// lock says which packages images are made of, so that one commit gives one image.
type lock struct {
	packages map[string]locking // by architecture and name
}

// locking is what the lock says of a package.
type locking struct{ version, sha256 string }

// readLock reads lines of architecture, name, version and SHA-256.
func readLock(file string) (*lock, error) {
	l := &lock{packages: map[string]locking{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case len(fields) == 4:
			l.set(fields[0], fields[1], locking{version: fields[2], sha256: fields[3]})
		default:
			return nil, fmt.Errorf("%s:%d: expected architecture, package, version and SHA-256, got %q", file, number, lines.Text())
		}
	}
	return l, lines.Err()
}

func (l *lock) at(architecture, name string) locking { return l.packages[architecture+" "+name] }

func (l *lock) set(architecture, name string, to locking) { l.packages[architecture+" "+name] = to }

// write writes the lock, in the order of names.
func (l *lock) write(file string) error {
	var b strings.Builder
	b.WriteString("# Debian's packages in the images: architecture, package, version, SHA-256. Written by `make images UPDATE=1`.\n")
	for _, key := range slices.Sorted(maps.Keys(l.packages)) {
		fmt.Fprintf(&b, "%s %s %s\n", key, l.packages[key].version, l.packages[key].sha256)
	}
	return os.WriteFile(file, []byte(b.String()), 0o644) //nolint:gosec // for everybody
}
