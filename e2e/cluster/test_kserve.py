"""Neso's runtimes under KServe: held against its definitions by the API server, and run by its controller."""

from __future__ import annotations

import json
import os
import shutil

import controller
import pytest
import yaml
from release import HERE, NODES, Node, condition
from sending import Calls, ask, connect
from server import ROOT

pytestmark = pytest.mark.skipif(
    not controller.FOUND, reason="needs KServe: bin/cluster kserve, some seven minutes of one processor"
)
DEPLOY = ROOT / "deploy" / "kserve"
# A Python that has the package kserve, which wants other versions of much than the other tests do.
CLIENT = os.environ.get("NESO_KSERVE_PYTHON", "")


@pytest.fixture(scope="module")
def definitions(whole):
    controller.install_definitions(whole)


def test_definitions(whole, definitions, row):
    """The API server holds deploy/kserve against KServe's definitions"""
    count = 0
    for file in ("clusterservingruntimes.yaml", "servingruntimes.yaml", "inferenceservices.yaml"):
        said = whole.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(DEPLOY / file))
        count += len(said.splitlines())
    row.note(f"{count} objects are accepted")


@pytest.fixture(scope="module")
def running(whole, images, definitions, tmp_path_factory):
    controller.install(whole, images.load, tmp_path_factory.mktemp("kserve"))
    images("one")
    # Models on node 1, for a claim.
    place = Node(1).disk / "kserve-models"
    shutil.copytree(HERE / "models", place, dirs_exist_ok=True)
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "none"}
    claim = {"namespace": "default", "name": "kserve-models"}
    whole.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "kserve-models"},
            "spec": {
                **spec,
                "capacity": {"storage": "1Gi"},
                "claimRef": claim,
                "hostPath": {"path": "/var/lib/kserve-models"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "kserve-models"},
            "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}},
        },
    )
    for runtime in yaml.safe_load_all((DEPLOY / "servingruntimes.yaml").read_text()):
        (container,) = runtime["spec"]["containers"]
        container |= {"image": f"{images.repository}:one", "imagePullPolicy": "Never"}
        container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}}
        whole.apply(runtime)


def service(name: str, runtime: str, protocol: str) -> dict:
    model = {"runtime": runtime, "protocolVersion": protocol, "storageUri": "pvc://kserve-models/double"}
    predictor = {
        "minReplicas": 1,
        "maxReplicas": 1,
        "nodeSelector": {"kubernetes.io/hostname": NODES[0]},
        "model": {**model, "modelFormat": {"name": "triton", "version": "2"}},
    }
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {"predictor": predictor},
    }


@pytest.mark.parametrize("runtime,protocol,transport", [("neso", "v2", "http"), ("neso-grpc", "grpc-v2", "grpc")])
def test_inference_service(whole, running, row, runtime, protocol, transport):
    """KServe's controller runs an InferenceService with our ServingRuntime, which is called"""
    whole.apply(service("double", runtime, protocol))
    try:
        ready = lambda: condition(whole.get("inferenceservice", "double"), "Ready") == "True"  # noqa: E731
        whole.until(ready, "the InferenceService is ready")
        (pod,) = whole.get("pods", "-l", "serving.kserve.io/inferenceservice=double")["items"]
        at = pod["status"]["podIP"]
        with connect(Calls(http=f"{at}:8080", grpc=f"{at}:9000"), transport) as client:
            assert ask(client, 7) == "1"
        row.note(f"ready, and answers over {transport}")
        if not CLIENT:
            row.note("KServe's client was not there (NESO_KSERVE_PYTHON)")
            return
        said = json.loads(whole.command(CLIENT, HERE / "kserve_client.py", f"http://{at}:8080", f"{at}:9000", "double"))
        yes = ["live", "ready", "model", "grpc live", "grpc ready", "grpc model"]
        assert said == {**dict.fromkeys(yes, True), **dict.fromkeys(("http", "grpc"), [[0.0, 2.0, 4.0, 6.0]])}
        row.note("KServe's Python client infers, and asks for health, over both")
    finally:
        whole.kubectl("delete", "inferenceservice", "double")
        whole.until(
            lambda: not whole.get("pods", "-l", "serving.kserve.io/inferenceservice=double")["items"], "its pod is gone"
        )
