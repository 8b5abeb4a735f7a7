"""Makes the package and the harness importable."""

from __future__ import annotations

import os
import sys

import pytest

sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.dirname(os.path.abspath(__file__))]


@pytest.fixture(params=["private", "copied"])
def inputs(request, monkeypatch):
    """Inputs that others read too are private mappings, and copies where the user wants no such mappings."""
    if request.param == "copied":
        from harness import needs_private_views

        if needs_private_views.mark in request.node.own_markers:
            pytest.skip("what only private mappings do")
        monkeypatch.setenv("NESO_PRIVATE_INPUTS", "0")
    return request.param
