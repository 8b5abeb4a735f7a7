"""The looks of the soak run: what goes away by itself does not count, what stays does."""

from __future__ import annotations

import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "operate"))

import soak  # noqa: E402 - it lies in a folder of its own


def lowest(goroutines):
    """What lowest makes of the goroutines of one reading after the other, the last of them for ever."""
    now = itertools.count()
    readings = itertools.chain(goroutines, itertools.repeat(goroutines[-1]))
    read = {"go_goroutines": 0.0, "process_open_fds": 10.0}
    return soak.lowest(
        lambda: {**read, "go_goroutines": next(readings)}, quiet=8, most=100, clock=lambda: next(now) / 4, pause=lambda _: None
    )  # fmt: skip


def test_connections_that_end_a_little_later_do_not_count():
    assert lowest([117, 117, 100, 76, 77]) == {"go_goroutines": 76, "process_open_fds": 10}


def test_what_stays_counts():
    assert lowest([117]) == {"go_goroutines": 117, "process_open_fds": 10}


def test_a_server_that_never_settles_is_looked_at_in_bounded_time():
    assert lowest(list(range(10_000, 0, -1)))["go_goroutines"] > 1
