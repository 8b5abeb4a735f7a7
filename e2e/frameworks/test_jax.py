"""The example of docs/use/jax.md, a JAX function behind the server."""

from __future__ import annotations

import re

import pytest
from programs import callables

pytest.importorskip("jax", reason="this interpreter lacks jax (make test-frameworks)")


def test_digits():
    right, of = map(int, re.findall(r"(\d+) of (\d+) held-out", callables("jax_digits", 400))[0])
    assert (right, of) == (197, 200)
