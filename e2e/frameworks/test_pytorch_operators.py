"""Models that call operators of torchvision: it is imported where it is, and named where it is not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import settled
from server import Server

# The operator as torchvision has it, for where that is not installed.
STUB = """import torch

library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def nms(boxes, scores, threshold):
    kept = []
    for i in scores.argsort(descending=True).tolist():
        for j in kept:
            low, high = torch.max(boxes[i, :2], boxes[j, :2]), torch.min(boxes[i, 2:], boxes[j, 2:])
            shared = (high - low).clamp(min=0).prod()
            if shared > threshold * sum((boxes[k, 2:] - boxes[k, :2]).prod() for k in (i, j)) / (1 + threshold):
                break
        else:
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


library.impl("nms", nms, "CPU")
torch.library.register_fake("torchvision::nms", lib=library)(
    lambda boxes, scores, threshold: boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.long)
)
"""
CONFIG = """backend: "pytorch"
input { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 3, 4 ] }
input { name: "INPUT__1" data_type: TYPE_FP32 dims: [ 3 ] }
output { name: "OUTPUT__0" data_type: TYPE_INT64 dims: [ -1 ] }
"""
REAL = importlib.util.find_spec("torchvision") is not None
# A stub in Python cannot be called from compiled code.
KINDS = ["script", "exported"] + ["compiled"] * (REAL and bool(shutil.which("c++") or shutil.which("g++")))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The repository, and what the workers' PYTHONPATH has to be for it."""
    made = tmp_path_factory.mktemp("operators")
    path = os.environ.get("PYTHONPATH", "")
    if not REAL:
        (made / "site" / "torchvision").mkdir(parents=True)
        (made / "site" / "torchvision" / "__init__.py").write_text(STUB)
        path = f"{made / 'site'}:{path}"
    orders = []
    for kind in KINDS:
        (made / "models" / kind / "1").mkdir(parents=True)
        (made / "models" / kind / "config.pbtxt").write_text(CONFIG)
        orders.append(f"{made / 'models' / kind / '1' / ('model.pt' if kind == 'script' else 'model.pt2')}={kind}")
    script = Path(__file__).with_name("make_operators.py")
    subprocess.run([sys.executable, script, *orders], check=True, timeout=400, env={**os.environ, "PYTHONPATH": path})
    return made / "models", path


def test_torchvision_is_imported_for_its_operators(made):
    repo, path = made
    with Server(repo, "--exit-on-error=false", wait=False, env={"PYTHONPATH": path}) as s:
        assert settled(s, len(KINDS)) == dict.fromkeys(KINDS, "")
        boxes, scores = [0, 0, 4, 4, 0, 0, 4, 3.9, 9, 9, 12, 12], [0.5, 0.9, 0.1]
        body = {"inputs": [
            {"name": "INPUT__0", "datatype": "FP32", "shape": [3, 4], "data": boxes},
            {"name": "INPUT__1", "datatype": "FP32", "shape": [3], "data": scores},
        ]}  # fmt: skip
        for kind in KINDS:
            assert s.infer(kind, body).json["outputs"][0]["data"] == [1, 2], kind


def broken(kind, site):
    """A torchvision that cannot be imported, or none; what the error says."""
    if kind == "missing":
        return "and torchvision is not installed in"
    (site / "torchvision").mkdir(parents=True)
    text = "import no_such_part" if kind == "incomplete" else "raise RuntimeError('it was built for another PyTorch')"
    (site / "torchvision" / "__init__.py").write_text(text)
    if kind == "incomplete":
        return "and the module 'no_such_part' of torchvision is not installed"
    return "but torchvision cannot be imported: RuntimeError: it was built for another PyTorch"


@pytest.mark.parametrize("kind", ["missing", "incomplete", "unfit"])
def test_an_error_names_torchvision(made, tmp_path, kind):
    if kind == "missing" and REAL:
        pytest.skip("torchvision is installed here")
    said = broken(kind, tmp_path)
    with Server(made[0], "--exit-on-error=false", wait=False, env={"PYTHONPATH": str(tmp_path)}) as s:
        for model, reason in settled(s, len(KINDS)).items():
            assert f"'{model}/1/model.pt" in reason and "calls the operator torchvision::nms, " + said in reason
            assert "install the" in reason and "that belongs to PyTorch" in reason
