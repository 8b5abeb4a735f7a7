"""Runs the examples of bound callables."""

from __future__ import annotations

import os
import subprocess
import sys

from server import ROOT


def callables(name: str, timeout: float) -> str:
    """What an example of examples/callables prints when it asks itself once, on any ports."""
    ports = [f"--{end}-port=0" for end in ("http", "grpc", "metrics")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "NESO_BINARY": str(ROOT / "bin" / "neso")}
    r = subprocess.run(
        [sys.executable, f"examples/callables/{name}.py", "--once", *ports],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
    )
    assert r.returncode == 0, r.stdout + r.stderr
    return r.stdout
