"""A latency objective in place of batch sizes and delays: `latency_objective_ms`."""

from __future__ import annotations

import http.client
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import metric
from server import Server
from tritonclient.utils import InferenceServerException

PAGE = Path(__file__).parents[2] / "docs" / "models" / "adaptive-batching.md"


def scores(repo, name="scores", batching="dynamic_batching { }", objective="100"):
    """The model of the page, with other words in its configuration."""
    text = PAGE.read_text()
    config = re.search(r"```text\n(.*?)```", text, re.S)[1]
    code = re.search(r"```python\n(.*?)```", text, re.S)[1]
    assert "dynamic_batching { }" in config and '"100"' in config
    config = config.replace("dynamic_batching { }", batching).replace('"100"', f'"{objective}"')
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "config.pbtxt").write_text(config)
    (repo / name / "1" / "model.py").write_text(code)
    return repo


def body(value):
    return {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [value]}]}


def test_too_many_are_told_so(tmp_path):
    """Of what is too much for the model some are answered, rightly, and the others refused at once with when to
    come again."""
    with Server(scores(tmp_path / "models")) as s:
        assert s.infer("scores", body(0)).json["outputs"][0]["data"] == [0]

        def many(first):
            answers = []
            c = http.client.HTTPConnection(s.http)
            for i in range(10):
                c.request("POST", "/v2/models/scores/infer", json.dumps(body(first + i)))
                r = c.getresponse()
                answers.append((first + i, r.status, json.loads(r.read()), r.getheader("Retry-After")))
            c.close()
            return answers

        with ThreadPoolExecutor(300) as pool:
            answers = [a for part in pool.map(many, range(0, 30000, 100)) for a in part]
        good = [a for a in answers if a[1] == 200]
        refused = [a for a in answers if a[1] == 503]
        assert len(good) + len(refused) == len(answers) and good and refused
        assert all(answer["outputs"][0]["data"] == [value] for value, _, answer, _ in good)
        assert all("cannot be answered within the latency objective of 100ms" in a[2]["error"] for a in refused)
        assert all(int(a[3]) >= 1 for a in refused)

        e = s.request("GET", "/v2/models/scores/explain").json
        assert (e["model_name"], e["model_version"], e["latency_objective_ms"]) == ("scores", "1", 100)
        assert e["answered"] == len(good) + 1 and e["refused"] + e["dropped"] == len(refused)
        sizes = [c["size"] for c in e["costs"]]
        assert sizes == sorted(sizes) and sizes[0] == 1 and all(c["ms"] >= 10 for c in e["costs"])
        assert 0 < len(e["last_batches"]) <= 32
        assert all(b["took_ms"] >= 10 and b["reason"] in ("objective", "drained", "full") for b in e["last_batches"])
        described = s.request("GET", "/openapi.json").json["components"]["schemas"]["Explanation"]["properties"]
        assert set(e) == set(described)
        assert set(e["last_batches"][0]) == set(described["last_batches"]["items"]["properties"])
        assert s.request("GET", "/v2/models/scores/versions/1/explain").json["answered"] == e["answered"]
        total = "nv_inference_request_success"
        assert metric(s, total, model="scores", version="1") == e["answered"]


def test_a_refusal_over_grpc_says_when_to_come_again(tmp_path):
    """With an objective that no batch can keep, one request at a time is answered."""
    with Server(scores(tmp_path / "models", objective="1")) as s, tgrpc.InferenceServerClient(s.grpc) as client:
        i = tgrpc.InferInput("IN", [1, 1], "FP32")
        i.set_data_from_numpy(np.ones((1, 1), np.float32))
        assert client.infer("scores", [i]).as_numpy("OUT").tolist() == [[1]]  # now its cost is known

        def one(_):
            try:
                return client.infer("scores", [i]).as_numpy("OUT").tolist()
            except InferenceServerException as e:
                return e.status() + " " + e.message()

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(one, range(64)))
        refused = [a for a in answers if a != [[1]]]
        assert refused and len(refused) < 64
        assert all("UNAVAILABLE" in a and "latency objective of 1ms" in a for a in refused), refused


@pytest.mark.parametrize(
    ("batching", "objective", "says"),
    [
        ("", "100", "it needs 'dynamic_batching'"),
        ("dynamic_batching { }", "fast", "expected a number of milliseconds above 0"),
        ("dynamic_batching { }", "0", "expected a number of milliseconds above 0"),
        ("dynamic_batching { }", "-3", "expected a number of milliseconds above 0"),
        ("dynamic_batching { }", "NaN", "expected a number of milliseconds above 0"),
        ("dynamic_batching { }", "1e99", "expected a number of milliseconds above 0"),
        ("dynamic_batching { priority_levels: 2 default_priority_level: 1 }", "100", "cannot be together with"),
        ("dynamic_batching { default_queue_policy { max_queue_size: 3 } }", "100", "cannot be together with"),
    ],
)
def test_what_cannot_be(tmp_path, batching, objective, says):
    models = scores(tmp_path / "models", "wrong", batching, objective)
    scores(tmp_path / "models", "right")
    with Server(models, "--exit-on-error=false", "--strict-readiness=false") as s:
        index = {m["name"]: m for m in s.request("POST", "/v2/repository/index").json}
        assert index["wrong"]["state"] == "UNAVAILABLE" and says in index["wrong"]["reason"], index["wrong"]
        assert f"'latency_objective_ms' of model 'wrong' is '{objective}'" in index["wrong"]["reason"]
        assert s.infer("right", body(3)).status == 200


def test_models_without_say_so(tmp_path):
    models = scores(tmp_path / "models")
    plain = models / "plain"
    (plain / "1").mkdir(parents=True)
    (plain / "1" / "model.py").write_text((models / "scores" / "1" / "model.py").read_text())
    config = (models / "scores" / "config.pbtxt").read_text()
    (plain / "config.pbtxt").write_text(re.sub("parameters .*", "", config))
    with Server(models) as s:
        r = s.request("GET", "/v2/models/plain/explain")
        assert r.status == 400 and "has no latency objective" in r.json["error"]
        assert s.request("GET", "/v2/models/none/explain").status == 404
        assert s.request("GET", "/v2/models/scores/versions/7/explain").status == 404
        assert s.request("POST", "/v2/models/scores/explain").status == 405
