// Command hyper is a Kubernetes in one file: etcd, the control plane, the kubelet,
// kube-proxy, kubectl, Helm, the metrics server and the cluster's names. They share most of what they
// are made of, so one link takes the place of nine, and the disk holds it once.
//
// The first argument, or the name it is called by, says which of them it is.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	helm "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controller "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	metrics "sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

// programs maps a name to what runs it, with os.Args as that program expects them,
// and gives its exit status.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controller.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"names":                   names,
	"metrics-server": func() int {
		return cli.Run(metrics.NewMetricsServerCommand(genericapiserver.SetupSignalHandler()))
	},
	"kubectl": func() int { return told(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())) },
	"helm": func() int {
		kube.ManagedFieldsManager = "helm"
		var c *cobra.Command
		c, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
		if err == nil {
			err = c.Execute()
		}
		return told(err)
	},
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run := programs[name]
	if run == nil {
		fmt.Fprintf(os.Stderr, "hyper: the first argument must be one of %s, not %q\n",
			strings.Join(slices.Sorted(maps.Keys(programs)), ", "), name)
		os.Exit(2)
	}
	os.Exit(run())
}

// told prints err and gives the exit status that goes with it.
func told(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
