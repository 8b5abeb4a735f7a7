package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// up brings the cluster up. What is left of one that has ended, or has half come up, is
// removed first; what fails on the way is taken down again.
func (l layout) up(only6 bool) error {
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	hyper, err := l.buildHyper()
	if err != nil {
		return err
	}
	debian, err := l.unpackDebian(packages...)
	if err != nil {
		return err
	}
	if l.whole() {
		if l.only6 != only6 {
			return errors.New("the cluster that runs has other families of addresses (IPv6 alone, or both): end it first, make cluster-down")
		}
		fmt.Println("cluster: runs already")
		return nil
	}
	l.only6 = only6
	if err := l.remove(); err != nil {
		return err
	}
	begun := time.Now()
	if err := l.bringUp(hyper, debian); err != nil {
		if down := l.remove(); down != nil {
			err = errors.Join(err, down)
		}
		return fmt.Errorf("%w (logs: %s)", err, l.log)
	}
	fmt.Printf("cluster: two nodes are ready after %.0f s; make cluster-down ends them\n", time.Since(begun).Seconds())
	return nil
}

// lock keeps two commands from making or removing the cluster at the same time.
func (l layout) lock() (func(), error) {
	if err := os.MkdirAll(l.cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(l.cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errors.New("another cluster command is at work (it holds " + f.Name() + ")")
	}
	return func() { _ = f.Close() }, nil
}

func (l layout) bringUp(hyper, debian string) error {
	if err := os.RemoveAll(l.log); err != nil {
		return err
	}
	for _, d := range []string{l.log, filepath.Join(l.run, "bin"), filepath.Join(l.run, "pid")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if l.only6 {
		if err := os.WriteFile(l.only6File(), nil, 0o644); err != nil {
			return err
		}
	}
	links := map[string]string{hyper: l.hyper(), debian: filepath.Join(l.run, "debian")}
	for to, link := range links {
		if err := os.Symlink(to, link); err != nil {
			return err
		}
	}
	for _, name := range []string{"kubectl", "helm"} {
		if err := os.Symlink("hyper", filepath.Join(l.run, "bin", name)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(l.resolver(), []byte("nameserver "+l.planeAddress()+"\noptions ndots:1\n"), 0o644); err != nil {
		return err
	}
	for _, step := range []func() error{l.certificates, l.network, l.controlPlane} {
		if err := step(); err != nil {
			return err
		}
	}
	for n := 1; n <= nodes; n++ {
		if err := l.startNode(n); err != nil {
			return err
		}
	}
	if err := until(2*time.Minute, "the nodes are not ready", func() bool { return l.readyNodes() == nodes }); err != nil {
		return err
	}
	return l.loadPause()
}

// only6File lies there while the cluster has IPv6 alone: other commands read it.
func (l layout) only6File() string { return filepath.Join(l.run, "ipv6-only") }

func (l layout) resolver() string { return filepath.Join(l.run, "resolv.conf") }

// whole says whether all processes of the cluster live. That a node is ready is the
// control plane's to say, not ours: a test may have ended it.
func (l layout) whole() bool {
	for _, name := range planeProcesses {
		if l.alive(name) == 0 {
			return false
		}
	}
	for n := 1; n <= nodes; n++ {
		if l.alive(nodeName(n)) == 0 {
			return false
		}
	}
	return true
}

// kubectl calls the API server and returns what it printed.
func (l layout) kubectl(args ...string) (string, error) {
	var out, fault bytes.Buffer
	err := within(plane, func() error {
		c := exec.Command(l.hyper(), append([]string{"kubectl", "--kubeconfig=" + l.pki("admin.conf")}, args...)...)
		c.Stdout, c.Stderr = &out, &fault
		return c.Run()
	})
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(fault.String()))
	}
	return out.String(), nil
}

func (l layout) readyNodes() int {
	out, err := l.kubectl("get", "nodes", `-o=jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
	if err != nil {
		return 0
	}
	return strings.Count(out, "True")
}

func (l layout) status() error {
	for _, name := range append([]string{nodeName(1), nodeName(2)}, planeProcesses...) {
		if pid := l.alive(name); pid != 0 {
			fmt.Printf("%-12s process %d\n", name, pid)
		} else {
			fmt.Printf("%-12s does not run\n", name)
		}
	}
	fmt.Println("configuration", l.pki("admin.conf"))
	fmt.Println("logs         ", l.log)
	return nil
}

// down ends the cluster.
func (l layout) down() error {
	unlock, err := l.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return l.remove()
}

// remove ends all processes of the cluster and removes what it has made: namespaces
// (with them the bridge and the cables), control groups, files. It goes on after a
// failure, and is safe to call again.
func (l layout) remove() error {
	var faults []error
	for n := 1; n <= nodes; n++ {
		faults = append(faults, l.end(nodeName(n)))
	}
	for _, name := range planeProcesses {
		faults = append(faults, l.end(name))
	}
	for _, ns := range namespaces() {
		if _, err := os.Lstat("/run/netns/" + ns); err != nil {
			continue
		}
		if out, err := exec.Command("ip", "netns", "delete", ns).CombinedOutput(); err != nil {
			faults = append(faults, fmt.Errorf("ip netns delete %s: %w: %s", ns, err, out))
		}
	}
	for n := 1; n <= nodes; n++ {
		faults = append(faults, removeGroups(n))
	}
	return errors.Join(append(faults, os.RemoveAll(l.run))...)
}
