"""These tests run in an interpreter that has the frameworks: `make test-frameworks` makes one."""

from __future__ import annotations

import importlib.util

_missing = [name for name in ("torch", "tensorflow", "sklearn", "skops") if importlib.util.find_spec(name) is None]
collect_ignore_glob = ["test_*.py"] if _missing else []


def pytest_report_header():
    """Says why nothing runs here where it does not."""
    if _missing:
        return f"e2e/frameworks is left out: this interpreter lacks {', '.join(_missing)} (make test-frameworks)"
    return None
