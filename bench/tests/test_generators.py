"""When neso perf makes the load in place of wrk and h2load."""

import generators
import pytest


def row(rps, client, server, errors=0):
    return {"rps": rps, "client_us": client, "server_us": server, "errors": errors}


@pytest.mark.parametrize(
    ("ours", "classic", "replaces"),
    [
        (row(95, 4, 7), row(100, 3, 6), True),
        (row(85, 4, 7), row(100, 3, 6), False),
        (row(130, 3, 7), row(100, 6, 8), True),  # the classic one takes the server's share of the cores
        (row(130, 6, 8), row(100, 3, 7), False),  # more than that, and for more: something is wrong
        (row(100, 3, 6, errors=1), row(100, 3, 6), False),
    ],
)
def test_replaces(ours, classic, replaces):
    assert generators.replaces(ours, classic) is replaces
