"""The commands of docs/models/frameworks.md that need a framework, and the digits of all formats by one client."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from server import ROOT, Server

REPOSITORY = ROOT / "examples" / "frameworks_python"


def commands():
    """The commands in console blocks from the section on frameworks in Python on."""
    text = (ROOT / "docs" / "models" / "frameworks.md").read_text().split("## Frameworks in Python", 1)[1]
    text = text.split("## A sentence encoder", 1)[0]  # test_minilm.py runs those
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ ") and not line.startswith("$ bin/neso serve"):
                yield line[2:]


@pytest.fixture(scope="module")
def digits():
    with Server(REPOSITORY, wait=False) as s:
        s.wait_ready()
        yield s


@pytest.mark.parametrize("command", list(commands()))
def test_command(digits, command):
    command = command.replace("localhost:8000", digits.http).replace("curl -s ", "curl -sS --fail-with-body ")
    if command.startswith("python examples/client.py"):
        ports = f" --http-port={digits.http_port} --grpc-port={digits.grpc_port}"
        command = command.replace("python", sys.executable, 1) + ports
    environment = {**os.environ, "NESO_PYTHON": sys.executable}
    r = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=400, env=environment)
    assert r.returncode == 0 and r.stdout.strip(), r.stdout + r.stderr
    if "client.py" in command:
        right = [int(a) / int(b) for a, b in re.findall(r"(\d+) of (\d+) held-out", r.stdout)]
        assert len(right) == 2 and min(right) > 0.9, r.stdout


def test_all_formats_give_the_same_answers(digits):
    import numpy as np
    from tritonclient import http

    with np.load(ROOT / "examples" / "digits_test.npz") as data:
        images = data["images"][:20].astype(np.float32)
    answers = []
    with http.InferenceServerClient(digits.http) as client:
        for model in sorted(p.name for p in REPOSITORY.iterdir()):
            tensor = http.InferInput("IMAGE", list(images.shape), "FP32")
            tensor.set_data_from_numpy(images)
            answers.append(client.infer(model, [tensor]).as_numpy("PROBABILITIES"))
    assert len(answers) == 3
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=1e-5)


def test_backends_lists_what_is_there():
    r = subprocess.run(
        [ROOT / "bin" / "neso", "backends", "--python", sys.executable], capture_output=True, text=True, timeout=180
    )
    rows = {line.split()[0]: line for line in r.stdout.splitlines()}
    for name in ("pytorch", "tensorflow", "sklearn"):
        assert "pip install" not in rows[name], r.stdout
    assert "CUDA" not in rows["tensorflow"] and " CPU " in rows["tensorflow"], "tensorflow-cpu"
    assert "tensorrt" in rows and "backend 'dali' is not there" in rows["dali"]


@pytest.mark.parametrize("model", ["digits_torchscript/1/model.pt", "digits_sklearn/1/model.skops"])
def test_config_init_of_a_file(model, tmp_path):
    path = tmp_path / os.path.basename(model)
    path.write_bytes((REPOSITORY / model).read_bytes())
    r = subprocess.run(
        [ROOT / "bin" / "neso", "config", "init", path, "--python", sys.executable],
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert r.returncode == 0 or "Write 'input'" in r.stderr, r.stderr
