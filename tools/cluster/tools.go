package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// packages are Debian's, unpacked beside the system, not installed in it.
var packages = []string{
	"containerd", "runc", "containernetworking-plugins", "nftables", "libnftables1", "libnftnl11", "libmnl0", "libjansson4",
	"libxtables12", "libseccomp2", "conntrack", "libnetfilter-conntrack3", "libnfnetlink0",
}

// prepare builds and downloads what is not in the cache.
func (l layout) prepare() error {
	if _, err := l.buildHyper(); err != nil {
		return err
	}
	_, err := l.unpackDebian(packages...)
	return err
}

// buildHyper returns the program of that name. It takes some twenty minutes of one
// processor to build, so it is kept by what it is built from; Go's own cache of it,
// 4 GB, is removed.
func (l layout) buildHyper() (string, error) {
	key, err := l.hyperKey()
	if err != nil {
		return "", err
	}
	file := filepath.Join(l.cache, "hyper-"+key)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(l.cache, 0o755); err != nil {
		return "", err
	}
	version, err := l.kubernetes()
	if err != nil {
		return "", err
	}
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	const at = " -X k8s.io/component-base/version."
	fmt.Println("cluster: building Kubernetes", version, "from its modules: some twenty minutes of one processor, once")
	cache := filepath.Join(l.cache, "gocache")
	c := exec.Command("nice", "-n", "19", "go", "build", "-p", "1", "-o", file+".new",
		"-ldflags", "-s -w"+at+"gitVersion="+version+at+"gitMajor="+major+at+"gitMinor="+minor, "./hyper")
	c.Dir = l.sources
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOCACHE="+cache, "GOFLAGS=-trimpath -gcflags=all=-dwarf=false -mod=readonly")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("building hyper: %w", err)
	}
	old, _ := filepath.Glob(filepath.Join(l.cache, "hyper-*"))
	for _, o := range old {
		if o != file+".new" {
			_ = os.Remove(o)
		}
	}
	if err := os.Rename(file+".new", file); err != nil {
		return "", err
	}
	return file, os.RemoveAll(cache)
}

// hyperKey is of all that hyper is made from.
func (l layout) hyperKey() (string, error) {
	version, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	files, _ := filepath.Glob(filepath.Join(l.sources, "hyper", "*.go"))
	files = append(files, filepath.Join(l.sources, "go.mod"), filepath.Join(l.sources, "go.sum"))
	slices.Sort(files)
	sum := sha256.New()
	sum.Write(version)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", fmt.Errorf("the sources of tools/cluster, from which hyper is built (run this in the top directory of the checkout): %w", err)
		}
		fmt.Fprintln(sum, filepath.Base(f), len(text))
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:16], nil
}

// kubernetes is the version that go.mod has, such as v1.37.1.
func (l layout) kubernetes() (string, error) {
	text, err := os.ReadFile(filepath.Join(l.sources, "go.mod"))
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v[0-9]+\.[0-9]+\.[0-9]+)$`).FindSubmatch(text)
	if m == nil {
		return "", errors.New("go.mod requires no release of k8s.io/kubernetes")
	}
	return string(m[1]), nil
}

// unpackDebian returns the directory of Debian's packages of these names.
func (l layout) unpackDebian(packages ...string) (string, error) {
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(packages, " "))))[:16]
	dir := filepath.Join(l.cache, "debian-"+key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", errors.New("containerd and runc are taken from Debian's packages, and this machine has no apt-get")
	}
	if err := os.MkdirAll(l.cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(l.cache, "debian.new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	fmt.Println("cluster: downloading", strings.Join(packages, ", "))
	args := []string{"-qq", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download"}
	c := exec.Command("apt-get", append(args, packages...)...)
	c.Dir = work
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("apt-get download (apt-get update may help): %w\n%s", err, out)
	}
	files, _ := filepath.Glob(filepath.Join(work, "*.deb"))
	root := filepath.Join(work, "root")
	for _, f := range files {
		if out, err := exec.Command("dpkg", "-x", f, root).CombinedOutput(); err != nil {
			return "", fmt.Errorf("dpkg -x %s: %w\n%s", f, err, out)
		}
	}
	return dir, os.Rename(root, dir)
}
