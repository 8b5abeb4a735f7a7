"""neso.inprocess: the server in a Python program, over libtritonserver.so."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from server import ROOT
from test_library import IDENTITY, LIBRARY, REPEAT

PROGRAM = Path(__file__).parent / "programs" / "inprocess.py"
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.M)

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="needs `make capi`")

TEXTS = """backend: "python"
input { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "SAME" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "PARAMETERS" data_type: TYPE_STRING dims: [ 1 ] }
""".replace("TYPE_STRING dims: [ -1 ]", "TYPE_STRING dims: [ -1, -1 ]")
ECHO = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.one(r) for r in requests]

    def one(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        told = np.array([request.parameters()], object)
        return pb_utils.InferenceResponse([pb_utils.Tensor("SAME", texts), pb_utils.Tensor("PARAMETERS", told)])
"""
FAILING = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        why = [pb_utils.get_input_tensor_by_name(r, "TEXT").as_numpy()[0].decode() for r in requests]
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError(f"because of {w}")) for w in why]
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    top = tmp_path_factory.mktemp("models")
    configs = {
        "identity": IDENTITY,
        "repeat": REPEAT,
        "echo": TEXTS,
        "failing": 'backend: "python"\ninput { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }\n'
        'output { name: "SAME" data_type: TYPE_STRING dims: [ 1 ] }\n',
    }
    for name, config in configs.items():
        (top / name / "1").mkdir(parents=True)
        (top / name / "config.pbtxt").write_text(config)
    (top / "labelled" / "2").mkdir(parents=True)
    (top / "labelled" / "1").mkdir()
    (top / "labelled" / "config.pbtxt").write_text(IDENTITY + "version_policy: { all { } }\n")
    (top / "labelled" / "rollout.yaml").write_text("labels: {stable: 1}\n")
    (top / "echo" / "1" / "model.py").write_text(ECHO)
    (top / "failing" / "1" / "model.py").write_text(FAILING)
    return top


def run(*command: object, **environment: str) -> subprocess.CompletedProcess:
    # A process of its own: the library brings a runtime that stays.
    known = {name: value for name, value in os.environ.items() if not name.startswith("NESO_")}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        env={**known, "PYTHONPATH": str(ROOT / "python"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",  # no interpreter for Python models is found there
        check=False,
    )


@pytest.fixture(scope="module")
def results(repository) -> dict:
    done = run(PROGRAM, repository)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    assert not done.stderr, done.stderr[-6000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("check", CHECKS)
def test_checks(results, check):
    assert results[check] is None, results[check]


def test_no_library(tmp_path):
    """What is missing, what makes it, and what names it."""
    program = "from neso import inprocess; inprocess.Server(model_repository='models').start()"
    done = run("-c", program, NESO_LIBRARY=str(tmp_path / "none.so"))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("FileNotFoundError: libtritonserver.so was not found"), done.stderr
    assert "none.so" in last and "make capi" in last and "NESO_LIBRARY" in last
    (tmp_path / "libtritonserver.so").write_bytes(b"no library")
    done = run("-c", program, NESO_LIBRARY=str(tmp_path))
    assert "FileNotFoundError" in done.stderr and "invalid ELF header" in done.stderr.replace(
        "file too short", "invalid ELF header"
    )


def test_example_of_the_docs(repository):
    page = (ROOT / "docs" / "use" / "inprocess.md").read_text()
    program = re.search(r"```python\n(.*?)```", page, re.S)[1].replace('"models"', repr(str(repository)))
    printed = re.search(r"```text\n(.*?)```", page, re.S)[1]
    done = run("-c", program)
    assert done.returncode == 0 and done.stdout == printed, done.stdout + done.stderr
