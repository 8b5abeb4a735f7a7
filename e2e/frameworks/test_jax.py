"""The example of docs/jax.md, a JAX function behind the server."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from server import ROOT

pytest.importorskip("jax", reason="this interpreter lacks jax (make test-frameworks)")


def test_digits():
    ports = [f"--{end}-port=0" for end in ("http", "grpc", "metrics")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "NESO_BINARY": str(ROOT / "bin" / "neso")}
    r = subprocess.run(
        [sys.executable, "examples/callables/jax_digits.py", "--once", *ports],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        env=environment,
    )
    assert r.returncode == 0, r.stdout + r.stderr
    right, of = map(int, re.findall(r"(\d+) of (\d+) held-out", r.stdout)[0])
    assert (right, of) == (197, 200)
