"""Neso's runtimes under KServe: held against its definitions by the API server, and run by its controller."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

import controller
import numpy as np
import pytest
import yaml
from bucket import Bucket
from clients import datatype, infer
from kserve_models import CASES, LEFT_OUT, knows_digits
from release import HERE, NODES, Failed, Node, at, condition, load_image
from sending import Calls, connect
from server import ROOT

DEPLOY = ROOT / "deploy" / "kserve"
IMAGES = ROOT / "build" / "images"
# A Python that has the package kserve, which wants other versions of much than the other tests do.
CLIENT = Path(os.environ.get("NESO_KSERVE_PYTHON", ROOT / "build" / "kserve" / "bin" / "python"))
CALLED = "KServe's Python client infers, and asks for health, over both"


@pytest.fixture(scope="module")
def definitions(whole):
    if not controller.found():
        pytest.skip("needs KServe: make kserve, some ten minutes, once")
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
    """KServe's controller."""
    controller.install(whole, images.load, tmp_path_factory.mktemp("kserve"))


def runtimes(cluster, image: str, file: str = "servingruntimes.yaml") -> None:
    """The runtimes of a file, with an image of the nodes, and little of a node for each."""
    for runtime in yaml.safe_load_all((DEPLOY / file).read_text()):
        (container,) = runtime["spec"]["containers"]
        container |= {"image": image, "imagePullPolicy": "Never"}
        container["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
        cluster.apply(runtime)


def services() -> dict[str, dict]:
    """The objects of deploy/kserve/inferenceservices.yaml by name."""
    return {d["metadata"]["name"]: d for d in yaml.safe_load_all((DEPLOY / "inferenceservices.yaml").read_text())}


def pod_of(cluster, service: str) -> dict:
    """The pod of an InferenceService, once it is ready."""
    label = f"serving.kserve.io/inferenceservice={service}"
    try:
        ready = lambda: condition(cluster.get("inferenceservice", service), "Ready") == "True"  # noqa: E731
        cluster.until(ready, "the InferenceService is ready")
    except Failed as e:
        said = [cluster.kubectl("get", "pods", "-l", label, "-o", "yaml")]
        with contextlib.suppress(Failed):
            said.append(cluster.kubectl("logs", "-l", label, "--all-containers", "--prefix", "--tail=50"))
        raise Failed("\n".join([str(e), *said])) from None
    (pod,) = [p for p in cluster.get("pods", "-l", label)["items"] if "deletionTimestamp" not in p["metadata"]]
    return pod


def calls_of(pod: dict) -> Calls:
    return Calls(http=at(pod, 8080), grpc=at(pod, 9000))


def ask_by_kserve(cluster, row, pod: dict, model: str, given: dict[str, np.ndarray], wanted: dict) -> None:
    """KServe's own client gets the same answers over both protocols."""
    if not CLIENT.exists():
        row.note("KServe's client was not there (NESO_KSERVE_PYTHON)")
        return
    asked = json.dumps([[n, datatype(a), list(a.shape), a.ravel().tolist()] for n, a in given.items()])
    url, address = f"http://{at(pod, 8080)}", at(pod, 9000)
    said = json.loads(cluster.command(CLIENT, HERE / "kserve_client.py", url, address, model, text=asked))
    for protocol in ("http", "grpc"):
        got = said.pop(protocol)
        assert set(got) == set(wanted), got
        for name, array in wanted.items():
            assert np.allclose(np.array(got[name]).ravel(), array.ravel(), atol=1e-5), (protocol, name, got[name])
    assert said == dict.fromkeys(["live", "ready", "model", "grpc live", "grpc ready", "grpc model"], True)
    row.note(CALLED)


@pytest.fixture(scope="module")
def claim(whole, images, running):
    """Models on node 1, for a claim."""
    images("one")
    shutil.copytree(HERE / "models", Node(1).disk / "kserve-models", dirs_exist_ok=True)
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "none"}
    reference = {"namespace": "default", "name": "kserve-models"}
    whole.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "kserve-models"},
            "spec": {
                **spec,
                "capacity": {"storage": "1Gi"},
                "claimRef": reference,
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
    runtimes(whole, f"{images.repository}:one")


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
def test_inference_service(whole, claim, row, runtime, protocol, transport):
    """KServe's controller runs an InferenceService with our ServingRuntime, which is called"""
    name = f"double-{transport}"
    whole.apply(service(name, runtime, protocol))
    try:
        pod = pod_of(whole, name)
        with connect(calls_of(pod), transport) as client:
            number = np.full((1, 4), 7, np.float32)
            (got,) = infer(client, name, {"INPUT0": number}).values()
            assert np.array_equal(got, number * 2)
        row.note(f"ready, and answers over {transport}")
        ask_by_kserve(whole, row, pod, name, {"INPUT0": number}, {"OUTPUT0": number * 2})
    finally:
        whole.kubectl("delete", "inferenceservice", name)


@pytest.fixture(scope="module")
def loaded():
    """Loads an image of e2e/cluster/images into the nodes once; its name."""
    made = {}

    def load(which: str) -> str:
        file = IMAGES / f"kserve-{which}.tar"
        if which not in made:
            if not file.exists():
                pytest.skip(f"{file.name} is not there: make build/images/{file.name}")
            load_image(file)
            made[which] = f"docker.io/neso/{which}:here"
        return made[which]

    return load


@pytest.fixture(scope="module")
def bucket(whole, running, loaded, tmp_path_factory):
    """A bucket that KServe's storage initializer and agent download from: with the default account's credentials."""
    loaded("storage")
    with Bucket(tmp_path_factory.mktemp("kserve-bucket")) as b:
        for case in CASES.values():
            for name, content in case.contents():
                b.put(name, content)
        for name in ("digits", "other"):
            b.put(f"{name}/1/model.onnx", CASES["onnx"].files["onnx/model.onnx"].read_bytes())
        b.put("broken/1/model.onnx", b"no model")
        annotations = {
            "s3-endpoint": b.endpoint,
            "s3-usehttps": "0",
            "s3-usevirtualbucket": "false",
            "s3-region": b.region,
        }
        secret = b.credentials("kserve-bucket")
        secret["metadata"]["annotations"] = {f"serving.kserve.io/{k}": v for k, v in annotations.items()}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        whole.apply(secret, {**account, "secrets": [{"name": "kserve-bucket"}]})
        yield b
        whole.apply({**account, "secrets": []})


def test_every_framework_has_a_case():
    of = {d["metadata"]["name"] for d in services().values() if d["kind"] == "InferenceService"} - {"many"}
    assert {c.service or name for name, c in CASES.items()} == of - LEFT_OUT


@pytest.mark.parametrize("name", CASES)
def test_framework(whole, bucket, loaded, row, name):
    """An InferenceService of deploy/kserve, whose model KServe's storage initializer fetches from a bucket"""
    case = CASES[name]
    runtimes(whole, loaded(case.image))
    made = services()[case.service or name]
    made["metadata"]["name"] = name
    if case.uri:
        made["spec"]["predictor"]["model"]["storageUri"] = case.uri
    whole.apply(made)
    try:
        pod = pod_of(whole, name)
        (initializer,) = [c["name"] for c in pod["spec"]["initContainers"]]
        assert initializer == "storage-initializer"
        model = case.model or name
        with connect(calls_of(pod), "http") as client:
            given = case.check(client, model)
            wanted = infer(client, model, given)
        row.note(f"`{made['spec']['predictor']['model']['storageUri']}` is fetched, and answers are right")
        ask_by_kserve(whole, row, pod, model, given, wanted)
    finally:
        whole.kubectl("delete", "inferenceservice", name)


def test_many_models(whole, bucket, loaded, row):
    """TrainedModels come into one InferenceService, and go"""
    runtimes(whole, loaded("frameworks"), "clusterservingruntimes.yaml")
    made = services()
    whole.apply(made["many"])
    try:
        pod = pod_of(whole, "many")
        assert {c["name"] for c in pod["spec"]["containers"]} == {"kserve-container", "agent"}
        with connect(calls_of(pod), "http") as client:
            whole.apply(made["digits"])
            try:
                whole.until(lambda: client.is_model_ready("digits"), "the model is ready")
            except Failed as e:
                label = "serving.kserve.io/inferenceservice=many"
                said = whole.kubectl("logs", "-l", label, "--all-containers", "--prefix", "--tail=50")
                raise Failed(f"{e}\n{whole.kubectl('get', 'trainedmodels', '-o', 'yaml')}\n{said}") from None
            given = knows_digits(client, "digits")
            ask_by_kserve(whole, row, pod, "digits", given, infer(client, "digits", given))
            for name in ("broken", "other"):
                made["digits"]["metadata"]["name"] = name
                made["digits"]["spec"]["model"]["storageUri"] = f"s3://models/{name}"
                whole.apply(made["digits"])
            whole.until(lambda: client.is_model_ready("other"), "a further model is ready")
            knows_digits(client, "other")
            index = lambda: {m["name"]: m for m in client.get_model_repository_index()}  # noqa: E731
            whole.until(lambda: index()["broken"].get("reason"), "the index says why one does not load")
            row.note(f"two answer; of one that does not load the index says `{index()['broken']['reason'][:160]}`")
            whole.kubectl("delete", "trainedmodel", "other")
            whole.until(lambda: not client.is_model_ready("other"), "a model whose TrainedModel is deleted goes")
            knows_digits(client, "digits")
            row.note("one goes, the others stay")
        (same,) = [p for p in whole.get("pods", "-l", "serving.kserve.io/inferenceservice=many")["items"]]
        assert condition(same, "Ready") == "True", "a model that does not load does not take away the others"
    finally:
        whole.kubectl("delete", "trainedmodel", "--all")
        whole.kubectl("delete", "inferenceservice", "many")
