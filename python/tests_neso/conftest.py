"""Makes the packages importable from the checkout and starts servers for the tests."""

from __future__ import annotations

import os
import pathlib
import sys
import warnings

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python" / "pytriton-compat")]
os.environ.setdefault("NESO_BINARY", str(ROOT / "bin" / "neso"))
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), str(ROOT / "python" / "pytriton-compat")])


def config(**settings):
    """Any free ports, on loopback only."""
    from neso import TritonConfig

    ends = {"http_address": "127.0.0.1", "grpc_address": "127.0.0.1", "metrics_address": "127.0.0.1"}
    return TritonConfig(**{**ends, "http_port": 0, "grpc_port": 0, "metrics_port": 0, **settings})


@pytest.fixture(scope="module")
def triton():
    """A server without models."""
    from neso import Triton

    with Triton(config=config()) as started:
        yield started


@pytest.fixture(autouse=True)
def _quiet():
    from neso.client.warnings import NotSupportedTimeoutWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotSupportedTimeoutWarning)
        yield
