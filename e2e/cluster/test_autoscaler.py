"""Kubernetes' own autoscaler on the chart's HPA, under load of the official clients."""

from __future__ import annotations

import os
import time

import pytest
from load import IMAGE, loaded
from nodeprograms import Program, answering, options
from release import RUN, Failed
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


@pytest.fixture(scope="module")
def measured(whole, tmp_path_factory):
    """The cluster with Kubernetes' metrics server, on the address of node 1: the autoscaler asks it for the CPU of pods."""
    directory = tmp_path_factory.mktemp("metrics-server")
    given = {
        "kubeconfig": os.environ["KUBECONFIG"],
        "kubelet-certificate-authority": RUN / "pki" / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "metric-resolution": "10s",
        "kubelet-request-timeout": "5s",
    }
    command = [RUN / "bin" / "hyper", NAME, *options(PORT, directory), *(f"--{k}={v}" for k, v in given.items())]
    whole.command("helm", "uninstall", "neso", "--ignore-not-found", "--wait")  # its replicas are not the autoscaler's
    try:
        with answering(whole, Program(*command, log=directory / "log"), NAME, GROUP, PORT):
            yield whole
    finally:
        whole.command("helm", "uninstall", "neso", "--ignore-not-found", "--wait")


def replicas(cluster, number: int, limit: float, seen=str) -> float:
    """Waits until so many are ready, and no others are there; the seconds it took. A failure tells what is seen then, too."""
    begun = time.monotonic()
    met = lambda: len(cluster.endpoints()) == number == len(cluster.pods())  # noqa: E731
    try:
        cluster.until(met, f"{number} replicas", limit)
    except Failed as e:
        raise Failed(f"{e}\n{cluster.kubectl('describe', 'hpa')}\n{seen()}") from None
    return time.monotonic() - begun


def there_and_back(cluster, row, few: Calls, many: Calls, limit: float, seen=str) -> None:
    """From 1 replica to 4 while many clients send, and back to 1 when few do."""
    replicas(cluster, 1, limit, seen)
    with loaded(few) as little:
        with loaded(many) as row.load:
            up = replicas(cluster, 4, limit, seen)
        down = replicas(cluster, 1, limit, seen)
    row.load.clean()
    little.clean()
    row.note(f"4 ready after {up:.0f} s of load, 1 left {down:.0f} s after its end")


def test_cpu(measured, images, row):
    """The autoscaler follows the CPU that requests take, from 1 replica to 4, and back to 1"""

    # Containers beside the server have no requests, as a mesh's often have none.
    beside = {"name": "beside", "image": IMAGE, "imagePullPolicy": "Never", "command": ["python3", "-c", PAUSE]}
    measured.helm(images("one"), {"hpa": HPA, "extraContainers": [beside]})
    there_and_back(measured, row, few=Calls(clients=1, pause_s=0.1), many=Calls(clients=6, pause_s=0), limit=180)
