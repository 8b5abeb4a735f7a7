package main

import (
	"net"
	"os/exec"
	"time"
)

// controlPlane starts etcd, the API server and what runs beside it, on the bridge's
// address.
func (l layout) controlPlane() error {
	if err := l.inPlane("etcd", "etcd", "--data-dir="+l.run+"/etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
		"--listen-peer-urls=http://127.0.0.1:2380"); err != nil {
		return err
	}
	if err := l.inPlane("apiserver", "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
		"--advertise-address="+l.planeAddress(), "--bind-address="+l.address("0.0.0.0", "::"), "--secure-port=6443",
		"--tls-cert-file="+l.pki("apiserver.crt"), "--tls-private-key-file="+l.pki("apiserver.key"), "--client-ca-file="+l.pki("ca.crt"),
		"--kubelet-client-certificate="+l.pki("admin.crt"), "--kubelet-client-key="+l.pki("admin.key"),
		"--kubelet-certificate-authority="+l.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file="+l.pki("ca.crt"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file="+l.pki("front.crt"), "--proxy-client-key-file="+l.pki("front.key"), "--enable-aggregator-routing=true",
		"--service-account-key-file="+l.pki("accounts.crt"), "--service-account-signing-key-file="+l.pki("accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range="+l.all(services, services6),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true"); err != nil {
		return err
	}
	if err := within(plane, l.awaitAPI); err != nil {
		return err
	}
	if err := l.inPlane("controller", "kube-controller-manager", "--kubeconfig="+l.pki("controller.conf"),
		"--authentication-kubeconfig="+l.pki("controller.conf"), "--authorization-kubeconfig="+l.pki("controller.conf"),
		"--root-ca-file="+l.pki("ca.crt"), "--service-account-private-key-file="+l.pki("accounts.key"), "--use-service-account-credentials=true",
		"--cluster-signing-cert-file="+l.pki("ca.crt"), "--cluster-signing-key-file="+l.pki("ca.key"),
		"--allocate-node-cidrs=false", "--leader-elect=false", "--node-monitor-grace-period=20s",
		"--horizontal-pod-autoscaler-sync-period=5s", "--horizontal-pod-autoscaler-downscale-stabilization=10s"); err != nil {
		return err
	}
	if err := l.inPlane("scheduler", "kube-scheduler", "--kubeconfig="+l.pki("scheduler.conf"), "--leader-elect=false",
		"--authentication-kubeconfig="+l.pki("scheduler.conf"), "--authorization-kubeconfig="+l.pki("scheduler.conf")); err != nil {
		return err
	}
	return l.inPlane("names", "names", "--address="+net.JoinHostPort(l.planeAddress(), "53"), "--kubeconfig="+l.pki("admin.conf"))
}

// planeProcesses in the order in which they end.
var planeProcesses = []string{"names", "scheduler", "controller", "apiserver", "etcd"}

// inPlane starts one of hyper's programs in the namespace of the control plane.
func (l layout) inPlane(name string, args ...string) error {
	return within(plane, func() error {
		c := exec.Command(l.hyper(), args...)
		c.Dir = l.run
		return l.start(name, c)
	})
}

// awaitAPI returns when the API server says that it is ready.
func (l layout) awaitAPI() error {
	return until(2*time.Minute, "the API server is not ready ("+l.log+"/apiserver.log)", func() bool {
		out, err := exec.Command(l.hyper(), "kubectl", "--kubeconfig="+l.pki("admin.conf"), "get", "--raw=/readyz").Output()
		return err == nil && string(out) == "ok"
	})
}
