"""Wheels for other platforms, from this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest
from server import BINARY, ROOT

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


@pytest.mark.parametrize("platform", TAGS)
def test_wheels_have_the_tag_of_their_platform(tmp_path, platform):
    system, arch = platform.split("/")
    done = build(tmp_path, system, arch)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.iterdir()
    assert wheel.name.endswith(f"-py3-none-{TAGS[platform]}.whl")
    program = "neso/bin/neso.exe" if system == "windows" else "neso/bin/neso"
    with zipfile.ZipFile(wheel) as z:
        info = z.getinfo(program)
        assert info.external_attr >> 16 & 0o111 and info.file_size == BINARY.stat().st_size
        metadata = z.read(next(n for n in z.namelist() if n.endswith("/WHEEL"))).decode()
    assert "Root-Is-Purelib: false" in metadata
    assert {f"Tag: py3-none-{t}" for t in TAGS[platform].split(".")} <= set(metadata.splitlines())


def test_the_same_wheel_twice_and_another_libc(tmp_path):
    wheels = []
    for n in "ab":
        assert build(tmp_path / n, "linux", "amd64").returncode == 0
        wheels += (tmp_path / n).iterdir()
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    done = build(tmp_path, "linux", "amd64", NESO_LIBC="uclibc")
    assert done.returncode != 0 and "NESO_LIBC: expected glibc or musl, got 'uclibc'" in done.stdout + done.stderr
