"""The backend `square` with the parameters of Triton's, and what the statistics of responses say of it."""

from __future__ import annotations

import queue
import time

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import until
from server import Server

CONFIG = """
backend: "square"
model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
KINDS = ("compute_infer", "compute_output", "success", "fail", "empty_response", "cancel")


def write(repository, **parameters):
    (repository / "sq" / "1").mkdir(parents=True)
    said = [
        f'parameters {{ key: "CUSTOM_{k.upper()}" value {{ string_value: "{v}" }} }}' for k, v in parameters.items()
    ]
    (repository / "sq" / "config.pbtxt").write_text("\n".join([CONFIG, *said]))


def ask(client, n):
    tensor = tgrpc.InferInput("IN", [1], "INT32")
    tensor.set_data_from_numpy(np.array([n], np.int32))
    client.async_stream_infer("sq", [tensor])


def counted(s):
    """The response statistics: for each index the counts that are not 0, and the nanoseconds of all."""
    stats = s.get("/v2/models/sq/stats").json["model_stats"][0]["response_stats"]
    assert all(set(by) == set(KINDS) for by in stats.values()), stats
    counts = {int(i): {k: by[k]["count"] for k in KINDS if by[k]["count"]} for i, by in stats.items()}
    return counts, {int(i): {k: by[k]["ns"] for k in KINDS} for i, by in stats.items()}


def test_delays_failures_and_empty_responses(tmp_path):
    infer, output = 60_000_000, 30_000_000
    write(tmp_path, infer_delay_ns=infer, output_delay_ns=output, fail_count=2, empty_count=1)
    with Server(tmp_path) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        begun = time.monotonic_ns()
        for done, n in ((1, 4), (2, 6)):
            ask(client, n)
            got = [answers.get(timeout=60) for _ in range(n - 1)]  # an empty one is not sent
            assert [r.as_numpy("OUT").tolist() for r, e in got if e is None] == [[n]] * (n - 3)
            assert [e.message() for _, e in got[n - 3 :]] == ["simulated failure"] * 2
            assert until(lambda want=done: sum(v.get("empty_response", 0) for v in counted(s)[0].values()) == want)
        counts, spent = counted(s)
        took = time.monotonic_ns() - begun
        client.stop_stream()
        assert answers.empty()
    parts = {"compute_infer": 1, "compute_output": 1}
    assert counts == {
        0: {"compute_infer": 2, "compute_output": 2, "success": 2},
        1: {"compute_infer": 2, "compute_output": 2, "success": 1, "fail": 1},
        2: {"compute_infer": 2, "compute_output": 2, "success": 1, "fail": 1},
        3: {"compute_infer": 2, "compute_output": 1, "fail": 1, "empty_response": 1},
        4: parts | {"fail": 1},
        5: {"compute_infer": 1, "empty_response": 1},
    }
    for i, of in counts.items():
        ns = spent[i]
        assert ns["compute_infer"] >= of["compute_infer"] * infer
        assert ns["compute_output"] >= of.get("compute_output", 0) * output
        assert ns["compute_infer"] + ns["compute_output"] == ns["success"] + ns["fail"] + ns["empty_response"]
    # Each response has the time since the one before, hence all together no more than there was.
    assert sum(ns["compute_infer"] + ns["compute_output"] for ns in spent.values()) <= took


def test_cancelled_requests_end_with_one_response_less(tmp_path):
    write(tmp_path, infer_delay_ns=100_000_000, cancel_delay_ns=50_000_000)
    with Server(tmp_path) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        ask(client, 1_000_000)
        assert answers.get(timeout=60)[1] is None
        client.stop_stream(cancel_requests=True)
        assert until(lambda: any("cancel" in v for v in counted(s)[0].values()))
        counts, spent = counted(s)
    last = max(counts)
    # What is computed when the cancellation comes is counted as it is.
    assert counts[last] == {"cancel": 1} and spent[last]["cancel"] >= 50_000_000
    assert last >= 1 and all(counts[i] == {"compute_infer": 1, "compute_output": 1, "success": 1} for i in range(last))


@pytest.mark.parametrize("value", ["-1", "soon", "3000000000"])
def test_values_that_are_none(tmp_path, value):
    write(tmp_path, infer_delay_ns=value)
    with Server(tmp_path, "--model-control-mode=explicit") as s:
        r = s.post("/v2/repository/models/sq/load")
        assert r.status == 400 and f"'CUSTOM_INFER_DELAY_NS' with value '{value}'" in r.error, r
