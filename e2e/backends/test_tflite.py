"""TensorFlow Lite models in the built binary, by LiteRT; e2e/frameworks has them by TensorFlow.
e2e/frameworks/make_tflite.py made the files."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
from clients import CLIENTS, connected, tensors
from repository import identity_model, settled, spoilt
from server import Server
from single import one_file_is_served

if importlib.util.find_spec("ai_edge_litert") is None:
    pytest.skip("ai-edge-litert is not installed: there may be none for this Python", allow_module_level=True)

FILES = Path(__file__).with_name("tflite")
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.full((3, 4), 0.5, np.float32)
IO = """input [ { name: "x" data_type: TYPE_FP64 dims: [ 5 ] }, { name: "INPUT1" data_type: TYPE_FP64 dims: [ 4 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 9 ] }, { name: "Z" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""

ONE = """input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""
PAIR = ONE.replace("} ]\noutput", '}, { name: "INPUT1" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput')
CONTROL = 'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }'
STATE = 'state { input_name: "INPUT1" output_name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 4 ] }'


def place(repo, name, file=None, config="", write=None):
    (repo / name / "1").mkdir(parents=True)
    if config:
        (repo / name / "config.pbtxt").write_text(config)
    target = repo / name / "1" / "model.tflite"
    if write is not None:
        target.write_bytes(write)
    elif file:
        shutil.copy(FILES / f"{file}.tflite", target)
    return target


def signature(name):
    return f'backend: "tensorflow"\nparameters {{ key: "TF_SIGNATURE_DEF" value {{ string_value: "{name}" }} }}\n'


GOOD = ("add_sub", "swapped", "unsigned", "texts", "product", "scalars", "summed", "instances")
BAD = {
    "empty": ["'empty/1/model.tflite' is not a model of the backend 'tensorflow': it is empty"],
    "page": ["'page/1/model.tflite' is not a TensorFlow Lite model: it is a web page"],
    "noise": ["'noise/1/model.tflite' is not a TensorFlow Lite model: it is cut off, damaged, or something else (64 bytes)"],
    **{f"cut{i}": [f"'cut{i}/1/model.tflite'", "the file is cut off or damaged: write the model again"] for i in (1, 2, 3)},
    "nosignature": ["has no signature 'other'; it has 'serving_default', 'swapped'", "TF_SIGNATURE_DEF"],
    "operators": ["FlexMatrixInverse", "the model has operators of TensorFlow itself: convert it"],
    "control": ["unexpected inference input 'START', allowed inputs are: INPUT0, INPUT1"],
    "state": ["expects datatype TYPE_INT32 for input 'INPUT1', model provides TYPE_FP32",
              "expects datatype TYPE_INT32 for output 'OUTPUT0'"],
    "batch_input": ["unexpected inference input 'LEN'"],
    "decoupled": ["model 'decoupled' is decoupled, which the tensorflow backend does not support"],
    "contradiction": ["the configuration lacks 'INPUT0' (data_type: TYPE_FP32, dims: [4])",
                      "unexpected inference input 'x', allowed inputs are: INPUT0, INPUT1",
                      "expects datatype TYPE_FP64 for input 'INPUT1', model provides TYPE_FP32", "tensor 'OUTPUT0'",
                      "(write dims: [4])", "unexpected inference output 'Z'"],
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repo = tmp_path_factory.mktemp("tflite")
    whole = (FILES / "add_sub.tflite").read_bytes()
    for name in ("add_sub", "unsigned", "texts", "product", "scalars", "operators"):
        place(repo, name, name)
    place(repo, "swapped", "add_sub", signature("swapped"))
    place(repo, "instances", "add_sub", 'backend: "tensorflow"\ninstance_group { count: 2 }\n')
    place(repo, "nosignature", "add_sub", signature("other"))
    pair = 'backend: "tensorflow"\nmax_batch_size: 2\n' + PAIR
    one = 'backend: "tensorflow"\nmax_batch_size: 2\n' + ONE
    place(repo, "control", "add_sub", pair + "sequence_batching { " + CONTROL + " }\n")
    place(repo, "state", "add_sub", one + "sequence_batching { " + STATE.replace("FP32", "INT32") + " }\n")
    place(repo, "summed", "add_sub", one + "sequence_batching { " + STATE + " }\n")
    place(
        repo,
        "batch_input",
        "add_sub",
        pair
        + 'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "LEN" data_type: TYPE_INT32 source_input: "INPUT0" }\n',
    )
    place(repo, "decoupled", "add_sub", 'backend: "tensorflow"\nmodel_transaction_policy { decoupled: true }\n')
    place(repo, "contradiction", "add_sub", 'backend: "tensorflow"\nmax_batch_size: 2\n' + IO)
    place(repo, "empty", write=b"")
    place(repo, "page", write=b"<!DOCTYPE html><html></html>")
    place(repo, "noise", write=bytes(range(64)))
    for quarter in (1, 2, 3):
        place(repo, f"cut{quarter}", write=whole[: quarter * len(whole) // 4])
    identity_model(repo, "good")
    with Server(repo, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        reasons = settled(s, len(GOOD) + len(BAD) + 1)
        s.reasons = reasons
        yield s


@pytest.fixture(params=CLIENTS)
def client(request, server):
    with connected(server, request.param) as c:
        yield c


def infer(client, model, **inputs):
    return client.infer(model, tensors(client, inputs))


@pytest.mark.parametrize("name", BAD)
def test_a_load_error_says_what_where_and_what_to_do(server, name):
    for text in BAD[name]:
        assert text in server.reasons[name]
    assert server.reasons["good"] == ""


@pytest.mark.parametrize("model", ["add_sub", "instances"])
@pytest.mark.parametrize("rows", [2, 1, 3])
def test_answers(client, model, rows):
    answer = infer(client, model, INPUT0=A[:rows], INPUT1=B[:rows])
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), A[:rows] + B[:rows])
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), A[:rows] - B[:rows])


def test_another_signature(client):
    np.testing.assert_array_equal(infer(client, "swapped", INPUT0=A, INPUT1=B).as_numpy("OUTPUT0"), B - A)


def test_a_model_without_signatures(client):
    for rows in (2, 1, 2):
        answer = infer(client, "unsigned", INPUT0=A[:rows], INPUT1=B[:rows])
        np.testing.assert_array_equal(answer.as_numpy("Identity"), A[:rows] + B[:rows])


def test_texts(client):
    texts = np.array([b"ab", "cdé".encode(), b"", b"n\0ul"], np.object_)
    answer = infer(client, "texts", TEXTS=texts.reshape(4, 1), PLACES=np.int32([3, 1, 2, 0]).reshape(4, 1))
    assert answer.as_numpy("CHOSEN").ravel().tolist() == [texts[i] for i in (3, 1, 2, 0)]


def test_whole_numbers_and_a_fixed_shape(client, server):
    config = server.get("/v2/models/product/config").json
    assert config["max_batch_size"] == 0
    assert [(i["data_type"], i["dims"]) for i in config["input"] + config["output"]] == [
        ("TYPE_INT8", [1, 4]),
        ("TYPE_INT8", [1, 3]),
    ]
    assert infer(client, "product", X=np.int8([[127, 0, -128, 3]])).as_numpy("Y").shape == (1, 3)


def test_implicit_state(server):
    """OUTPUT0, the sum, comes back as INPUT1; OUTPUT1 is the difference."""
    row = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
    for step, times in enumerate((1, 0, -1)):
        flags = {"sequence_id": 5, "sequence_start": step == 0, "sequence_end": step == 2}
        reply = server.infer("summed", {"inputs": [row], "parameters": flags})
        assert reply.json["outputs"][0]["data"] == [times * v for v in row["data"]]


def test_scalars(client, server):
    """Which are of length 1 in a configuration."""
    config = server.get("/v2/models/scalars/config").json
    assert [(i["name"], i["dims"]) for i in config["input"] + config["output"]] == [
        ("FACTOR", [1]),
        ("X", [-1]),
        ("TOTAL", [1]),
        ("Y", [-1]),
    ]
    answer = infer(client, "scalars", X=np.float32([1, 2, 3]), FACTOR=np.float32([10]))
    assert answer.as_numpy("Y").tolist() == [10, 20, 30] and answer.as_numpy("TOTAL").tolist() == [6]


def test_completion(server):
    config = server.get("/v2/models/add_sub/config").json
    assert config["backend"] == "tensorflow" and config["default_model_filename"] == "model.tflite"
    assert config["max_batch_size"] == 4 and "dynamic_batching" in config
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [
        ("INPUT0", "TYPE_FP32", [4]),
        ("INPUT1", "TYPE_FP32", [4]),
    ]


def test_a_file_by_itself(tmp_path):
    shutil.copy(FILES / "add_sub.tflite", tmp_path / "net.TFLITE")
    one_file_is_served(
        tmp_path / "net.TFLITE", ['name: "INPUT0"', 'name: "OUTPUT1"', "dims: [ 4 ]", "max_batch_size: 4"]
    )


def test_a_file_that_changes_under_a_running_server(tmp_path):
    file = place(tmp_path, "m", "add_sub")
    body = {"inputs": [{"name": n, "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]} for n in ("INPUT0", "INPUT1")]}  # fmt: skip
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        spoilt(s, tmp_path, file, "m/1/model.tflite", lambda: s.infer("m", body).json["outputs"])
        shutil.copy(FILES / "product.tflite", file)
        assert s.post("/v2/repository/models/m/load").status == 200
        assert s.get("/v2/models/m/config").json["input"][0]["name"] == "X"
