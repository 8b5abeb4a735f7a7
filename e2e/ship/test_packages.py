"""Wheels for other platforms, from this machine; that of this one in an environment of its own."""

from __future__ import annotations

import json
import os
import platform as machine
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import server as started
from repository import X, identity_model
from server import BINARY, ROOT, Server, free_port

TAGS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64",
    "musl/amd64": "musllinux_1_1_x86_64",
    "musl/arm64": "musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_11_0_x86_64",
    "darwin/arm64": "macosx_11_0_arm64",
    "windows/amd64": "win_amd64",
    "windows/arm64": "win_arm64",
}


def build(out, system, arch, **more):
    env = {**os.environ, "NESO_BINARY": str(BINARY), "GOOS": system, "GOARCH": arch, "SOURCE_DATE_EPOCH": "1700000000"}
    if system == "musl":
        env.update(GOOS="linux", NESO_LIBC="musl")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", f"--outdir={out}", str(ROOT / "python")]
    return subprocess.run(command, env={**env, **more}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel for this machine."""
    out = tmp_path_factory.mktemp("wheel")
    done = build(out, "linux", {"x86_64": "amd64", "aarch64": "arm64"}[machine.machine()])
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return made


@pytest.mark.parametrize("platform", TAGS)
def test_wheels_have_the_tag_of_their_platform(tmp_path, platform):
    system, arch = platform.split("/")
    binary = tmp_path / "program"  # a small one: packing the real one takes seconds
    binary.write_bytes(os.urandom(4096))
    out = tmp_path / "wheel"
    done = build(out, system, arch, NESO_BINARY=str(binary))
    assert done.returncode == 0, done.stderr
    (wheel,) = out.iterdir()
    assert wheel.name.endswith(f"-py3-none-{TAGS[platform]}.whl")
    program = "neso/bin/neso.exe" if system == "windows" else "neso/bin/neso"
    with zipfile.ZipFile(wheel) as z:
        info = z.getinfo(program)
        assert info.external_attr >> 16 & 0o111 and z.read(program) == binary.read_bytes()
        metadata = z.read(next(n for n in z.namelist() if n.endswith("/WHEEL"))).decode()
    assert "Root-Is-Purelib: false" in metadata
    assert {f"Tag: py3-none-{t}" for t in TAGS[platform].split(".")} <= set(metadata.splitlines())


def test_the_same_wheel_twice_and_another_libc(tmp_path, wheel):
    again = tmp_path / wheel.name
    assert build(tmp_path, "linux", {"x86_64": "amd64", "aarch64": "arm64"}[machine.machine()]).returncode == 0
    assert again.read_bytes() == wheel.read_bytes()
    done = build(tmp_path, "linux", "amd64", NESO_LIBC="uclibc")
    assert done.returncode != 0 and "NESO_LIBC: expected glibc or musl, got 'uclibc'" in done.stdout + done.stderr


BOUND = """import json, sys, urllib.request
import numpy as np
import neso
from neso import ModelConfig, Tensor, Triton, TritonConfig, batch

@batch
def twice(x):
    return {"y": 2 * x}

port = int(sys.argv[1])
config = TritonConfig(http_port=port, http_address="127.0.0.1", allow_grpc=False, allow_metrics=False)
with Triton(config=config) as triton:
    triton.bind("twice", twice, [Tensor(name="x", dtype=np.float32, shape=(-1,))],
                [Tensor(name="y", dtype=np.float32, shape=(-1,))], config=ModelConfig(max_batch_size=4))
    triton.run()
    body = {"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}]}
    url = f"http://127.0.0.1:{port}/v2/models/twice/infer"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=300))
print(json.dumps([answer["outputs"][0]["data"], neso.__file__]))
"""


def test_a_wheel_in_an_environment_of_its_own(tmp_path, wheel, monkeypatch):
    """pip installs the wheel; then its commands, a server of a repository and a bound callable work, and nothing of the checkout is used.

    What the package depends on is taken from the environment of the tests, with NESO_FULL=1 from the registry.
    """
    home = tmp_path / "env"
    full = os.environ.get("NESO_FULL") == "1"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    python, packages = home / "bin" / "python", Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    if not full:
        (packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("PYTHONPATH", "NESO_BINARY", "NESO_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, *([] if full else ["--no-index"]), wheel], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr

    def run(*command) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    assert run(home / "bin" / "neso", "--version") == run(BINARY, "--version")
    identity_model(tmp_path / "models", "same")
    monkeypatch.setattr(started, "BINARY", home / "bin" / "neso")
    with Server(tmp_path / "models") as server:
        assert server.infer("same", X).json["outputs"][0]["data"] == X["inputs"][0]["data"]
    assert server.process.returncode == 0, server.log()
    (tmp_path / "bound.py").write_text(BOUND)
    answer, file = json.loads(run(python, tmp_path / "bound.py", str(free_port())).splitlines()[-1])
    assert answer == [2, 4, 6] and Path(file).is_relative_to(home), (answer, file)
