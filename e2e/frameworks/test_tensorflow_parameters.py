"""What the parameters of Triton's TensorFlow backend do, with models of TensorFlow 1."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import settled
from server import Server

pytestmark = pytest.mark.full

BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
MODELS = {
    "tagged": ({"TF_GRAPH_TAG": "mine", "TF_SIGNATURE_DEF": "again", "TF_NUM_INTRA_THREADS": "1", "TF_NUM_INTER_THREADS": "1"}, [1, 2]),
    "plain": ({}, [1, 2]),
    "sessions": ({"TF_USE_PER_SESSION_THREADS": "yes", "MAX_SESSION_SHARE_COUNT": "2"}, [1, 2]),
    "started": ({"TF_INIT_OPS_FILE": "init.json"}, [5, 10]),
    "versioned": ({"TF_INIT_OPS_FILE": "init.json"}, [5, 10]),
    "untagged": ({}, "name the tags of the model in the parameter TF_GRAPH_TAG"),
    "nofile": ({"TF_INIT_OPS_FILE": "missing.json"}, "TF_INIT_OPS_FILE 'missing.json' of model 'nofile' cannot be read"),
    "nooperation": ({"TF_INIT_OPS_FILE": "init.json"}, "operation 'no_such_operation'"),
    "badfile": ({"TF_NUM_INTRA_THREADS": "many"}, "parameter TF_NUM_INTRA_THREADS is 'many', expected a number from 0 on"),
}  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repo = tmp_path_factory.mktemp("tensorflow1")
    subprocess.run(
        [sys.executable, Path(__file__).with_name("make_graphs.py"), repo],
        check=True,
        timeout=240,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    for name, (parameters, _) in MODELS.items():
        text = 'platform: "tensorflow_savedmodel"\n'
        text += "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n' for k, v in parameters.items())
        (repo / name / "config.pbtxt").write_text(text)
    (repo / "started" / "init.json").write_text('{"init_ops": ["set_five"]}')
    # Of two the version's own counts.
    (repo / "versioned" / "init.json").write_text('{"init_ops": ["no_such_operation"]}')
    (repo / "versioned" / "1" / "init.json").write_text('{"init_ops": ["set_five"]}')
    (repo / "nooperation" / "1" / "init.json").write_text('{"init_ops": ["no_such_operation"]}')
    with Server(repo, "--exit-on-error=false", wait=False) as s:
        settled(s, len(MODELS))
        yield s


@pytest.mark.parametrize("name", MODELS)
def test_parameter(server, name):
    _, want = MODELS[name]
    if isinstance(want, str):
        (row,) = [m for m in server.post("/v2/repository/index").json if m["name"] == name]
        assert row["state"] == "UNAVAILABLE" and want in row["reason"], row
        return
    reply = server.infer(name, BODY)
    assert reply.status == 200 and reply.json["outputs"][0]["data"] == want, reply
