"""Fixed programs: Neso answers what the real Triton answered, but for what docs/differences.md gives a reason for."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import pytest

from . import sides, transcripts
from .allow import AllowList
from .bound.sides import BoundPool, OursBound, PyTriton

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = dict(transcripts.every())


@pytest.fixture(scope="module")
def ours():
    """The server for programs of models, and our package for those of bind() calls."""
    bound = BoundPool(OursBound())
    with sides.pool("ours") as pool:
        yield lambda program: bound if program.get("kind") == "bound" else pool
    bound.close()


@functools.cache
def peer_is_here() -> bool:
    return sides.find_peer() is not None


@pytest.mark.parametrize("name", KEPT)
def test_neso_answers_what_triton_answered(ours, name):
    pool = ours(KEPT[name]["program"])
    found = AllowList().unexplained(transcripts.against(pool, KEPT[name]))
    assert not found, "\n".join(d.line() for d in found[:5])


@pytest.mark.skipif(not peer_is_here(), reason="no real Triton on this machine")
def test_the_real_triton_still_answers_so():
    peer = sides.find_peer()
    bound = BoundPool(PyTriton(peer))
    with sides.pool("peer", peer) as pool, contextlib.closing(bound):
        for name, transcript in KEPT.items():
            found = transcripts.against(bound if transcript["program"].get("kind") == "bound" else pool, transcript)
            assert not found, f"{name}: {found[0].line()}"


def test_programs_are_kept():
    assert len(KEPT) >= 20 and sum(name.startswith("bound") for name in KEPT) >= 3


def test_every_allowed_difference_has_its_row():
    for entry in AllowList().entries:
        rows = [line for line in (ROOT / entry.page).read_text().splitlines() if line.startswith("|")]
        assert any(line.split(" | ")[0].strip("| ") == entry.row for line in rows), entry.row
