"""NVIDIA's Python backend out of a wheel of Triton's, as its unmodified binary."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def python_backend(top: Path) -> tuple[Path, dict[str, str]]:
    """A backend directory that has it, with the environment of a server that uses it. PEER names where it comes from."""
    packages = next(Path(os.environ.get("PEER", "/nowhere")).glob("lib/python3*/site-packages"), None)
    if packages is None:
        pytest.skip("PEER names no environment with nvidia-pytriton==0.7.0")
    peer, version = packages / "pytriton" / "tritonserver", packages.parent.name.removeprefix("python")
    libs = top / "a" / "b" / "c"  # its libraries are four folders up from it, in nvidia_pytriton.libs
    shutil.copytree(peer / "backends" / "python", libs / "python")
    (top / "nvidia_pytriton.libs").symlink_to(packages / "nvidia_pytriton.libs")
    stub = libs / "python" / "triton_python_backend_stub"
    shutil.copy(peer / "python_backend_stubs" / version / "triton_python_backend_stub", stub)
    stub.chmod(0o755)
    return libs, {
        "PATH": f"{packages.parents[2] / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs"),
    }
