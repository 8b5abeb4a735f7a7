package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// client becomes a command on the network of node 1, where Services are reached. The
// cluster's names are resolved in a mount namespace of its own.
func (l layout) client(command []string) error {
	if len(command) == 0 {
		return errors.New("client: expected a command")
	}
	path := filepath.Join(l.run, "bin") + ":" + os.Getenv("PATH")
	if err := errors.Join(os.Setenv("PATH", path), os.Setenv("KUBECONFIG", l.pki("admin.conf"))); err != nil {
		return err
	}
	if err := enter(namespace(1)); err != nil {
		return err
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	resolver, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return err
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(l.resolver(), resolver, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("the cluster's names: %w", err)
	}
	return unix.Exec(program, command, os.Environ())
}

// load imports archives of images into both nodes.
func (l layout) load(files []string) error {
	if len(files) == 0 {
		return errors.New("load: expected archives of images, such as build/images/neso-amd64.tar")
	}
	for _, f := range files {
		file, err := filepath.Abs(f)
		if err != nil {
			return err
		}
		if _, err := os.Stat(file); err != nil {
			return err
		}
		for n := 1; n <= nodes; n++ {
			pid := l.alive(nodeName(n))
			if pid == 0 {
				return fmt.Errorf("%s does not run (make cluster-up)", nodeName(n))
			}
			c := exec.Command("nsenter", "-t", fmt.Sprint(pid), "-m", "-n", "-p",
				l.debian("usr/bin/ctr"), "-a", socket, "-n", "k8s.io", "images", "import", file)
			out, err := c.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: image %s: %w: %s", nodeName(n), file, err, out)
			}
			fmt.Printf("cluster: %s: %s\n", nodeName(n), strings.TrimSpace(string(out)))
		}
	}
	return nil
}
