package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// nodeFiles writes the configuration of what runs on a node.
func (l layout) nodeFiles(n int, disk string) error {
	files := map[string]string{
		"cni/10-pods.conflist": fmt.Sprintf(cniConfig, fmt.Sprintf(`[{"subnet": %q}], `, podRange(n)), podRange6(n), `{"dst": "0.0.0.0/0"}, `),
		"containerd.toml": fmt.Sprintf(containerdConfig, pause, l.debian("usr/sbin/runc"), l.debian("usr/lib/cni"),
			filepath.Join(disk, "cni")),
		"kubelet.yaml": fmt.Sprintf(kubeletConfig, l.address(nodeAddress(n), nodeAddress6(n)), l.pki("ca.crt"),
			l.pki(nodeName(n)+".crt"), l.pki(nodeName(n)+".key"), l.planeAddress()),
		"proxy.yaml": fmt.Sprintf(proxyConfig, l.pki("proxy.conf"), l.all(pods, pods6), nodeName(n)),
	}
	if l.only6 {
		files["cni/10-pods.conflist"] = fmt.Sprintf(cniConfig, "", podRange6(n), "")
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(disk, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A cable to each pod and routes: no bridge, no masquerade, so servers see who calls.
const cniConfig = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "mtu": 1400, "ipMasq": false,
 "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [%s[{"subnet": %q}]],
 "routes": [%s{"dst": "::/0"}]}}]}
`

// restrict_oom_score_adj: where CAP_SYS_RESOURCE is missing, runc could not lower it.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "` + socket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = %q
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %q
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %q}}
authorization: {mode: Webhook}
tlsCertFile: %q
tlsPrivateKeyFile: %q
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
containerRuntimeEndpoint: unix://` + socket + `
clusterDomain: cluster.local
clusterDNS: [%q]
resolvConf: /dev/null
maxPods: 50
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, nodefs.inodesFree: 0%%, imagefs.available: 1Mi}
imageGCHighThresholdPercent: 100
oomScoreAdj: 0
localStorageCapacityIsolation: false
nodeStatusUpdateFrequency: 5s
syncFrequency: 10s
volumePluginDir: /var/lib/kubelet/plugins
podLogsDir: /var/log/pods
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %q}
mode: nftables
clusterCIDR: %q
hostnameOverride: %s
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
metricsBindAddress: 127.0.0.1:10249
`
