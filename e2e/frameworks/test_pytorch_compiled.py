"""PyTorch models that are compiled to native code: AOTInductor packages, and torch.compile of a model.py."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from repository import settled
from server import Server

pytestmark = pytest.mark.full

if not shutil.which("c++") and not shutil.which("g++"):
    pytest.skip("there is no C++ compiler for PyTorch's Inductor (Debian: g++)", allow_module_level=True)

INPUT = "max_batch_size: 8\ninput [ {{ name: \"x\" data_type: TYPE_FP32 dims: [ {} ] }} ]\n"  # fmt: skip
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": list(range(8))}]}
MODULE = """import torch


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        if torch.compiler.is_compiling():
            return {"y": x * 2, "compiled": torch.ones_like(x)}
        return {"y": x * 2, "compiled": torch.zeros_like(x)}
"""
COMPILE = (
    'backend: "pytorch"\nparameters {{ key: "TORCH_COMPILE_OPTIONAL_PARAMETERS" value {{ string_value: "{}" }} }}\n'
)
BAD = {
    "cut": "'cut/1/model.pt2' is not a",
    "guess": "Write 'input'",
    "contradiction": "input 'z' is argument 1 (forward of 'contradiction/1/model.pt2'",
    "nojson": "parameter TORCH_COMPILE_OPTIONAL_PARAMETERS is not a JSON object",
}
GOOD = ("package", "compiled", "disabled", "plain")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    repo = tmp_path_factory.mktemp("compiled")
    subprocess.run([sys.executable, Path(__file__).with_name("make_compiled.py"), repo], check=True, timeout=400)
    package = repo / "package" / "1" / "model.pt2"
    (repo / "package" / "config.pbtxt").write_text(INPUT.format(4))

    def put(name, file, content, config=None):
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "1" / file).write_bytes(content)
        if config is not None:
            (repo / name / "config.pbtxt").write_text(config)

    whole = package.read_bytes()
    put("cut", "model.pt2", whole[: len(whole) // 2])
    put("guess", "model.pt2", whole)
    put(
        "contradiction",
        "model.pt2",
        whole,
        INPUT.format(4) + 'input [ { name: "z" data_type: TYPE_FP32 dims: [ 4 ] } ]\n',
    )
    outputs = 'output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "compiled" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
    io = INPUT.format(4) + outputs
    put("compiled", "model.py", MODULE.encode(), COMPILE.format('{\\"dynamic\\": true}') + io)
    put("disabled", "model.py", MODULE.encode(), COMPILE.format('{\\"disable\\": true}') + io)
    put("plain", "model.py", MODULE.encode(), 'backend: "pytorch"\n' + io)
    put("nojson", "model.py", MODULE.encode(), COMPILE.format("fast") + io)
    with Server(repo, "--exit-on-error=false", wait=False) as s:
        settled(s, len(BAD) + len(GOOD))
        yield s, json.loads((repo / "expected.json").read_text())


def outputs(server, model):
    reply = server.infer(model, BODY, timeout=300)  # the first request compiles
    assert reply.status == 200, reply
    return {o["name"]: np.reshape(o["data"], o["shape"]) for o in reply.json["outputs"]}


def test_a_package_answers_as_its_module(served):
    server, expected = served
    np.testing.assert_allclose(outputs(server, "package")["y"], expected, atol=1e-5)
    config = server.get("/v2/models/package/config").json
    assert [(o["name"], o["data_type"], o["dims"]) for o in config["output"]] == [("y", "TYPE_FP32", [3])]


@pytest.mark.parametrize("model, compiled", [("compiled", 1), ("disabled", 0), ("plain", 0)])
def test_torch_compile(served, model, compiled):
    got = outputs(served[0], model)
    assert got["y"].tolist() == [[0, 2, 4, 6], [8, 10, 12, 14]] and (got["compiled"] == compiled).all()


@pytest.mark.parametrize("name", BAD)
def test_a_load_error_says_what_where_and_what_to_do(served, name):
    (row,) = [m for m in served[0].post("/v2/repository/index").json if m["name"] == name]
    assert row["state"] == "UNAVAILABLE" and BAD[name] in row["reason"], row
