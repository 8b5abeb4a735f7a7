"""One set of questions for our C library and for the peer's.

probe/ asks them; transcripts/probe has the peer's answers, and ours where they differ.

NESO_REWRITE=1 with PEER asks the peer's library anew and writes the transcripts; PEER alone compares it with them.
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from libraries import backend, compile
from nvidia import python_backend
from test_library import LIBRARY

HERE = Path(__file__).resolve().parent
RECORDED = HERE / "transcripts" / "probe"
STORIES = subprocess.run(
    [sys.executable, HERE / "probe", "list"], capture_output=True, text=True, check=True
).stdout.split()
OURS, THEIRS = "ours> ", "peer> "


def ask(story: str, home: Path, library: Path, python: str | Path, **env: str) -> list[str]:
    home.mkdir(parents=True)
    done = subprocess.run(
        [python, HERE / "probe", library, home, story],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    shutil.rmtree(home)
    assert done.returncode == 0, f"{story}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout.splitlines()


def recorded(story: str, whose: str) -> list[str]:
    other = THEIRS if whose == OURS else OURS
    lines = (RECORDED / f"{story}.txt").read_text().splitlines()
    return [line.removeprefix(whose) for line in lines if not line.startswith(other)]


def merged(theirs: list[str], ours: list[str]) -> str:
    """Both in one file: lines of one of them say whose they are."""
    out = []
    for kind, a, b, x, y in difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
        if kind == "equal":
            out += theirs[a:b]
        else:
            out += [THEIRS + line for line in theirs[a:b]] + [OURS + line for line in ours[x:y]]
    return "\n".join(out) + "\n"


def compare(got: list[str], want: list[str], story: str) -> None:
    difference = "\n".join(difflib.unified_diff(want, got, "recorded", "answered", lineterm="", n=1))
    assert not difference, f"{story}:\n{difference}"


@pytest.fixture(scope="module")
def libs(tmp_path_factory):
    """The libraries in C of the stories of probe/tellers.py."""
    top = tmp_path_factory.mktemp("libs")
    backend(top / "backends", "says", "says.c")
    compile("caches/tells.c", top / "caches" / "tells" / "libtritoncache_tells.so")
    return top


@pytest.fixture(scope="module")
def answers(tmp_path_factory, libs):
    """Our answers to all stories, a few at a time: most of them wait for workers to start."""
    if not LIBRARY.exists():
        pytest.skip("needs `make capi`")
    top = tmp_path_factory.mktemp("probe")
    env = {"NESO_PYTHON": sys.executable, "PROBE_LIBS": str(libs)}
    with ThreadPoolExecutor(3) as pool:
        yield {s: pool.submit(ask, s, top / s, LIBRARY, sys.executable, **env) for s in STORIES}


@pytest.fixture(scope="module")
def peer(tmp_path_factory, libs):
    """Asks the peer's library."""
    top = tmp_path_factory.mktemp("peer")
    backends, env = python_backend(top)
    library = next(Path(env["LD_LIBRARY_PATH"]).glob("libtritonserver-*.so"))
    packages = library.parents[1]
    caches = packages / "pytriton" / "tritonserver" / "caches"
    python = packages.parents[2] / "bin" / "python"
    shutil.copytree(libs / "backends", backends, dirs_exist_ok=True)
    env |= {"PROBE_BACKENDS": str(backends), "PROBE_CACHES": str(caches), "PROBE_LIBS": str(libs)}
    return lambda story: ask(story, top / "homes" / story, library, python, **env)


@pytest.mark.parametrize("story", STORIES)
def test_ours(story, answers, request):
    got = answers[story].result()
    if os.environ.get("NESO_REWRITE"):
        theirs = request.getfixturevalue("peer")(story)
        RECORDED.mkdir(exist_ok=True)
        (RECORDED / f"{story}.txt").write_text(merged(theirs, got))
    compare(got, recorded(story, OURS), story)


@pytest.mark.skipif("PEER" not in os.environ, reason="PEER names no environment with nvidia-pytriton==0.7.0")
@pytest.mark.parametrize("story", STORIES)
def test_peer(story, peer):
    compare(peer(story), recorded(story, THEIRS), story)
