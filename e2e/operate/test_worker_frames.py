"""Models that speak the worker's protocol by themselves: a frame that cannot be, or that never comes whole, costs
its worker, and texts have a bound."""

from __future__ import annotations

import pytest
from repository import X, python_model, until
from server import Server

EVIL = {**X, "inputs": [{**X["inputs"][0], "data": [13]}]}
# Announces a frame with a body of 1 GiB and sends nothing of it.
ANNOUNCE = """if pb_utils.get_input_tensor_by_name(requests[0], "INPUT0").as_numpy()[0, 0] == 13:
            import gc, struct
            from neso_runtime.channel import Writer
            writer = next(o for o in gc.get_objects() if isinstance(o, Writer))
            writer._socket.sendall(struct.pack("<HBBIIIQ", 0x574E, 1, {kind}, 1 << 30, 0, 0, 1))
            time.sleep(1000)"""


@pytest.mark.parametrize(
    "kind, error",
    [
        (17, "LOG frame: length at offset 4: 1073741824 bytes, at most 67108864"),
        (2, "LOAD is not for the server"),
        (8, "24 of 1073741848 bytes have come, and no more within 10s"),
    ],
)
def test_announced_frames(tmp_path, kind, error):
    """The request that the worker had fails with the reason, and the instance serves again."""
    python_model(tmp_path, "m", execute=ANNOUNCE.format(kind=kind))
    with Server(tmp_path) as s:
        r = s.infer("m", EVIL)
        assert r.status == 500 and error in r.error, r
        assert until(lambda: s.infer("m", X).status == 200)


def test_texts_without_bound(tmp_path):
    """An error or a log line of 100 MB is cut; the worker lives."""
    big = """import os
        pb_utils.Logger.log_info("BEGIN" + "x" * 100_000_000 + "LINEEND")
        raise ValueError(f"pid {os.getpid()} " + "y" * 100_000_000 + "ERROREND")"""
    python_model(tmp_path, "m", execute=big)
    with Server(tmp_path) as s:
        first, second = s.infer("m", X), s.infer("m", X)
        assert first.status == second.status == 500 and "ERROREND" in first.error, first.error[:200]
        assert first.error == second.error and len(first.error) < 2_000_000  # the same process
        assert until(lambda: "LINEEND" in s.log())
