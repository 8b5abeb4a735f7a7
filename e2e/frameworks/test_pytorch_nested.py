"""PyTorch modules whose arguments and results are tuples, lists and dictionaries: the names of their tensors are Triton's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from repository import settled
from server import Server
from torch_models import Flagged, Nested

pytestmark = pytest.mark.full

# The leaves in their order, what the test sends for each, and what comes out.
INPUTS = {
    "ARGS[0]": 1, "ARGS[1][0]": 2, "ARGS[1][1][0]": 3, "ARGS[2][key]": 4, "ARGS[2][other]": 5, "KWARGS[scale]": 6,
    "KWARGS[extra][inner]": 7,
}  # fmt: skip
OUTPUTS = {"RESULT[sum]": 321, "RESULT[parts][0]": 24, "RESULT[parts][1][0]": 6, "RESULT[last][deep]": 6}
NUMBERED = (
    {f"INPUT__{i}": v for i, v in enumerate(INPUTS.values())},
    {f"OUTPUT__{i}": v for i, v in enumerate(OUTPUTS.values())},
)
KINDS = ["exported"] + ["compiled"] * bool(shutil.which("c++") or shutil.which("g++"))


def config(inputs, outputs=()):
    """A configuration in that order, whose tensors are all of [2, 2]."""
    text = 'backend: "pytorch"\n'
    for kind, names in (("input", inputs), ("output", outputs)):
        text += "".join(f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [ 2, 2 ] }}\n' for name in names)
    return text


CONFIGS = {
    # The order of a configuration means nothing where names say which is which.
    "paths": config(list(INPUTS)[::-1], list(OUTPUTS)[::-1]),
    "numbers": config(*NUMBERED),
    "some": config(INPUTS, ["RESULT[last][deep]", "OUTPUT__0"]),
    "completed": config(INPUTS),
}
BAD = {
    "no_leaf": (config(["ARGS[0]", "ARGS[3]"]),
                "input 'ARGS[3]' is not in its specification (forward of 'KIND_no_leaf/1/model.pt2' has the arguments: "
                + ", ".join(INPUTS)),
    "lacks_one": (config(list(INPUTS)[:6]), "nothing gives argument 'KWARGS[extra][inner]'"),
    "twice": (config([*INPUTS, "INPUT__0"]), "inputs 'ARGS[0]' and 'INPUT__0' are the same argument"),
    "no_output": (config(INPUTS, ["RESULT[sum]", "RESULT[more]"]),
                  "output 'RESULT[more]' is none of those of 'KIND_no_output/1/model.pt2': " + ", ".join(OUTPUTS)),
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = tmp_path_factory.mktemp("made")
    positional, keywords = Nested.example()
    files = {"exported": made / "exported.pt2", "compiled": made / "nested.pt2"}
    torch.export.save(torch.export.export(Nested(), positional, keywords), files["exported"])
    if "compiled" in KINDS:
        subprocess.run([sys.executable, Path(__file__).with_name("make_compiled.py"), made], check=True, timeout=400)
    repo = tmp_path_factory.mktemp("nested")

    def put(name, file, text):
        (repo / name / "1").mkdir(parents=True)
        shutil.copy(file, repo / name / "1" / "model.pt2")
        (repo / name / "config.pbtxt").write_text(text)

    for kind in KINDS:
        for name, text in CONFIGS.items():
            put(f"{kind}_{name}", files[kind], text)
        for name, (text, _) in BAD.items():
            put(f"{kind}_{name}", files[kind], text)
    put("exported_alone", files["exported"], "")
    (flagged := made / "flagged.pt2").touch()
    torch.export.save(torch.export.export(Flagged(), (torch.zeros(2, 2), False, torch.zeros(2, 2))), flagged)
    put("flagged", flagged, "")
    with Server(repo, "--exit-on-error=false", wait=False) as s:
        yield s, settled(s, len(list(repo.iterdir())))


def infer(server, model, inputs):
    body = {"inputs": [
        {"name": n, "datatype": "FP32", "shape": [2, 2], "data": [v] * 4} for n, v in inputs.items()
    ]}  # fmt: skip
    reply = server.infer(model, body)
    assert reply.status == 200, reply
    assert all(o["shape"] == [2, 2] for o in reply.json["outputs"])
    return {o["name"]: o["data"] for o in reply.json["outputs"]}


def four(outputs):
    return {name: [v] * 4 for name, v in outputs.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_by_path_and_by_number(served, kind):
    server, _ = served
    assert infer(server, f"{kind}_paths", INPUTS) == four(OUTPUTS)
    assert infer(server, f"{kind}_numbers", NUMBERED[0]) == four(NUMBERED[1])
    assert infer(server, f"{kind}_some", INPUTS) == four({"RESULT[last][deep]": 6, "OUTPUT__0": 321})
    assert infer(server, f"{kind}_completed", INPUTS) == four(OUTPUTS)


def test_completion_names_the_leaves(served):
    server, _ = served
    completed = server.get("/v2/models/exported_alone/config").json
    assert [i["name"] for i in completed["input"]] == list(INPUTS)
    assert [o["name"] for o in completed["output"]] == list(OUTPUTS)
    assert all(
        (io["data_type"], io["dims"]) == ("TYPE_FP32", [2, 2]) for io in completed["input"] + completed["output"]
    )
    assert infer(server, "exported_alone", INPUTS) == four(OUTPUTS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", BAD)
def test_an_error_names_the_leaves(served, kind, name):
    assert BAD[name][1].replace("KIND", kind) in served[1][f"{kind}_{name}"]


def test_a_constant_of_the_export_is_no_input(served):
    server, reasons = served
    assert not reasons["flagged"], reasons["flagged"]
    assert [i["name"] for i in server.get("/v2/models/flagged").json["inputs"]] == ["a", "b"]
    assert np.array_equal(infer(server, "flagged", {"a": 5, "b": 3})["OUTPUT__0"], [2] * 4)
