"""These tests run in an interpreter that has the frameworks: `make test-frameworks` makes one."""

from __future__ import annotations

import importlib.util
import os

import pytest

_missing = [name for name in ("torch", "tensorflow", "sklearn", "skops") if importlib.util.find_spec(name) is None]
collect_ignore_glob = ["test_*.py"] if _missing else []


def pytest_report_header():
    """Says why nothing runs here where it does not."""
    if _missing:
        return f"e2e/frameworks is left out: this interpreter lacks {', '.join(_missing)} (make test-frameworks)"
    return None


def pytest_configure(config):
    config.addinivalue_line("markers", "full: takes half a minute of processor time or more")


def pytest_collection_modifyitems(items):
    """What takes long is left to `make test-frameworks`: CI runs the others beside all its other steps."""
    if os.environ.get("NESO_FULL") == "1":
        return
    skip = pytest.mark.skip(
        reason="half a minute of processor time or more: NESO_FULL=1, as make test-frameworks sets it"
    )
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(skip)
