package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const socket = "/run/containerd/containerd.sock"

// startNode starts a node: its first process, in namespaces of its own. With that
// process ends all that runs on the node.
func (l layout) startNode(n int) error {
	if l.alive(nodeName(n)) != 0 {
		return fmt.Errorf("%s runs", nodeName(n))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := plug(n, "up"); err != nil {
		return err
	}
	return within(namespace(n), func() error {
		c := exec.Command(self, "node", fmt.Sprint(n))
		c.Dir = "/"
		c.Env = append(os.Environ(), "NESO_CLUSTER_CACHE="+l.cache, "NESO_CLUSTER_SOURCES="+l.sources)
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID}
		return l.start(nodeName(n), c)
	})
}

// killNode ends a node as a power cut does: nobody on it can say goodbye.
func (l layout) killNode(n int) error {
	if l.alive(nodeName(n)) == 0 {
		return fmt.Errorf("%s does not run", nodeName(n))
	}
	// Its network outlives it, and would say to who calls that nobody is there.
	if err := plug(n, "down"); err != nil {
		return err
	}
	if err := l.end(nodeName(n)); err != nil {
		return err
	}
	// The pods' cables have ends in the node's network, which outlives it.
	out, err := exec.Command("ip", "-n", namespace(n), "-o", "link", "show", "type", "veth").Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if name, _, _ := strings.Cut(strings.TrimSuffix(f[1], ":"), "@"); name != "eth0" {
			_ = exec.Command("ip", "-n", namespace(n), "link", "delete", name).Run()
		}
	}
	return removeGroups(n)
}

// node is the first process of a node. It runs twice: the first time it joins its
// control groups, so that their namespace, which the second has, begins there.
func (l layout) node(n int, inside bool) error {
	if !inside {
		if err := join(n); err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return unix.Exec(self, append(os.Args, "inside"), os.Environ())
	}
	disk := filepath.Join(l.run, nodeName(n))
	if err := l.nodeMounts(n, disk); err != nil {
		return err
	}
	if err := l.nodeFiles(n, disk); err != nil {
		return err
	}
	return l.nodeRun(n, disk)
}

// nodeMounts makes the file system of a node: that of the machine, with some places of
// its own.
func (l layout) nodeMounts(n int, disk string) error {
	all, err := groups()
	if err != nil {
		return err
	}
	for _, d := range []string{"lib/kubelet", "lib/containerd", "log", "sysctl", "cni"} {
		if err := os.MkdirAll(filepath.Join(disk, d), 0o755); err != nil {
			return err
		}
	}
	mount := func(source, target, kind string, flags uintptr, data string) {
		if err == nil {
			if err = unix.Mount(source, target, kind, flags, data); err != nil {
				err = fmt.Errorf("mount %s on %s: %w", source, target, err)
			}
		}
	}
	mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	mount("proc", "/proc", "proc", 0, "")
	mount("sysfs", "/sys", "sysfs", 0, "")
	mount("tmpfs", groupRoot, "tmpfs", 0, "")
	for _, g := range all {
		dir := filepath.Join(groupRoot, strings.TrimPrefix(g.controllers, "name="))
		if err == nil {
			err = os.Mkdir(dir, 0o755)
		}
		data := g.controllers
		if strings.HasPrefix(data, "name=") {
			data = "none," + data
		}
		mount("cgroup", dir, "cgroup", 0, data)
		for c := range strings.SplitSeq(g.controllers, ",") {
			if err == nil && strings.Contains(g.controllers, ",") {
				err = os.Symlink(g.controllers, filepath.Join(groupRoot, c))
			}
		}
	}
	mount("tmpfs", "/run", "tmpfs", 0, "")
	mount(filepath.Join(disk, "lib"), "/var/lib", "", unix.MS_BIND, "")
	mount(filepath.Join(disk, "log"), "/var/log", "", unix.MS_BIND, "")
	// These the kubelet would set in the kernel of the whole machine: it finds them set.
	for name, value := range map[string]string{"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"} {
		file := filepath.Join(disk, "sysctl", filepath.Base(name))
		if err == nil {
			err = os.WriteFile(file, []byte(value+"\n"), 0o644)
		}
		mount(file, "/proc/sys/"+name, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = unix.Sethostname([]byte(nodeName(n)))
	}
	return err
}

// nodeRun starts what runs on a node and, as its first process, takes in what has lost
// its parent. It ends when a part of it ends.
func (l layout) nodeRun(n int, disk string) error {
	path := strings.Join([]string{l.debian("usr/bin"), l.debian("usr/sbin"), os.Getenv("PATH")}, ":")
	environment := append(os.Environ(), "PATH="+path, "LD_LIBRARY_PATH="+l.debian("usr/lib/x86_64-linux-gnu"))
	start := func(name, program string, args ...string) (int, error) {
		log, err := os.OpenFile(filepath.Join(l.log, fmt.Sprintf("%s-%s.log", nodeName(n), name)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return 0, err
		}
		defer log.Close()
		c := exec.Command(program, args...)
		c.Env, c.Stdout, c.Stderr = environment, log, log
		if err := c.Start(); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return c.Process.Pid, nil
	}
	parts := map[int]string{}
	add := func(name, program string, args ...string) error {
		pid, err := start(name, program, args...)
		parts[pid] = name
		return err
	}
	if err := add("containerd", l.debian("usr/bin/containerd"), "--config", filepath.Join(disk, "containerd.toml")); err != nil {
		return err
	}
	if err := until(time.Minute, "containerd has no socket", func() bool {
		_, err := os.Stat(socket)
		return err == nil
	}); err != nil {
		return err
	}
	if err := add("kubelet", l.hyper(), "kubelet", "--config="+filepath.Join(disk, "kubelet.yaml"), "--kubeconfig="+l.pki(nodeName(n)+".conf"),
		"--hostname-override="+nodeName(n), "--node-ip="+l.all(nodeAddress(n), nodeAddress6(n)), "--root-dir=/var/lib/kubelet"); err != nil {
		return err
	}
	if err := add("proxy", l.hyper(), "kube-proxy", "--config="+filepath.Join(disk, "proxy.yaml")); err != nil {
		return err
	}
	return reap(parts)
}

// reap waits for all children until one of parts has ended, or SIGTERM comes.
func reap(parts map[int]string) error {
	ended := make(chan error, 1)
	go func() {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, 0, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				ended <- err
				return
			}
			if name := parts[pid]; name != "" {
				ended <- fmt.Errorf("%s has ended with %v", name, status)
				return
			}
		}
	}()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	select {
	case err := <-ended:
		return err
	case <-stop:
		return nil
	}
}
