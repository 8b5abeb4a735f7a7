"""A server with narrow limits, for attacks."""

from __future__ import annotations

import shutil

import pytest
from harness import Hostile
from server import MODELS, Server

LIMIT = 128 << 20  # bytes of --max-queued-bytes


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    """The server. GOGC is as everywhere: garbage counts for what the server holds."""
    repo = tmp_path_factory.mktemp("hostile") / "models"
    for name in ("identity_any_fp32", "identity_any_fp64", "identity_any_bytes", "python_any_fp32"):
        shutil.copytree(MODELS / name, repo / name)
    with Server(repo, f"--max-queued-bytes={LIMIT}", "--model-control-mode=explicit", "--load-model=*") as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture
def hostile(target):
    """The server, with a polite client over HTTP."""
    h = Hostile(target)
    yield h
    h.close()


@pytest.fixture
def hostile_grpc(target):
    """The server, with a polite client over gRPC."""
    h = Hostile(target, "grpc")
    yield h
    h.close()
