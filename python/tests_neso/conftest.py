"""Makes the packages importable from the checkout and starts servers for the tests."""

from __future__ import annotations

import os
import pathlib
import sys
import threading
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


class Log:
    """What servers log, for the test that runs, or the next one.

    A line may come between two tests, when pytest captures nothing: it would stand among the dots, as if it were
    nobody's.
    """

    def __init__(self):
        self._lock, self._runs, self._kept = threading.Lock(), False, []

    def __call__(self, line):
        with self._lock:
            self._kept.append(line + "\n")
            self._flush()

    def runs(self, runs):
        with self._lock:
            self._runs = runs
            self._flush()

    def _flush(self):
        if self._runs:
            sys.stderr.write("".join(self._kept))
            self._kept.clear()


LOG = Log()


def _captured():
    LOG.runs(True)
    try:
        return (yield)
    finally:
        LOG.runs(False)


# The innermost of the wrappers: pytest's own, which captures, is around it.
pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = pytest.hookimpl(wrapper=True, trylast=True)(
    _captured
)


@pytest.fixture(scope="session", autouse=True)
def _logs():
    from neso import _server

    class Logged(_server.Server):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **{"output": LOG, **kwargs})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_server, "Server", Logged)
        yield


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
