// Command cluster brings up a real Kubernetes on one Linux machine, without an image
// registry and without a daemon: the control plane and two nodes with containerd, each
// in namespaces of its own, from Go modules and Debian's packages. For tests and for
// development; it needs root. docs/internals/cluster.md tells how it is used.
//
// Open up.go first; node.go is what runs as the first process of a node.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const usage = `usage: cluster COMMAND

  up [--ipv6]          bring the cluster up, of IPv4 and IPv6 or of IPv6 alone; one that runs stays
  down                 end it, with all that it has made on this machine but its logs
  status               what runs, and where it lies
  tools                build and download what up needs, and no more
  kserve               build KServe's controller and agent, for the tests; prints the directory that has them, with its charts
  scalers              build the adapter of Prometheus' metrics and KEDA, and download Prometheus, for the tests; prints their directories
  load FILE...         image archives (of make images, neso image build, docker save) into both nodes
  client COMMAND...    run a command on node 1's network, with the cluster's names, kubectl and helm
  kubectl, helm ...    these, with this cluster's configuration
  kill-node N          end node N at once, as a power cut does
  start-node N         start a node that was ended, with the disk that it had

It keeps what it builds and downloads in $NESO_CLUSTER_CACHE, default ~/.cache/neso-cluster.
`

func init() {
	// What is entered (namespaces) is entered by one thread; all programs are started
	// from it.
	runtime.LockOSThread()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		fmt.Print(usage)
		return nil
	}
	if args[0] == "pause" { // the first process of each pod
		hold()
		return nil
	}
	l, err := newLayout()
	if err != nil {
		return err
	}
	command, rest := args[0], args[1:]
	switch command {
	case "tools":
		return l.prepare()
	case "kserve":
		return l.project(kserveProject)
	case "scalers":
		return l.scale()
	}
	if err := possible(); err != nil {
		return err
	}
	switch command {
	case "up":
		if len(rest) > 1 || len(rest) == 1 && rest[0] != "--ipv6" {
			return fmt.Errorf("up: expected nothing or --ipv6, got %q", rest)
		}
		return l.up(len(rest) == 1)
	case "down":
		return l.down()
	case "status":
		return l.status()
	case "load":
		return l.load(rest)
	case "client":
		return l.client(rest)
	case "kubectl", "helm":
		return l.client(args)
	case "kill-node", "start-node":
		n, err := nodeNumber(rest)
		if err != nil {
			return err
		}
		if command == "kill-node" {
			return l.killNode(n)
		}
		return l.startNode(n)
	case "node": // what startNode starts
		n, err := nodeNumber(rest[:min(1, len(rest))])
		if err != nil {
			return err
		}
		return l.node(n, len(rest) > 1)
	}
	return fmt.Errorf("unknown command %q; cluster help lists them", command)
}

// possible says what this machine lacks.
func possible() error {
	if os.Geteuid() != 0 {
		return errors.New("needs root: it makes network interfaces, mounts and control groups (in namespaces of its own)")
	}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		return errors.New("needs control groups of version 1 in /sys/fs/cgroup, with the memory controller; this machine has none " +
			"(on a machine of your own: start the kernel with systemd.unified_cgroup_hierarchy=0)")
	}
	return nil
}

func nodeNumber(args []string) (int, error) {
	if len(args) == 1 && (args[0] == "1" || args[0] == "2") {
		return int(args[0][0] - '0'), nil
	}
	return 0, fmt.Errorf("expected the number of a node, 1 or 2, got %q", args)
}

// layout says where things lie.
type layout struct {
	cache   string // what is kept: programs, packages
	run     string // the cluster that runs, removed by down
	log     string // outlives the cluster, until the next up
	sources string // of this module: hyper is built from it
	only6   bool   // the cluster has no IPv4
}

func newLayout() (layout, error) {
	cache := os.Getenv("NESO_CLUSTER_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return layout{}, err
		}
		cache = filepath.Join(home, ".cache", "neso-cluster")
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return layout{}, err
	}
	sources := os.Getenv("NESO_CLUSTER_SOURCES")
	if sources == "" {
		sources = "tools/cluster"
	}
	sources, err = filepath.Abs(sources)
	l := layout{cache: cache, run: filepath.Join(cache, "run"), log: filepath.Join(cache, "log"), sources: sources}
	_, none := os.Stat(l.only6File())
	l.only6 = none == nil
	return l, err
}

func (l layout) pki(name string) string    { return filepath.Join(l.run, "pki", name) }
func (l layout) hyper() string             { return filepath.Join(l.run, "bin", "hyper") }
func (l layout) debian(name string) string { return filepath.Join(l.run, "debian", name) }
