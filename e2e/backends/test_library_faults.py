"""Faults of the backends over C libraries, the same for each: the wrong library, one that aborts, files that change,
models that want too much."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
import xgboost
from onnx import TensorProto, helper
from openvino import opset13 as ops
from repository import identity_model, settled, spoilt
from server import Server

ISOLATED = 'parameters { key: "isolation" value { string_value: "process" } }\n'


def forest(path, scale=1.0):
    x = np.random.default_rng(0).random((60, 4), dtype=np.float32)
    xgboost.train({"max_depth": 2}, xgboost.DMatrix(x, x[:, 0] * scale), 3).save_model(path)


def network(path, scale=1.0):
    x = ops.parameter([-1, 4], np.float32, name="X")
    y = ops.multiply(x, ops.constant(np.float32(scale)), name="Y")
    for node in (x, y):
        node.output(0).set_names({node.get_friendly_name()})
    openvino.save_model(openvino.Model([y.output(0)], [x], "m"), path)


def graph(path, scale=1.0):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4])  # noqa: E731
    factor = helper.make_tensor("S", TensorProto.FLOAT, [], [scale])
    g = helper.make_graph([helper.make_node("Mul", ["X", "S"], ["Y"])], "g", [value("X")], [value("Y")], [factor])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


# Backend, its file, how it is written, the parameter that names its library, and its input.
BACKENDS = {
    "onnxruntime": ("model.onnx", graph, "onnxruntime_library", "X", "ONNX Runtime"),
    "fil": ("xgboost.json", forest, "treelite_library", "input__0", "treelite"),
    "openvino": ("model.xml", network, "openvino_library", "X", "OpenVINO"),
}
parametrize = pytest.mark.parametrize("backend", BACKENDS)


def place(repo, name, backend, config="", write=True):
    file, writer, *_ = BACKENDS[backend]
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "config.pbtxt").write_text(f'backend: "{backend}"\n' + config)
    if write:
        writer(repo / name / "1" / file)
    return repo / name / "1" / file


def named(backend, path):
    return f'parameters {{ key: "{BACKENDS[backend][2]}" value {{ string_value: "{path}" }} }}\n'


def ask(server, model, backend):
    data = [0.25, 0.5, 0.75, 1.0]
    return server.infer(
        model, {"inputs": [{"name": BACKENDS[backend][3], "datatype": "FP32", "shape": [1, 4], "data": data}]}
    )


def libc():
    return next(
        p
        for p in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6")
        if Path(p).exists()
    )


@parametrize
def test_a_library_that_cannot_be_used(tmp_path, backend):
    """Missing, no library at all, another library (as one that is too old: functions are missing), and one that
    aborts while it is opened."""
    title = BACKENDS[backend][4]
    (tmp_path / "noise.so").write_bytes(b"no library")
    repo = tmp_path / "repo"
    place(repo, "missing", backend, named(backend, "/nowhere/x.so"))
    place(repo, "noise", backend, named(backend, tmp_path / "noise.so"))
    place(repo, "other", backend, named(backend, libc()))
    place(repo, "isolated", backend, named(backend, "/nowhere/x.so") + ISOLATED)
    place(repo, "good", backend)
    want = {
        "missing": f"{title} is not found at '/nowhere/x.so', which the model's configuration names",
        "noise": f"{title} cannot be opened: ",
        "other": "has no function",
        "isolated": f"{title} is not found at '/nowhere/x.so'",
    }
    if shutil.which("cc"):
        (tmp_path / "abort.c").write_text(
            "#include <stdlib.h>\n__attribute__((constructor)) static void now(void) { abort(); }\n"
        )
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", tmp_path / "abort.so", tmp_path / "abort.c"], check=True, timeout=60
        )
        place(repo, "aborts", backend, named(backend, tmp_path / "abort.so") + ISOLATED)
        want["aborts"] = "SIGABRT"
    with Server(repo, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        got = settled(s, len(want) + 1)
        assert not {name: got[name] for name, text in want.items() if text not in got[name]}, got
        assert ask(s, "good", backend).status == 200


@parametrize
@pytest.mark.parametrize("isolated", [False, True])
def test_a_file_that_changes_under_a_running_server(tmp_path, backend, isolated):
    file = place(tmp_path, "m", backend, ISOLATED if isolated else "")
    identity_model(tmp_path, "good")
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m", "--load-model=good") as s:
        before = ask(s, "m", backend).json["outputs"]
        spoilt(s, tmp_path, file, file.name, lambda: ask(s, "m", backend).json["outputs"])
        file.unlink()
        assert s.post("/v2/repository/models/m/load").status >= 400
        BACKENDS[backend][1](file, 2.0)
        assert s.post("/v2/repository/models/m/load").status == 200
        assert ask(s, "m", backend).json["outputs"] != before
        assert s.get("/v2/models/good/ready").status == 200


def huge_graph(path):
    """Asks for 4 EiB."""
    shape = helper.make_tensor("D", TensorProto.INT64, [2], [1 << 30, 1 << 30])
    nodes = [
        helper.make_node("Expand", ["X", "D"], ["BIG"]),
        helper.make_node("ReduceSum", ["BIG"], ["Y"], keepdims=0),
    ]
    value = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)  # noqa: E731
    g = helper.make_graph(nodes, "g", [value("X", [1])], [value("Y", [])], [shape])
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def huge_network(path):
    """Asks for the memory that a request names: 1 TiB in the test."""
    x = ops.parameter([-1], np.float32, name="X")
    shape = ops.parameter([2], np.int64, name="D")
    y = ops.reduce_sum(ops.broadcast(x, shape), np.int64([0, 1]), name="Y")
    for node in (x, shape, y):
        node.output(0).set_names({node.get_friendly_name()})
    openvino.save_model(openvino.Model([y.output(0)], [x, shape], "m"), path)


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_a_model_that_needs_too_much_memory(tmp_path, backend):
    """The request that asks for it fails; the server and other models go on."""
    {"onnxruntime": huge_graph, "openvino": huge_network}[backend](place(tmp_path, "huge", backend, write=False))
    place(tmp_path, "good", backend)
    with Server(tmp_path) as s:
        inputs = [{"name": "X", "datatype": "FP32", "shape": [1], "data": [1]}]
        if backend == "openvino":
            inputs.append({"name": "D", "datatype": "INT64", "shape": [2], "data": [1 << 20, 1 << 18]})
        reply = s.infer("huge", {"inputs": inputs})
        assert reply.status == 500 and "there is not enough memory for the model: use smaller batches" in reply.error, (
            reply
        )
        assert ask(s, "good", backend).status == 200
        assert s.get("/v2/models/huge/ready").status == 200
