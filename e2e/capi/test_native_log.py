"""What backend libraries write to the server's log."""

from __future__ import annotations

import re

import pytest
from libraries import backend, have_host, model
from server import Server


@pytest.mark.parametrize("verbose", [False, True])
def test_a_library_logs(tmp_path, verbose):
    """Its messages are lines of the server's log, with their level, file and line."""
    have_host()
    backend(tmp_path / "backends", "speaks", "speaks.c")
    model(tmp_path / "models", "talker", "speaks")
    options = ["--log-verbose=1"] if verbose else []
    with Server(tmp_path / "models", f"--backend-directory={tmp_path / 'backends'}", *options) as s:
        pass
    log = s.log()
    told = re.findall(r"^([IWEV])\d{4} \S+ \d+ speaks\.cc:(\d+)\] \"(.*) backend=speaks model=talker\"$", log, re.M)
    want = [
        ("I", "41", "an info"),
        ("W", "42", r"a \"warning\"\nof two lines, with a byte \ufffd"),
        ("E", "43", "an error"),
        *([("I", "44", "a detail")] if verbose else []),
        ("I", "45", f"verbose is {'on' if verbose else 'off'}"),
        ("I", "47", "unknown logging level '9'"),
        ("I", "51", "the model ends"),
        ("I", "52", "the library ends"),
    ]
    assert [(level, line, text.replace("\ufffd", r"\ufffd")) for level, line, text in told] == want, log[-4000:]
