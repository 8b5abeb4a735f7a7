"""Kubernetes' own autoscaler on the chart's HPA, under load of the official clients."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from load import IMAGE, loaded
from release import ADDRESS, ONLY6, RUN, Failed, condition
from sending import Calls

PORT = 4443
NAME = "metrics-server"
GROUP = "v1beta1.metrics.k8s.io"
# As often as the metrics server can; down at once, not after five minutes.
BEHAVIOR = {
    "scaleDown": {
        "stabilizationWindowSeconds": 5,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 5}],
    }
}
PAUSE = "import signal; signal.pause()"
HPA = {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "cpuUtilization": 100, "behavior": BEHAVIOR}


def objects() -> list[dict]:
    """What leads the API server to the metrics server, which is no pod."""
    meta = {"name": NAME, "namespace": "kube-system"}
    ports = [{"name": "https", "port": PORT, "protocol": "TCP"}]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": PORT}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": meta | {"labels": {"kubernetes.io/service-name": NAME}},
            "addressType": "IPv6" if ONLY6 else "IPv4",
            "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": True}}],
            "ports": ports,
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": GROUP},
            "spec": {
                "service": {"name": NAME, "namespace": "kube-system"},
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ]


@pytest.fixture(scope="module")
def measured(whole, tmp_path_factory):
    """The cluster with Kubernetes' metrics server, on the address of node 1: the autoscaler asks it for the CPU of pods."""
    directory = tmp_path_factory.mktemp("metrics-server")
    log, conf = directory / "log", os.environ["KUBECONFIG"]
    options = {
        "kubeconfig": conf,
        "authentication-kubeconfig": conf,
        "authorization-kubeconfig": conf,
        "bind-address": ADDRESS,
        "secure-port": PORT,
        "cert-dir": directory,
        "kubelet-certificate-authority": RUN / "pki" / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "metric-resolution": "10s",
        "kubelet-request-timeout": "5s",
    }
    command = [RUN / "bin" / "hyper", NAME, *(f"--{k}={v}" for k, v in options.items())]
    whole.command("helm", "uninstall", "neso", "--ignore-not-found", "--wait")  # its replicas are not the autoscaler's
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        whole.apply(*objects())
        try:
            answers = lambda: condition(whole.get("apiservice", GROUP), "Available") == "True"  # noqa: E731
            whole.until(lambda: server.poll() is not None or answers(), "the metrics server answers")
            if server.poll() is not None:
                raise Failed("the metrics server has ended")
        except Failed as e:
            raise Failed(f"{e}\n{log.read_text()[-4000:]}") from None
        yield whole
    finally:
        whole.kubectl("delete", "apiservice", GROUP, "--ignore-not-found")
        for kind in ("endpointslice", "service"):
            whole.kubectl("-n", "kube-system", "delete", kind, NAME, "--ignore-not-found")
        server.terminate()
        server.wait(timeout=30)
        whole.command("helm", "uninstall", "neso", "--ignore-not-found", "--wait")


def test_cpu(measured, images, row):
    """The autoscaler follows the CPU that requests take, from 1 replica to 4, and back to 1"""

    def replicas(number: int) -> float:
        begun = time.monotonic()
        met = lambda: len(measured.endpoints()) == number == len(measured.pods())  # noqa: E731
        try:
            measured.until(met, f"{number} replicas", limit=180)
        except Failed as e:
            raise Failed(f"{e}\n{measured.kubectl('describe', 'hpa')}") from None
        return time.monotonic() - begun

    # Containers beside the server have no requests, as a mesh's often have none.
    beside = {"name": "beside", "image": IMAGE, "imagePullPolicy": "Never", "command": ["python3", "-c", PAUSE]}
    measured.helm(images("one"), {"hpa": HPA, "extraContainers": [beside]})
    replicas(1)
    with loaded(Calls(clients=1, pause_s=0.1)) as little:
        with loaded(Calls(clients=6, pause_s=0)) as row.load:
            up = replicas(4)
        down = replicas(1)
    row.load.clean()
    little.clean()
    row.note(f"4 ready after {up:.0f} s of load, 1 left {down:.0f} s after its end")
