package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// group is a hierarchy of control groups: what it is mounted with (cpu,cpuacct, or
// name=systemd), and the directory of this process in it.
type group struct{ controllers, dir string }

const groupRoot = "/sys/fs/cgroup"

// groups returns the hierarchies of version 1.
func groups() ([]group, error) {
	f, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []group
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		part := strings.SplitN(lines.Text(), ":", 3)
		if len(part) != 3 || part[1] == "" {
			continue // version 2 beside them
		}
		dir := filepath.Join(groupRoot, strings.TrimPrefix(part[1], "name="))
		if _, err := os.Stat(dir); err != nil {
			continue // not mounted
		}
		all = append(all, group{part[1], filepath.Join(dir, part[2])})
	}
	return all, lines.Err()
}

// join moves this process into a control group of its own in each hierarchy.
func join(n int) error {
	all, err := groups()
	if err != nil {
		return err
	}
	for _, g := range all {
		dir := filepath.Join(g.dir, namespace(n))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if strings.Contains(g.controllers, "cpuset") {
			for _, name := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new one: nothing may run there
				text, err := os.ReadFile(filepath.Join(g.dir, name))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
				}
				if err != nil {
					return err
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "cgroup.clone_children"), []byte("1"), 0o644); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o644); err != nil {
			return fmt.Errorf("control group %s: %w", dir, err)
		}
	}
	return nil
}

// removeGroups removes those of a node whose processes have ended, children first. Where
// the node was started from another control group than ours, they are found there.
func removeGroups(n int) error {
	var dirs []string
	find := func() {
		dirs = nil
		_ = filepath.WalkDir(groupRoot, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.Contains(path+"/", "/"+namespace(n)+"/") {
				dirs = append(dirs, path)
			}
			return nil
		})
		slices.Reverse(dirs)
	}
	err := until(10*time.Second, "control groups are busy", func() bool {
		find()
		gone := true
		for _, d := range dirs {
			if err := os.Remove(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
				gone = false
			}
		}
		return gone
	})
	if err != nil {
		return fmt.Errorf("%w: %q", err, dirs)
	}
	return nil
}
