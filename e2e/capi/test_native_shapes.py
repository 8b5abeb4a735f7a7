"""Shape tensors of backend libraries. Triton allows them for TensorRT's backend, so the library here has its name."""

from __future__ import annotations

import concurrent.futures

import pytest
from libraries import backend, have_host, model
from server import Server

IO = """platform: "tensorrt_plan"
runtime: "libtriton_tensorrt.so"
input [ { name: "IN0" data_type: TYPE_INT32 dims: [ -1 ] allow_ragged_batch: true },
        { name: "INS" data_type: TYPE_INT32 dims: [ 2 ] is_shape_tensor: true } ]
output [ { name: "OUT0" data_type: TYPE_INT32 dims: [ -1 ] },
         { name: "OUTS" data_type: TYPE_INT32 dims: [ 2 ] is_shape_tensor: true } ]
instance_group [ { kind: KIND_CPU } ]
dynamic_batching { preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 300000 }
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("shapes")
    backend(top / "backends", "tensorrt", "shapes.c")
    model(top / "models", "shapes", "tensorrt", io=IO)
    with Server(top / "models", f"--backend-directory={top / 'backends'}") as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


def ask(served, values, data, shape=None):
    def tensor(name, shape, data):
        return {"name": name, "datatype": "INT32", "shape": shape, "data": data}

    inputs = [tensor("IN0", [1, len(data)], data), tensor("INS", shape or [len(values)], values)]
    return served.infer("shapes", {"inputs": inputs})


@pytest.mark.parametrize(("other", "together"), [([3, 4], 2), ([5, 4], 1)])
def test_only_equal_shape_tensors_share_a_batch(served, other, together):
    """They have a batch dimension for the library alone, as in Triton, whose answers these are."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda values: ask(served, values, [1, 2]), ([3, 4], other)))
    for r, values in zip(answers, ([3, 4], other)):
        assert r.status == 200, r
        assert r.json["parameters"] == {"together": together, "dims": 2, "values": 1, "size": 8}
        outputs = {o["name"]: (o["shape"], o["data"]) for o in r.json["outputs"]}
        assert outputs == {"OUT0": ([1, 2], [1, 2]), "OUTS": ([1, 2], values)}


def test_their_bytes_are_of_one_request(served):
    """Also in a request of two rows."""
    inputs = [
        {"name": "IN0", "datatype": "INT32", "shape": [2, 1], "data": [1, 2]},
        {"name": "INS", "datatype": "INT32", "shape": [2], "data": [3, 4]},
    ]
    r = served.infer("shapes", {"inputs": inputs, "parameters": {"plain": "yes"}})
    assert r.status == 200 and r.json["parameters"] == {"together": 1, "dims": 2, "values": 2, "size": 8}, r


@pytest.mark.parametrize(("values", "shape"), [([3, 4, 5], None), ([3, 4], [1, 2])])
def test_a_shape_tensor_of_another_shape(served, values, shape):
    r = ask(served, values, [1], shape)
    assert r.status == 400 and "unexpected shape for input 'INS' for model 'shapes'" in r.error, r
