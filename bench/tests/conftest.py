import pathlib
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))


@pytest.fixture
def sample():
    """Text that wrk or h2load printed, by file name."""
    return lambda name: (BENCH / "tests" / "samples" / name).read_text(encoding="utf-8")
