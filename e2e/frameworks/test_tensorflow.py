"""TensorFlow models in the built binary: the same answers as TensorFlow itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from clients import CLIENTS, connected, tensors
from repository import identity_model, settled
from server import Server
from tritonclient import grpc


def signature(name):
    return f'parameters {{ key: "TF_SIGNATURE_DEF" value {{ string_value: "{name}" }} }}\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The repository, and what TensorFlow itself answers. It is made in a process of its own, as training is."""
    repo = tmp_path_factory.mktemp("tensorflow")
    subprocess.run(
        [sys.executable, Path(__file__).with_name("make_tensorflow.py"), repo],
        check=True,
        timeout=180,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    (repo / "texts" / "config.pbtxt").write_text('platform: "tensorflow_savedmodel"\n' + signature("texts"))
    (repo / "scaled" / "config.pbtxt").write_text('platform: "tensorflow_savedmodel"\n' + signature("scaled"))
    (repo / "nosignature" / "config.pbtxt").write_text('platform: "tensorflow_savedmodel"\n' + signature("other"))
    (repo / "contradiction" / "config.pbtxt").write_text(
        'platform: "tensorflow_savedmodel"\nmax_batch_size: 4\ninput [ { name: "x" data_type: TYPE_FP64 dims: [ '
        '4 ] } ]\noutput [ { name: "z" data_type: TYPE_FP32 dims: [ 3 ] } ]\n'
    )
    (repo / "cut" / "1").mkdir(parents=True)
    (repo / "cut" / "1" / "model.keras").write_bytes((repo / "keras" / "1" / "model.keras").read_bytes()[:-100])
    (repo / "nograph" / "1").mkdir(parents=True)
    (repo / "nograph" / "1" / "model.graphdef").write_bytes(b"\x0a\xff\xff\xff\x7fnonsense")
    (repo / "hollow" / "1" / "model.savedmodel").mkdir(parents=True)
    return repo, json.loads((repo / "expected.json").read_text())


BAD = {
    "nosignature": ["has no signature 'other'; it has", "TF_SIGNATURE_DEF"],
    "contradiction": [
        "expects datatype TYPE_FP64 for input 'x', model provides TYPE_FP32",
        "unexpected inference output 'z', allowed outputs are: y",
    ],
    "cut": ["'cut/1/model.keras' is not a Keras file: it is cut off"],
    "nograph": ["'nograph/1/model.graphdef'", "the file is cut off, damaged"],
    "hollow": ["'hollow/1/model.savedmodel' is not a SavedModel: it has no saved_model.pb"],
}


@pytest.fixture(scope="module")
def tf_server(made):
    repo, _ = made
    with Server(repo, "--exit-on-error=false", wait=False) as s:
        settled(s, len(BAD) + 5)
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture(params=CLIENTS)
def client(request, tf_server):
    with connected(tf_server, request.param) as c:
        yield c


def infer(client, model, inputs):
    return client.infer(model, tensors(client, inputs))


X = (np.arange(8, dtype=np.float32).reshape(2, 4) / 8, "FP32")


@pytest.mark.parametrize(
    "model, inputs, output",
    [("saved", {"x": X}, "y"), ("keras", {"features": X}, None), ("graph", {"INPUT0": X, "INPUT1": X}, "OUTPUT0")],
)
def test_the_same_answers_as_tensorflow(client, made, model, inputs, output):
    if output is None:
        (output,) = [o["name"] for o in config_of(client, model)["output"]]
    np.testing.assert_allclose(infer(client, model, inputs).as_numpy(output), made[1][model], atol=1e-5)


def config_of(client, model):
    if client.module is grpc:
        return client.get_model_config(model, as_json=True)["config"]
    return client.get_model_config(model)


def test_texts(client):
    texts = np.array([[b"ab", "cdé".encode()]], np.object_)
    answer = infer(client, "texts", {"t": (texts, "BYTES")})
    assert answer.as_numpy("upper").tolist() == [[b"AB", "CDé".encode()]]
    assert answer.as_numpy("length").tolist() == [[2, 4]]


def test_tensors_without_dimensions(client):
    answer = infer(client, "scaled", {"x": (np.float32([[1, 2]]), "FP32"), "k": (np.float32([10]), "FP32")})
    assert answer.as_numpy("y").tolist() == [[10, 20]] and answer.as_numpy("total").tolist() == [3]


def test_completion(tf_server):
    config = tf_server.get("/v2/models/saved/config").json
    assert config["max_batch_size"] == 4 and "dynamic_batching" in config
    assert config["platform"] == "tensorflow_savedmodel"
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [("x", "TYPE_FP32", [4])]
    assert tf_server.get("/v2/models/graph").json["platform"] == "tensorflow_graphdef"
    assert tf_server.get("/v2/models/keras").json["inputs"] == [{"name": "features", "datatype": "FP32", "shape": [-1, 4]}]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_load_error_says_what_where_and_what_to_do(tf_server, name):
    (row,) = [m for m in tf_server.post("/v2/repository/index").json if m["name"] == name]
    assert row["state"] == "UNAVAILABLE"
    for text in BAD[name]:
        assert text in row["reason"]


BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}


