"""Autoscalers that follow the server's own metrics, under load of the official clients: Kubernetes' through an adapter, and KEDA."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import trustme
from load import loaded
from nodeprograms import Program, answering, options
from release import ADDRESS, HERE, RUN, condition
from sending import Calls
from server import ROOT
from test_autoscaler import BEHAVIOR, replicas, there_and_back
from watching import PORT, Targets, ask, found, prometheus

CUSTOM, EXTERNAL = "v1beta1.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"
SLOW = '''"""Doubles its input, and takes its time: requests are in hand while processors are idle."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.2)
        arrays = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", a * 2)]) for a in arrays]
'''
KEDA = {"WATCH_NAMESPACE": "", "POD_NAMESPACE": "kube-system", "KEDA_CLUSTER_OBJECT_NAMESPACE": "kube-system"}
EACH = 3  # requests in hand of each replica that the autoscalers are to have
MANY, FEW = Calls(clients=9, pause_s=0), Calls(clients=1, pause_s=0.2)


def program(name: str) -> Path:
    """One that `make scalers` has built; without it the test is skipped."""
    file = next(RUN.parent.glob(f"*/{name}"), None)
    return file or pytest.skip("make scalers builds the autoscalers")


def lister() -> str:
    """How an adapter finds the API server: outside a pod it is told."""
    return f"--lister-kubeconfig={os.environ['KUBECONFIG']}"


pytestmark = pytest.mark.skipif(not found(), reason="make scalers downloads Prometheus")


@pytest.fixture(scope="module")
def slow(images, tmp_path_factory):
    """The chart's values for an image whose model takes a fifth of a second."""
    models = tmp_path_factory.mktemp("slow") / "models"
    shutil.copytree(HERE / "models", models)
    (models / "double/1/model.py").write_text(SLOW)
    return images("slow", models)


@pytest.fixture(scope="module")
def watched(whole, tmp_path_factory):
    """Prometheus, which knows the pods of the release `neso`."""
    whole.command("helm", "uninstall", "neso", "--ignore-not-found", "--wait")
    with Targets(whole) as targets, prometheus(targets, tmp_path_factory.mktemp("prometheus")) as p:

        def answers() -> bool:
            try:
                return bool(ask("demand"))
            except OSError:
                return False

        p.until(whole, answers, "Prometheus has scraped")
        yield targets


@pytest.fixture
def released(whole):
    """The release goes with the test: its replicas are not the next autoscaler's."""
    yield
    whole.command("helm", "uninstall", "neso", "--ignore-not-found", "--wait", "--timeout=120s")


@pytest.fixture
def adapter(whole, watched, tmp_path):
    """prometheus-adapter with the rules of deploy/prometheus."""
    command = [
        program("prometheus-adapter"),
        *options(6444, tmp_path),
        lister(),
    ]
    command += [f"--prometheus-url=http://127.0.0.1:{PORT}", f"--config={ROOT / 'deploy/prometheus/adapter.yaml'}"]
    command += ["--metrics-relist-interval=5s", "--metrics-max-age=10m"]
    with answering(whole, Program(*command, log=tmp_path / "log"), "prometheus-adapter", CUSTOM, 6444) as p:
        yield p


@pytest.fixture(scope="module")
def keda(whole, watched, tmp_path_factory):
    """KEDA's operator and its server of metrics; both have the certificate of one authority."""
    directory = tmp_path_factory.mktemp("keda")
    made = whole.command("kubectl", "kustomize", program("keda-adapter").parent / "crd")
    whole.kubectl("apply", "--server-side", "-f", "-", text=made)
    ca = trustme.CA()
    cert = ca.issue_cert("localhost", "127.0.0.1", ADDRESS)
    ca.cert_pem.write_to_path(directory / "ca.crt")
    cert.cert_chain_pems[0].write_to_path(directory / "tls.crt")
    cert.private_key_pem.write_to_path(directory / "tls.key")
    certificates = [f"--tls-cert-file={directory / 'tls.crt'}", f"--tls-private-key-file={directory / 'tls.key'}"]
    operator = Program(
        program("keda-operator"),
        f"--cert-dir={directory}",
        "--metrics-service-bind-address=localhost:9666",
        "--health-probe-bind-address=127.0.0.1:9667",
        "--enable-prometheus-metrics=false",
        log=directory / "operator.log",
        **KEDA,
    )
    server = Program(
        program("keda-adapter"),
        *options(6445, directory),
        *certificates,
        lister(),
        "--metrics-service-address=localhost:9666",
        "--port=9668",
        log=directory / "adapter.log",
        **KEDA,
    )
    try:
        with operator, answering(whole, server, "keda-metrics-apiserver", EXTERNAL, 6445):
            yield operator
    finally:
        whole.kubectl("delete", "-f", "-", "--ignore-not-found", text=made)


def test_adapter(whole, adapter, released, slow, row):
    """The autoscaler follows `neso_requests_running`, which prometheus-adapter has by deploy/prometheus, from 1 replica to 4 and back"""
    metrics = {"cpuUtilization": None, "podMetrics": {"neso_requests_running": EACH}}
    whole.helm(slow, {"hpa": {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "behavior": BEHAVIOR, **metrics}})
    there_and_back(whole, row, FEW, MANY, limit=240, seen=lambda: ask("nv_inference_request_duration_us"))
    offered = json.loads(whole.kubectl("get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"))["resources"]
    names = {r["name"] for r in offered}
    assert {"pods/neso_requests_running", "pods/neso_instances_busy"} <= names, names


def demanding() -> str:
    return ask("demand") + ask("nv_inference_request_duration_us")


def scaled(cluster, operator: Program, slow: dict, values: dict) -> None:
    """Installs the chart with a ScaledObject, and waits until KEDA has taken it."""
    often = {"enabled": True, "maxReplicas": 4, "pollingIntervalSeconds": 2, "cooldownSeconds": 5, "behavior": BEHAVIOR}
    cluster.helm(slow, {"keda": {**often, **values}}, wait=False)
    taken = lambda: condition(cluster.get("scaledobject", "neso"), "Ready") == "True"  # noqa: E731
    operator.until(cluster, taken, "KEDA has taken the ScaledObject")


def test_keda(whole, keda, released, slow, row):
    """KEDA follows what the release has in hand, by the chart's own query, from 1 replica to 4 and back"""
    trigger = {"serverAddress": f"http://127.0.0.1:{PORT}", "threshold": EACH}
    scaled(whole, keda, slow, {"minReplicas": 1, "prometheus": trigger})
    there_and_back(whole, row, FEW, MANY, limit=240, seen=demanding)


def test_keda_zero(whole, keda, watched, released, slow, row):
    """KEDA follows a demand that is seen without pods, from none to 2 and back to none"""
    trigger = {"serverAddress": f"http://127.0.0.1:{PORT}", "query": "demand", "threshold": EACH}
    watched.demand = 0
    scaled(whole, keda, slow, {"minReplicas": 0, "prometheus": trigger})
    replicas(whole, 0, 240, demanding)
    watched.demand = 2 * EACH
    up = replicas(whole, 2, 240, demanding)
    with loaded(FEW) as row.load:
        whole.until(lambda: all(row.load.answers[t] > 20 for t in ("http", "grpc")), "both transports answer")
    watched.demand = 0
    down = replicas(whole, 0, 240, demanding)
    row.load.clean()
    row.note(f"2 ready after {up:.0f} s, none left {down:.0f} s after the demand's end")
