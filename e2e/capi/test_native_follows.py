"""What a backend library says is what the server says, as with Triton: statistics, configurations, states."""

from __future__ import annotations

import json

import pytest
from libraries import backend, have_host, model
from repository import until
from server import Server

SEQUENCE = """sequence_batching { state [ { input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_INT32 dims: [ 1 ]
  initial_state { name: "zero" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } } ] }
"""
GROUP = """instance_group [ { kind: KIND_CPU host_policy: "mine" secondary_devices [ { kind: KIND_NVDLA device_id: 3 } ] } ]
"""


def ask(server: Server, name: str, do: str, **more) -> None:
    inputs = [{"name": "IN0", "datatype": "INT32", "shape": [1, 1], "data": [7]}]
    r = server.infer(name, {"inputs": inputs, "parameters": {"do": do, **more}})
    assert r.status == 200 and r.json["outputs"][0]["data"] == [7], r


def spoken(server: Server) -> str:
    """What the library has written, as it wrote it."""
    return server.log().replace('\\"', '"')


def said(server: Server, line: str) -> bool:
    return until(lambda: line in spoken(server))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("follows")
    backend(top / "backends", "follows", "follows.c")
    model(top / "models", "told", "follows", GROUP)
    model(top / "models", "counts", "follows", SEQUENCE)
    (top / "models" / "completed" / "1").mkdir(parents=True)
    (top / "models" / "completed" / "config.pbtxt").write_text('backend: "follows"\n')
    with Server(top / "models", f"--backend-directory={top / 'backends'}", "--host-policy=mine,cpu-cores=0-0") as s:
        yield s


def test_statistics_as_they_are_said(server):
    for _ in range(20):
        ask(server, "told", "times")
    ask(server, "told", "failed")
    one = server.get("/v2/models/told/stats").json["model_stats"][0]
    stats = one["inference_stats"]
    assert stats["success"]["count"] == one["inference_count"] == 20 and stats["fail"]["count"] == 1, one
    got = {k: stats[k] for k in ("compute_input", "compute_infer", "compute_output")}
    assert got == {
        "compute_input": {"count": 20, "ns": 20_000},
        "compute_infer": {"count": 20, "ns": 40_000},
        "compute_output": {"count": 20, "ns": 60_000},
    }
    said_of = next(b for b in one["batch_stats"] if b["batch_size"] == 5)
    assert said_of["compute_infer"] == {"count": 20, "ns": 400} and said_of["compute_output"]["ns"] == 600, one
    assert one["execution_count"] == 21, "the batch that it says nothing of is counted all the same"


def test_configuration(server):
    assert said(
        server,
        "unknown: colour: Cannot find field. (auto-completed, field colour: "
        'expected a field of the model configuration, found unknown field "colour")',
    )
    text = spoken(server)
    before, after = (
        json.JSONDecoder().raw_decode(text.split(f"config {when}: ", 1)[1])[0] for when in ("before", "after")
    )
    assert before["max_batch_size"] == 0 and before["input"] == [], "what was refused has changed nothing"
    assert (
        after["max_batch_size"] == 4 and after["input"][0]["format"] == "FORMAT_NONE" and after["name"] == "completed"
    )
    assert set(after) == set(before), "it is the whole configuration"


def test_instances(server):
    assert said(server, "secondary device: KIND_NVDLA 3") and said(server, 'policy: {"mine":{"cpu-cores":"0-0"}}')


def test_states(server):
    for i in range(3):
        ask(server, "counts", "count", sequence_id=1, sequence_start=i == 0)
        assert said(server, f"the same buffer: 1, holds {i + 1}"), server.log()[-2000:]
    assert said(server, "another state: state 'NONE' is not a valid state name.")
    assert said(server, "update before: no error") and said(server, "outputs asked for: 1")
    assert "outputs asked for: 2" not in server.log()