@pytest.mark.full
def test_a_model_that_is_swapped_under_a_running_server(made, tmp_path):
    """Whatever becomes of the directory, the loaded model goes on; a load says what is wrong with the new one."""
    repo, _ = made
    model = tmp_path / "m" / "1" / "model.savedmodel"
    shutil.copytree(repo / "saved" / "1" / "model.savedmodel", model)
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m", wait=False) as s:
        s.wait_ready()
        before = s.infer("m", BODY).json["outputs"]
        graph = (model / "saved_model.pb").read_bytes()
        weights = next((model / "variables").glob("variables.data*"))
        whole = weights.read_bytes()
        for file, content, old in (
            (model / "saved_model.pb", graph[: len(graph) // 2], graph),
            (model / "saved_model.pb", b"", graph),
            (weights, whole[: len(whole) // 2], whole),
        ):
            file.write_bytes(content)
            assert s.infer("m", BODY).json["outputs"] == before
            reply = s.post("/v2/repository/models/m/load", timeout=120)
            assert reply.status == 400 and "m/1/model.savedmodel" in reply.error, reply
            assert str(tmp_path) not in reply.error
            assert s.infer("m", BODY).json["outputs"] == before
            file.write_bytes(old)
        shutil.rmtree(model)
        assert s.infer("m", BODY).json["outputs"] == before
        shutil.copytree(repo.parent / "beside" / "doubled", model)
        assert s.post("/v2/repository/models/m/load", timeout=120).status == 200
        data = s.infer("m", BODY).json["outputs"][0]["data"]
        np.testing.assert_allclose(data, np.array(before[0]["data"]) * 2)


@pytest.mark.full
def test_a_model_that_needs_too_much_memory(made, tmp_path):
    """The request that asks for it fails; the server and other models go on."""
    repo, _ = made
    (tmp_path / "huge" / "1").mkdir(parents=True)
    shutil.copytree(repo.parent / "beside" / "huge", tmp_path / "huge" / "1" / "model.savedmodel")
    identity_model(tmp_path, "good")
    with Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        assert not any(settled(s, 2).values())

        def ask(rows):
            inputs = [{"name": "rows", "datatype": "INT64", "shape": [1], "data": [rows]}]
            return s.infer("huge", {"inputs": inputs}, timeout=120)

        reply = ask(1 << 22)  # 16 TiB
        assert reply.status == 500 and "there is not enough memory for the model" in reply.error, reply
        assert ask(1).status == 200
        assert s.get("/v2/models/huge/ready").status == 200 and s.get("/v2/models/good/ready").status == 200
