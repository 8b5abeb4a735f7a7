package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// start starts a program of the cluster that outlives this one, with a log, and notes
// which process it is.
func (l layout) start(name string, c *exec.Cmd) error {
	log, err := os.OpenFile(filepath.Join(l.log, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setsid = true
	if err := c.Start(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	born, err := bornAt(c.Process.Pid)
	if err != nil {
		return fmt.Errorf("%s ended at once; %s says why", name, log.Name())
	}
	return os.WriteFile(l.pidFile(name), fmt.Appendf(nil, "%d %s\n", c.Process.Pid, born), 0o644)
}

func (l layout) pidFile(name string) string { return filepath.Join(l.run, "pid", name) }

// alive returns the process that start has started under a name, 0 if it has ended. A
// number that another process has by now does not count.
func (l layout) alive(name string) int {
	text, err := os.ReadFile(l.pidFile(name))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text))
	if len(f) != 2 {
		return 0
	}
	pid, err := strconv.Atoi(f[0])
	if err != nil || pid <= 1 {
		return 0
	}
	if born, err := bornAt(pid); err != nil || born != f[1] {
		return 0
	}
	return pid
}

// bornAt is when a process began, in ticks since the machine's start, unless it has
// ended and only waits to be asked.
func bornAt(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before may have anything in it
	f := strings.Fields(rest)
	if len(f) < 20 || f[0] == "Z" {
		return "", errors.New("has ended")
	}
	return f[19], nil
}

// end kills a process of the cluster and waits until it is gone.
func (l layout) end(name string) error {
	pid := l.alive(name)
	if pid == 0 {
		return nil
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	return until(30*time.Second, name+" does not end", func() bool { return l.alive(name) == 0 })
}

// until waits for a condition.
func until(most time.Duration, fault string, met func() bool) error {
	for deadline := time.Now().Add(most); !met(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("%s, after %s", fault, most)
		}
	}
	return nil
}
