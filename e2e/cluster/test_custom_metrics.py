"""Kubernetes' autoscaler, which follows the server's own metrics through an adapter, under load of the official clients."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from nodeprograms import Program, answering, options
from release import HERE, RUN
from sending import Calls
from server import ROOT
from test_autoscaler import BEHAVIOR, there_and_back
from watching import PORT, Targets, ask, found, prometheus

CUSTOM = "v1beta1.custom.metrics.k8s.io"
SLOW = '''"""Doubles its input, and takes its time: requests are in hand while processors are idle."""

import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.2)
        arrays = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", a * 2)]) for a in arrays]
'''
EACH = 3  # requests in hand of each replica that the autoscaler is to have
MANY, FEW = Calls(clients=9, pause_s=0), Calls(clients=1, pause_s=0.2)


def program(name: str) -> Path:
    """One that `make scalers` has built; without it the test is skipped."""
    file = next(RUN.parent.glob(f"*/{name}"), None)
    return file or pytest.skip("make scalers builds the adapter")


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
                return bool(ask("vector(1)"))
            except OSError:
                return False

        p.until(whole, answers, "Prometheus answers")
        yield targets


@pytest.fixture
def released(whole):
    """The release goes with the test: its replicas are not the next test's."""
    yield
    whole.command("helm", "uninstall", "neso", "--ignore-not-found", "--wait", "--timeout=120s")


@pytest.fixture
def adapter(whole, watched, tmp_path):
    """prometheus-adapter with the rules of deploy/prometheus."""
    command = [
        program("prometheus-adapter"),
        *options(6444, tmp_path),
        f"--lister-kubeconfig={os.environ['KUBECONFIG']}",
    ]
    command += [f"--prometheus-url=http://127.0.0.1:{PORT}", f"--config={ROOT / 'deploy/prometheus/adapter.yaml'}"]
    command += ["--metrics-relist-interval=5s", "--metrics-max-age=10m"]
    with answering(whole, Program(*command, log=tmp_path / "log"), "prometheus-adapter", CUSTOM, 6444) as p:
        yield p


def test_adapter(whole, adapter, released, slow, row):
    """The autoscaler follows `neso_requests_running`, which prometheus-adapter has by deploy/prometheus, from 1 replica to 4 and back"""
    metrics = {"cpuUtilization": None, "podMetrics": {"neso_requests_running": EACH}}
    whole.helm(slow, {"hpa": {"enabled": True, "minReplicas": 1, "maxReplicas": 4, "behavior": BEHAVIOR, **metrics}})
    there_and_back(whole, row, FEW, MANY, limit=240, seen=lambda: ask("nv_inference_request_duration_us"))
    offered = json.loads(whole.kubectl("get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"))["resources"]
    names = {r["name"] for r in offered}
    assert {"pods/neso_requests_running", "pods/neso_instances_busy"} <= names, names
