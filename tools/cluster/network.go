package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// The cluster's addresses lie in network namespaces of its own, so they can be the same
// on every machine.
const (
	nodes         = 2
	plane         = "neso-plane" // the namespace of the control plane, with the bridge
	bridgeAddress = "10.99.0.1"
	services      = "10.96.0.0/16"
	firstService  = "10.96.0.1"
	pods          = "10.244.0.0/16"

	bridgeAddress6 = "fd99::1"
	services6      = "fd99:0:0:96::/112"
	firstService6  = "fd99:0:0:96::1"
	pods6          = "fd99:1::/48"
)

func nodeName(n int) string    { return fmt.Sprintf("node%d", n) }
func namespace(n int) string   { return fmt.Sprintf("neso-node%d", n) }
func nodeAddress(n int) string { return fmt.Sprintf("10.99.0.1%d", n) }
func podRange(n int) string    { return fmt.Sprintf("10.244.%d.0/24", n) }
func cable(n int) string       { return fmt.Sprintf("to-node%d", n) }

func nodeAddress6(n int) string { return fmt.Sprintf("fd99::1%d", n) }
func podRange6(n int) string    { return fmt.Sprintf("fd99:1:0:%d::/64", n) }

// address returns the one of two by which a part of the cluster is called.
func (l layout) address(four, six string) string {
	if l.only6 {
		return six
	}
	return four
}

// planeAddress is where the API server and the names are.
func (l layout) planeAddress() string { return l.address(bridgeAddress, bridgeAddress6) }

// all returns those of the families that the cluster has, as Kubernetes takes several.
func (l layout) all(four, six string) string {
	if l.only6 {
		return six
	}
	return four + "," + six
}

// network makes the namespaces, a bridge in that of the control plane, and a cable to
// each node.
func (l layout) network() error {
	for _, line := range l.networkScript() {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	for _, ns := range namespaces() {
		c := exec.Command("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
		if err := within(ns, c.Run); err != nil {
			return fmt.Errorf("forwarding in %s: %w", ns, err)
		}
	}
	return nil
}

// networkScript is what `ip` is told for it.
func (l layout) networkScript() []string {
	var script []string
	add := func(lines ...string) { script = append(script, lines...) }
	four := func(line string) {
		if !l.only6 {
			add(line)
		}
	}
	add("netns add "+plane,
		"-n "+plane+" link set lo up",
		"-n "+plane+" link add bridge0 type bridge",
		"-n "+plane+" addr add "+bridgeAddress6+"/64 dev bridge0 nodad",
		"-n "+plane+" link set bridge0 up")
	four("-n " + plane + " addr add " + bridgeAddress + "/24 dev bridge0")
	for n := 1; n <= nodes; n++ {
		in := "-n " + namespace(n)
		add("netns add "+namespace(n),
			in+" link set lo up",
			fmt.Sprintf("-n %s link add %s type veth peer name eth0 netns %s", plane, cable(n), namespace(n)),
			fmt.Sprintf("-n %s link set %s master bridge0 up", plane, cable(n)),
			in+" addr add "+nodeAddress6(n)+"/64 dev eth0 nodad",
			in+" link set eth0 up",
			in+" route add default via "+bridgeAddress6,
			"-n "+plane+" route add "+podRange6(n)+" via "+nodeAddress6(n))
		four(in + " addr add " + nodeAddress(n) + "/24 dev eth0")
		four(in + " route add default via " + bridgeAddress)
		four("-n " + plane + " route add " + podRange(n) + " via " + nodeAddress(n))
	}
	for n := 1; n <= nodes; n++ {
		for other := 1; other <= nodes; other++ {
			if n != other {
				four("-n " + namespace(n) + " route add " + podRange(other) + " via " + nodeAddress(other))
				add("-n " + namespace(n) + " route add " + podRange6(other) + " via " + nodeAddress6(other))
			}
		}
	}
	return script
}

// plug puts a node's cable in, or out: what is sent to the node is lost then, and nobody
// is told.
func plug(n int, state string) error {
	if out, err := exec.Command("ip", "-n", plane, "link", "set", cable(n), state).CombinedOutput(); err != nil {
		return fmt.Errorf("the cable of %s: %w: %s", nodeName(n), err, out)
	}
	return nil
}

func namespaces() []string {
	all := []string{plane}
	for n := 1; n <= nodes; n++ {
		all = append(all, namespace(n))
	}
	return all
}

// within calls do on this thread in a network namespace; programs that it starts are in
// it.
func within(ns string, do func() error) error {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	if err := enter(ns); err != nil {
		return err
	}
	err = do()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return fmt.Errorf("back to the machine's network: %w", back)
	}
	return err
}

func enter(ns string) error {
	f, err := os.Open("/run/netns/" + ns)
	if err != nil {
		return fmt.Errorf("no cluster runs (make cluster-up starts one): %w", err)
	}
	defer f.Close()
	return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
}
