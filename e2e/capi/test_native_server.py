"""What a backend library of ours asks of the server that runs it, well and badly."""

from __future__ import annotations

import json

import pytest
from libraries import backend, have_host, model
from repository import until
from server import Server

LIMIT = 'parameters { key: "EXECUTION_TIMEOUT_SECONDS" value { string_value: "1" } }\n'
SHARED = 'parameters { key: "isolation" value { string_value: "shared" } }\n'
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
MODELS = {"asks": "", "hangs": LIMIT, "shared": SHARED, "two": "instance_group [ { count: 2 kind: KIND_CPU } ]\n"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    have_host()
    top = tmp_path_factory.mktemp("asks")
    repo, libs = top / "models", top / "backends"
    for name, source in {"ident": "identity.c", "behave": "behave.c", "asks": "asks.c"}.items():
        backend(libs, name, source)
    model(repo, "ident", "ident")
    model(repo, "many", "behave", DECOUPLED)
    model(repo, "later", "ident")
    moves = model(repo, "moves", "ident", "version_policy: { all { } }\n")
    (moves / "2").mkdir()
    (moves / "rollout.yaml").write_text("labels: {stable: 1}\n")
    for name, extra in MODELS.items():
        model(repo, name, "asks", extra)
    load = [f"--load-model={name}" for name in (*MODELS, "ident", "many", "moves")]
    with Server(repo, "--model-control-mode=explicit", f"--backend-directory={libs}", *load) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


def ask(s, do, to="ident", name="asks", data=(1, 2, 3)):
    body = {"inputs": [{"name": "IN0", "datatype": "INT32", "shape": [1, len(data)], "data": list(data)}]}
    return s.infer(name, body | {"parameters": {"do": do, "to": to}})


def told(s, do, **more):
    r = ask(s, do, **more)
    assert r.status == 200, r
    return r.json["parameters"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [1, 2048, 2049, 200_000])
def test_call(served, name, size):
    assert told(served, "call", name=name, data=[1] * size) == {"answers": 1, "errors": 0, "error": "", "sum": size}


def test_call_of_a_decoupled_model(served):
    assert told(served, "call", to="many")["answers"] == 1


def test_calls_are_bounded(served):
    """Each call is answered, those above the bound with an error."""
    for _ in range(3):
        all = told(served, "flood", data=[1])
        assert all["answers"] == 3000 and all["sum"] + all["errors"] == 3000, all
        assert not all["errors"] or "more than 1024 calls into the server under way" in all["error"], all
    assert told(served, "call")["sum"] == 6


def test_a_response_names_the_version_that_answered(served):
    """Also where the label has moved since the library asked about the model: it sends one request again and again."""
    for version in (1, 2, 1):
        r = served.post("/v2/repository/models/moves/rollout", {"labels": {"stable": version}})
        assert r.status == 200, r
        assert told(served, "keep", to="moves@stable") == {
            "version": version,
            "answers": 1,
            "errors": 0,
            "error": "",
            "sum": 6,
        }


def test_documents(served):
    all = told(served, "describe")
    assert json.loads(all["server"])["name"] == "triton" and json.loads(all["metadata"])["inputs"][0]["name"] == "IN0"
    assert '"backend":"ident"' in all["config"] and '"model_stats"' in all["statistics"] and '"ident"' in all["index"]
    assert (all["live"], all["ready"], all["none"], all["batches"]) == (True, True, False, 2)


def test_metrics(served):
    r = ask(served, "measure")
    assert r.status == 200, r
    assert 'asked_bucket{which="c",le="10"} 1' in served.metrics()
    for line in (
        "histogram: TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Increment",
        "family: Must call MetricDelete on all dependent metrics before calling MetricFamilyDelete.",
    ):
        assert until(lambda line=line: line in served.log())


def test_load(served):
    assert ask(served, "call", to="later").status != 200
    assert ask(served, "load", to="later").status == 200
    assert told(served, "call", to="later")["sum"] == 6
    assert ask(served, "unload", to="later").status == 200
    r = ask(served, "load", to="nothing")
    assert r.status == 500 and "failed to poll from model repository" in r.error, r


ERRORS = {
    "none": ("call", "none", 404, "Request for unknown model: 'none' is not found"),
    "itself": ("call", "asks", 500, "wait"),
    "stop": ("stop", "", 501, "it is not for backends to stop or change"),
    "delete": ("delete", "", 400, "server has been deleted, or never was one"),
    "forged": ("forged", "ident", 400, "server has been deleted, or never was one"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(served, case):
    do, to, status, text = ERRORS[case]
    r = ask(served, do, to=to)
    assert r.status == status and text in r.error, r
    assert told(served, "call")["sum"] == 6


def test_a_request_in_flight_is_not_sent_again(served):
    assert told(served, "again")["sum"] == 6
    line = "in flight: the inference request is in flight: it is the server's until it is released"
    assert until(lambda: line in served.log())


def test_a_death_in_a_call(served):
    r = ask(served, "die")
    assert r.status == 500 and "aborted" in r.error.lower() or "SIGABRT" in r.error, r
    assert told(served, "call")["sum"] == 6


def test_a_callback_that_hangs(served):
    r = ask(served, "hang", name="hangs")
    assert r.status == 500 and "execute did not return within 1s" in r.error, r
    assert told(served, "call", name="hangs")["sum"] == 6
