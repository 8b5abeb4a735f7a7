"""Servers of root whose workers are those of user nobody."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from server import Server

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start workers of another user")


def python_for_all(directory):
    """An interpreter with numpy that user nobody may run, and its PYTHONPATH; or None.

    The one of the tests lies in somebody's home often. Another one of the same version takes a copy of its numpy.
    """
    nobody = pwd.getpwnam("nobody")
    site = Path(np.__file__).parent.parent
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}"):
        for path in ("", directory / "site"):
            if path:
                for part in ("numpy", "numpy.libs"):
                    if (site / part).exists() and not (path / part).exists():
                        shutil.copytree(site / part, path / part, ignore=shutil.ignore_patterns("tests", "*.pyi"))
            command = [python, "-c", "import numpy"]
            try:
                as_nobody = dict(user=nobody.pw_uid, group=nobody.pw_gid, cwd="/", env={"PYTHONPATH": str(path)})
                if subprocess.run(command, **as_nobody, capture_output=True).returncode == 0:
                    return python, str(path)
            except OSError:
                break
    return None


@contextlib.contextmanager
def served(repo, *options, env=None):
    """A server of the repository whose workers run as nobody, who can read it and may write to what the tests make for it."""
    with tempfile.TemporaryDirectory() as site:
        os.chmod(site, 0o755)
        for d in (repo, *repo.parents[:3]):
            d.chmod(d.stat().st_mode | 0o055)
        found = python_for_all(Path(site))
        if found is None:
            pytest.skip("user nobody can run no Python with numpy here")
        python, path = found
        with Server(
            repo, "--worker-user=nobody", f"--python={python}", *options, env={"PYTHONPATH": path, **(env or {})}
        ) as s:
            yield s


def onnxruntime_for_all(directory):
    """ONNX Runtime where everybody may read it."""
    capi = Path(pytest.importorskip("onnxruntime").__file__).parent / "capi"
    found = next(p for p in sorted(capi.iterdir()) if p.name.startswith("libonnxruntime.so"))
    return str(shutil.copy(found, directory / found.name))


def writable(path):
    """A directory that nobody may write to."""
    path.mkdir()
    path.chmod(0o777)
    return path
