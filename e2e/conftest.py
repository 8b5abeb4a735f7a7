"""Shared servers and forms."""

from __future__ import annotations

import pytest
from forms import FORMS
from server import MODELS, Server


@pytest.fixture(scope="session")
def server():
    """All models of e2e/models, for tests that change nothing."""
    with Server(MODELS) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]
