"""Tests on a real GPU: `make gpu-check`. Elsewhere they say why they are skipped, and those that a stand-in for the driver can show are
in e2e/backends/test_gpu_tensors.py and e2e/operate/test_gpus.py."""

from __future__ import annotations

import os

import pytest
from device import IDENTITY
from gpus import fault
from repository import place
from server import Server


def pytest_collection_modifyitems(items):
    """NESO_GPU=required, as `make gpu-check` sets it, runs them without a GPU too, so that they fail."""
    if os.environ.get("NESO_GPU") == "required" or not (why := fault()):
        return
    for item in items:
        if "/e2e/gpu/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=f"there is no GPU here: {why}"))


@pytest.fixture
def repo(tmp_path):
    return tmp_path / "models"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A model that answers with its input: the machine needs no framework for it."""
    models = tmp_path_factory.mktemp("served") / "models"
    place(models / "identity", {"config.pbtxt": IDENTITY, "1/.keep": ""})
    with Server(models) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]
