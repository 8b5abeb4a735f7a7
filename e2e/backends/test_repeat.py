"""The backend `repeat` for a model that is not decoupled: one response, or the error of the peer."""

import queue

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from server import Server

CONFIG = """
backend: "repeat"
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] },
  { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]
"""


def ask(values):
    return {
        "inputs": [
            {"name": "IN", "datatype": "INT32", "shape": [len(values)], "data": values},
            {"name": "DELAY", "datatype": "UINT32", "shape": [len(values)], "data": [20] * len(values)},
            {"name": "WAIT", "datatype": "UINT32", "shape": [1], "data": [0]},
        ]
    }


@pytest.mark.parametrize("values", [[], [7], [7, 8]])
def test_not_decoupled(tmp_path, values):
    (tmp_path / "r" / "1").mkdir(parents=True)
    (tmp_path / "r" / "config.pbtxt").write_text(CONFIG)
    with Server(tmp_path) as s:
        r = s.infer("r", ask(values))
        if len(values) == 1:
            assert r.status == 200 and [o["data"] for o in r.json["outputs"]] == [[7], [0]], r
        else:
            assert r.status == 500 and r.error == f"expected a single response, got {len(values)}", r


def test_not_decoupled_on_a_stream(tmp_path):
    """There the first response is the answer, and what the model sends behind it is dropped."""
    (tmp_path / "r" / "1").mkdir(parents=True)
    (tmp_path / "r" / "config.pbtxt").write_text(CONFIG)
    answers = queue.Queue()
    with Server(tmp_path) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for values in ([7, 8, 9], [5], []):
            given = []
            for t in ask(values)["inputs"]:
                given.append(tgrpc.InferInput(t["name"], t["shape"], t["datatype"]))
                given[-1].set_data_from_numpy(np.array(t["data"], t["datatype"].lower()))
            client.async_stream_infer("r", given)
        for value in (7, 5):
            result, error = answers.get(timeout=60)
            assert error is None and (result.as_numpy("OUT").tolist(), result.as_numpy("IDX").tolist()) == (
                [value],
                [0],
            )
        assert "expected a single response, got 0" in str(answers.get(timeout=60)[1])
        client.stop_stream()
    assert answers.empty()
