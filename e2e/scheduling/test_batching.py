"""Which requests share a batch, and why a batch closed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc as tgrpc
from repository import metric, until
from server import Server

# OUT is twice IN; WITH says how many requests the batch had.
MODEL = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
            count = np.full((x.shape[0], 1), len(requests), np.int32)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", 2 * x), pb_utils.Tensor("WITH", count)]))
        return answers
"""


def model(repo, name, batching, more="", after=""):
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "1" / "model.py").write_text(MODEL)
    (repo / name / "config.pbtxt").write_text(
        f"""backend: "python"
max_batch_size: 8
input {{ name: "IN" data_type: TYPE_INT32 dims: [ -1 ] {more} }}
output [ {{ name: "OUT" data_type: TYPE_INT32 dims: [ -1 ] }}, {{ name: "WITH" data_type: TYPE_INT32 dims: [ 1 ] }} ]
{batching}
{after}
"""
    )


def ask(server, name, *shape):
    n = int(np.prod(shape))
    body = {"inputs": [{"name": "IN", "datatype": "INT32", "shape": list(shape), "data": list(range(n))}]}
    r = server.infer(name, body)
    assert r.status == 200, r
    outputs = {o["name"]: o for o in r.json["outputs"]}
    assert outputs["OUT"]["shape"] == list(shape) and outputs["OUT"]["data"] == [2 * v for v in range(n)]
    return outputs["WITH"]["data"][0]


def together(server, name, *shapes):
    with ThreadPoolExecutor(len(shapes)) as pool:
        return list(pool.map(lambda s: ask(server, name, *s), shapes))


REASONS = ["full", "preferred", "utilization", "delay", "shape", "sequence", "drained", "share"]


def closed(server, name):
    counts = {r: metric(server, "neso_batch_closed_total", model=name, reason=r, version="1") for r in REASONS}
    return {r: int(n) for r, n in counts.items() if n}


HOUR = "max_queue_delay_microseconds: 3600000000"  # what is to come comes in time, however slow the machine is


def waits(server, name, n=1):
    return until(lambda: metric(server, "nv_inference_pending_request_count", model=name, version="1") == n)


def test_why_batches_closed(tmp_path):
    model(tmp_path, "waits", f"dynamic_batching {{ preferred_batch_size: 4 {HOUR} }}")
    model(tmp_path, "hurries", "dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 1000 }")
    model(tmp_path, "goes", "dynamic_batching { }")
    model(tmp_path, "alone", "")
    with Server(tmp_path) as s, ThreadPoolExecutor(2) as pool:
        assert metric(s, "neso_batch_closed_total", model="waits", reason="full", version="1") == 0
        assert together(s, "waits", *[(1, 2)] * 4) == [4, 4, 4, 4]
        assert closed(s, "waits") == {"preferred": 1}
        assert ask(s, "hurries", 1, 2) == 1
        assert closed(s, "hurries") == {"delay": 1}
        # The first one goes when the second, of another shape, comes, and that one with the third.
        first = pool.submit(ask, s, "waits", 1, 2)
        assert waits(s, "waits")
        second = pool.submit(ask, s, "waits", 1, 3)
        assert first.result() == 1
        assert closed(s, "waits") == {"preferred": 1, "shape": 1}
        assert ask(s, "waits", 3, 3) == second.result() == 2
        assert closed(s, "waits") == {"preferred": 2, "shape": 1}
        # They do not fit together: the first one goes, and the second is more than the preferred size.
        first = pool.submit(ask, s, "waits", 3, 2)
        assert waits(s, "waits")
        assert ask(s, "waits", 6, 2) == first.result() == 1
        assert closed(s, "waits")["full"] >= 1
        assert ask(s, "goes", 1, 2) == 1
        assert closed(s, "goes") == {"drained": 1}
        assert ask(s, "alone", 1, 2) == 1
        assert 'neso_batch_closed_total{model="alone"' not in s.metrics()


RAGGED = """
batch_input { kind: BATCH_ELEMENT_COUNT target_name: "COUNT" data_type: TYPE_INT32 source_input: "IN" }
batch_output { target_name: "OUT" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "IN" }
"""


def test_ragged_requests_share_a_batch(tmp_path):
    batching = "dynamic_batching { preferred_batch_size: 3 " + HOUR + " }"
    model(tmp_path, "ragged", batching, more="allow_ragged_batch: true", after=RAGGED)
    with Server(tmp_path) as s:
        # A Python model gets its requests one by one, each with its own shape, as in Triton.
        assert together(s, "ragged", (1, 2), (1, 5), (1, 0)) == [3, 3, 3]
        assert closed(s, "ragged") == {"preferred": 1}
        config = s.get("/v2/models/ragged/config").json
        assert config["input"][0]["allow_ragged_batch"] is True
        assert config["batch_input"] == [
            {"kind": "BATCH_ELEMENT_COUNT", "target_name": ["COUNT"], "data_type": "TYPE_INT32", "source_input": ["IN"]}
        ]
        with tgrpc.InferenceServerClient(s.grpc) as client:
            x = tgrpc.InferInput("IN", [3, 2], "INT32")
            x.set_data_from_numpy(np.arange(6, dtype=np.int32).reshape(3, 2))
            assert client.infer("ragged", [x]).as_numpy("WITH").tolist() == [[1]] * 3


def test_ragged_faults(tmp_path):
    for name, after in {
        "two": 'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "C" data_type: TYPE_INT32 source_input: [ "IN", "IN" ] }',
        "type": 'batch_input { kind: BATCH_ITEM_SHAPE target_name: "C" data_type: TYPE_INT64 source_input: "IN" }',
        "source": 'batch_input { kind: BATCH_ITEM_SHAPE target_name: "C" data_type: TYPE_INT32 source_input: "X" }',
        "target": 'batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "C" source_input: "IN" }',
    }.items():
        model(tmp_path, name, "", after=after)
    want = {
        "two": "batch input kind 'BATCH_ELEMENT_COUNT' expects 1 source input, got 2 for two",
        "type": "batch input data type must be TYPE_INT32 or TYPE_FP32 for type",
        "source": "unknown source input name 'X' for source",
        "target": "unknown target output name 'C' for target",
    }
    with Server(tmp_path, "--model-control-mode=explicit") as s:
        for name, text in want.items():
            r = s.post(f"/v2/repository/models/{name}/load", json.dumps({}))
            assert r.status == 400 and text in r.error, (name, r)
