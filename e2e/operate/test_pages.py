"""Examples of the pages that need something of their own: a model that the page describes, the command, a program of the user's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from server import ROOT, Server
from test_docs import BLOCK
from test_docs import example_server as example_server  # the fixture

PYTHON = {"PYTHONPATH": str(ROOT / "python"), "NESO_BINARY": str(ROOT / "bin" / "neso"), "NESO_PYTHON": sys.executable}


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall((ROOT / page).read_text()) if kind == language]


def bash(text: str, s: Server | None = None, cwd: Path = ROOT) -> str:
    """What commands print, those of the server with it in place of the one on port 8000."""
    env = {**os.environ, "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}"}
    if s:
        text = text.replace("localhost:8000", s.http)
        env |= {"NESO_URL": s.http}
    r = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout


def commands(text: str) -> str:
    """The commands of a console block without what they print: a command goes on where a quote is open."""
    kept = []
    for line in text.splitlines():
        if line.startswith("$ "):
            kept.append(line[2:])
        elif kept and kept[-1].count("'") % 2:
            kept[-1] += "\n" + line
    return "\n".join(kept)


def model_of(page: str, name: str, repository: Path) -> None:
    """The model that a page writes down, each file behind a line with its path."""
    files = re.findall(r"^`models/([\w/.]+)`.*?:\n\n```\w+\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    assert files and all(path.startswith(f"{name}/") for path, _ in files), files
    for path, text in files:
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text)


def test_first_requests(example_server):
    (block,) = [t for t in blocks("examples/README.md", "console") if t.startswith("$ curl")]
    told = bash(commands(block).replace("\ncurl", "; echo\ncurl"), example_server)
    words, same = told.splitlines()
    assert '"outputs"' in words and '"data":[1.0,2.0,3.0]' in same.replace("[1,2,3]", "[1.0,2.0,3.0]"), told


def test_commands_of_a_running_server(example_server):
    (block,) = [t for t in blocks("docs/cli.md", "sh") if t.startswith("neso ready")]
    told = bash(
        block.replace("neso top\n", f"neso top --count=1 --metrics-url=127.0.0.1:{example_server.metrics_port}\n"),
        example_server,
    )
    for want in ("add_sub", "OUTPUT0", "12", "REQ/S"):
        assert want in told, told


def test_a_sequence(example_server):
    (block,) = [t for t in blocks("docs/models/sequences.md", "console") if t.startswith("$ send()")]
    told = bash(commands(block), example_server)
    assert re.findall(r'"data":\[([\d.]+)\]', told) == ["1.0", "3.0", "7.0"], told
    assert "must specify the START flag on the first request of the sequence" in told.splitlines()[-1], told


def test_a_stream_by_python_alone(example_server):
    (block,) = [t for t in blocks("docs/models/streaming.md", "python") if t.startswith("import http.client")]
    program = block.replace("localhost:8000", example_server.http)
    r = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert r.stdout.split() == ["one", "two", "three"], r.stdout + r.stderr


def test_a_manifest(tmp_path):
    (block,) = [t for t in blocks("docs/models/model-repository.md", "sh") if "sha256sum" in t]
    bash(block.replace("/tmp/add_sub", f"{tmp_path}/add_sub").replace(f" && rm -r {tmp_path}/add_sub", ""))
    (tmp_path / "models").mkdir()
    (tmp_path / "add_sub").rename(tmp_path / "models" / "add_sub")
    with Server(tmp_path / "models", "--repository-require-manifest=true") as s:
        assert s.get("/v2/models/add_sub/ready").status == 200


def test_a_model_on_demand(tmp_path):
    page = "docs/models/on-demand.md"
    model_of(page, "double", tmp_path)
    (block,) = [t for t in blocks(page, "console") if "curl" in t]
    start, *rest = block.splitlines()
    options = [o for o in start.split() if o.startswith("--model-") and "repository" not in o]
    with Server(tmp_path, *options) as s:
        told = bash(commands("\n".join(rest)).replace("\ncurl", "; echo\ncurl"), s)
    assert told.splitlines() == [line for line in rest if not line.startswith("$")]


def test_labels_of_versions(tmp_path):
    page = "docs/operate/versions.md"
    config = (
        'backend: "identity"\nversion_policy: { all { } }\ninput [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
        'output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
    )
    for version in ("1", "2"):
        (tmp_path / "scores" / version).mkdir(parents=True)
    (tmp_path / "scores" / "config.pbtxt").write_text(config)
    (block,) = [t for t in blocks(page, "console") if "neso label" in t]
    start, *rest = block.splitlines()
    options = [o for o in start.split() if o.startswith("--") and "repository" not in o]
    with Server(tmp_path, *options) as s:
        told = bash(commands("\n".join(rest)).replace("\ncurl", "; echo\ncurl"), s)
    said = [line.split("...")[0] for line in rest if not line.startswith("$")]
    for want, line in zip(said, [line for line in told.splitlines() if line], strict=False):
        assert line.startswith(want), (want, told)
    assert '"stable":2' in told.replace(" ", ""), told


@pytest.mark.parametrize("page", ["README.md", "docs/use/pytriton.md"])
def test_a_callable(page):
    """As it stands there, but for its ports, and until it has been asked once."""
    text = next(t for t in blocks(page, "python") if "triton.serve()" in t)
    free = "Triton(config=TritonConfig(http_port=0, grpc_port=0, metrics_port=0))"
    name, size = ("double", {"x": 2.0}) if page == "README.md" else ("AddSub", {"a": 2.0, "b": 3.0})
    ask = f"triton.run(); print(triton.client({name!r}).infer_sample(**{{k: np.float32([v]) for k, v in {size}.items()}}))"
    if page != "README.md":
        ask = ask.replace("infer_sample", "infer_batch").replace("np.float32([v])", "np.float32([[v]])")
    text = (
        text.replace("Triton()", free)
        .replace("triton.serve()", ask)
        .replace("import Tensor", "import TritonConfig, Tensor")
    )
    text = text.replace("import ModelConfig", "import TritonConfig, ModelConfig")
    r = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, **PYTHON}, capture_output=True, text=True, timeout=120
    )
    assert r.returncode == 0, r.stdout + r.stderr
    assert ("4." in r.stdout) if page == "README.md" else ("5." in r.stdout and "-1." in r.stdout), r.stdout + r.stderr


def test_a_model_in_a_unit_test(tmp_path):
    (block,) = [t for t in blocks("docs/models/python-models.md", "python") if "neso.testing" in t]
    (tmp_path / "test_model.py").write_text(block)
    r = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--rootdir={tmp_path}",
            tmp_path / "test_model.py",
        ],
        cwd=ROOT,
        env={**os.environ, **PYTHON},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert r.returncode == 0 and "1 passed" in r.stdout, r.stdout + r.stderr


def test_the_first_model(tmp_path):
    """The class at the top of docs/models/python-models.md, with the configuration that its tensors need."""
    text = next(t for t in blocks("docs/models/python-models.md", "python") if "class TritonPythonModel" in t)
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text(text)
    (tmp_path / "m" / "config.pbtxt").write_text(
        'backend: "python"\ninput [ { name: "INPUT" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
        'output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ -1 ] } ]\n'
    )
    with Server(tmp_path) as s:
        r = s.infer("m", {"inputs": [{"name": "INPUT", "datatype": "FP32", "shape": [2], "data": [1, 2]}]})
        assert r.status == 200 and r.json["outputs"][0]["data"] == [2, 4], r
