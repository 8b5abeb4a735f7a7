"""The way of the data between server and callable: what is copied, what is held back, what others can see."""

from __future__ import annotations

import pathlib

from conftest import config

from neso import Triton
from neso.triton import TritonSecurityConfig

TOKEN = "a-token-that-nobody-sees"


def test_the_token_is_in_no_list_of_processes():
    with Triton(config=config(), security_config=TritonSecurityConfig(access_token=TOKEN)) as triton:
        place = pathlib.Path(f"/proc/{triton._server.pid}")
        if not place.is_dir():
            return  # not Linux: nothing to look at
        for seen in ("cmdline", "environ"):
            text = (place / seen).read_bytes()
            assert TOKEN.encode() not in text
        assert b"--options-fd=" in (place / "cmdline").read_bytes()
