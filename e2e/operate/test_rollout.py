"""Versions in production: labels, weights, mirrors and the step back, through official clients."""

from __future__ import annotations

import collections
import json
import queue
import shutil
import subprocess

import grpc as grpcio
import numpy as np
import pytest
from bls import ask, value, write
from google.protobuf import json_format, struct_pb2
from repository import X, python_model, until
from sequences import add_model
from server import BINARY, ROOT, Server
from tritonclient import grpc, http
from tritonclient.utils import InferenceServerException

ALL = "version_policy: { all { } }\n"
BAD_OUTPUT = 'raise pb_utils.TritonModelException("no")'


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    repo = tmp_path_factory.mktemp("rollout") / "models"
    for version in (1, 2, 3):
        python_model(repo, "m", version, add=version, extra=ALL)
    (repo / "m" / "rollout.yaml").write_text("labels: {stable: 1, canary: 2}\n")
    python_model(repo, "plain", add=1)
    python_model(repo, "bad", 1, add=1, extra=ALL)
    python_model(repo, "bad", 2, execute=BAD_OUTPUT, add=1, extra=ALL)
    for version, add in ((1, 1), (2, 1), (3, 1.0001)):
        python_model(repo, "copied", version, add=add, extra=ALL)
    python_model(repo, "copied", 4, execute=BAD_OUTPUT, add=1, extra=ALL)
    add_model(repo, "sums", more=ALL)
    (repo / "sums" / "2").mkdir()
    (repo / "sums" / "2" / "model.py").write_text((repo / "sums" / "1" / "model.py").read_text())
    return repo


@pytest.fixture(scope="module")
def server(repo):
    with Server(repo, "--model-control-mode=explicit", "--load-model=*") as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


def rules(server, model, change, status=200, headers=None):
    reply = server.post(f"/v2/repository/models/{model}/rollout", change, headers or {})
    assert reply.status == status, reply
    return reply.json


def asked(server, path, **headers):
    """The version that answers, which says it twice: as its number, and as what it adds."""
    reply = server.post(f"/v2/models/{path}/infer", X, headers)
    assert reply.status == 200, reply
    answer = reply.json
    return int(answer["model_version"])


def over_grpc(client, model, version="", **metadata):
    x = grpc.InferInput("INPUT0", [1, 1], "FP32")
    x.set_data_from_numpy(np.ones((1, 1), np.float32))
    return int(client.infer(model, [x], model_version=version, headers=metadata).get_response().model_version)


def by_version(server, model):
    return {v["version"]: v for v in server.get(f"/v2/repository/models/{model}/rollout").json["versions"]}


def test_labels_go_wherever_a_version_goes(server):
    rules(server, "m", {"labels": {"stable": 1, "canary": 2}, "weights": None})
    assert [asked(server, f"m{v}") for v in ("/versions/stable", "/versions/canary", "/versions/3", "")] == [1, 2, 3, 3]
    for part in ("", "/config", "/ready", "/stats"):
        assert server.get(f"/v2/models/m/versions/canary{part}").status == 200, part
        assert server.get(f"/v2/models/m/versions/none{part}").status != 200, part
        assert server.get(f"/v2/models/plain/versions/canary{part}").status == 404, part
    assert server.get("/v2/models/m/versions/canary").json["versions"] == ["2"]
    assert [v["version"] for v in server.get("/v2/models/m/versions/canary/stats").json["model_stats"]] == ["2"]
    missing = server.post("/v2/models/m/versions/none/infer", X)
    assert (missing.status, missing.error) == (
        404,
        "Request for unknown model: 'm' has no version with the label 'none'",
    )
    with http.InferenceServerClient(server.http) as c:
        x = http.InferInput("INPUT0", [1, 1], "FP32")
        x.set_data_from_numpy(np.ones((1, 1), np.float32))
        assert c.infer("m", [x], model_version="canary").as_numpy("OUTPUT0").item() == 3
        assert c.is_model_ready("m", "stable") and not c.is_model_ready("m", "none")
    with grpc.InferenceServerClient(server.grpc) as c:
        assert [over_grpc(c, "m", v) for v in ("stable", "canary", "3", "")] == [1, 2, 3, 3]
        assert c.get_model_metadata("m", "canary").versions == ["2"]
        assert c.is_model_ready("m", "canary") and not c.is_model_ready("m", "none")
        assert [v.version for v in c.get_inference_statistics("m", "canary").model_stats] == ["2"]
        with pytest.raises(InferenceServerException, match="no version with the label 'none'"):
            over_grpc(c, "m", "none")
        with pytest.raises(
            InferenceServerException, match="failed to get model version from specified version string 'canary'"
        ):
            over_grpc(c, "plain", "canary")


def test_labels_move_at_once(server):
    rules(server, "m", {"labels": {"stable": 1, "canary": 2}})
    assert rules(server, "m", {"labels": {"stable": 2, "canary": 3}})["rules"]["labels"] == {"stable": 2, "canary": 3}
    assert [asked(server, f"m/versions/{v}") for v in ("stable", "canary")] == [2, 3]
    out = neso(server, "label", "m", "stable=1", "canary=")
    assert out.split() == ["LABEL", "VERSION", "stable", "1"]
    assert asked(server, "m/versions/stable") == 1 and server.get("/v2/models/m/versions/canary").status == 404
    rules(server, "m", {"labels": {"canary": 9}}, status=400)
    assert asked(server, "m/versions/stable") == 1


def neso(server, *args, url=""):
    done = subprocess.run([BINARY, *args, "--url", url or server.http], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def rollout_over_grpc(server, model, change=None, **metadata):
    with grpcio.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary(
            "/neso.Rollout/ModelRollout",
            request_serializer=struct_pb2.Struct.SerializeToString,
            response_deserializer=struct_pb2.Struct.FromString,
        )
        fields = {"model": model} if change is None else {"model": model, "change": change}
        request = json_format.ParseDict(fields, struct_pb2.Struct())
        return json_format.MessageToDict(call(request, timeout=60, metadata=tuple(metadata.items())))


def test_orders_over_grpc(server):
    """The same document, the same changes, the same words as over HTTP; the command speaks either."""
    said = rollout_over_grpc(server, "m", "labels: {stable: 1, canary: 2}\nweights: {stable: 3, canary: 1}")
    assert said["rules"]["labels"] == {"stable": 1, "canary": 2} and [v["share"] for v in said["versions"]] == [
        0.75,
        0.25,
        0,
    ]
    assert said == rollout_over_grpc(server, "m") == server.get("/v2/repository/models/m/rollout").json
    out = neso(server, "label", "m", "canary=3", url=f"grpc://{server.grpc}")
    assert out.split() == ["LABEL", "VERSION", "stable", "1", "canary", "3"]
    assert asked(server, "m/versions/canary") == 3
    assert "25.0 %" in neso(server, "rollout", "m", url=f"grpc://{server.grpc}")
    for model, change, code, text in (
        ("m", "labels: {a: 9}", "INVALID_ARGUMENT", "version 9 is not loaded: the version policy loads 1, 2, 3"),
        ("m", "{", "INVALID_ARGUMENT", "the request: "),
        ("m", "x" * 70_000, "INVALID_ARGUMENT", "the limit is 65536"),
        ("nobody", "labels: {}", "NOT_FOUND", "'nobody' is not found"),
        ("", None, "INVALID_ARGUMENT", "the field 'model' names no model"),
    ):
        with pytest.raises(grpcio.RpcError) as e:
            rollout_over_grpc(server, model, change)
        assert e.value.code().name == code and text in e.value.details(), (model, e.value)
    rollout_over_grpc(server, "m", "weights: null")


def test_labels_from_inside(tmp_path):
    """A model that calls others names a label in their name; its sequences stay where they began."""
    repo = tmp_path / "models"
    write(repo, "caller", "return self.reply(self.value(self.call('callee@canary' if x[0] else 'callee', x)))")
    for version, factor in ((1, 10), (2, 20)):
        write(repo, "callee", f"return self.reply(x * 0 + {factor})", config=ALL)
        if version == 1:
            (repo / "callee" / "1").rename(repo / "callee" / "first")
    (repo / "callee" / "1").rename(repo / "callee" / "2")
    (repo / "callee" / "first").rename(repo / "callee" / "1")
    (repo / "callee" / "rollout.yaml").write_text("labels: {canary: 2}\nweights: {1: 1}\n")
    write(repo, "lost", "return self.reply(self.value(self.call('callee@none', x)))")
    add_model(repo, "sums", more=ALL)
    (repo / "sums" / "2").mkdir()
    (repo / "sums" / "2" / "model.py").write_text((repo / "sums" / "1" / "model.py").read_text())
    (repo / "sums" / "rollout.yaml").write_text("weights: {1: 1}\n")
    write(
        repo,
        "adds",
        "q = pb_utils.InferenceRequest(model_name='sums', inputs=[pb_utils.Tensor('IN', x.reshape(1, 1))],\n"
        "    requested_output_names=['OUT'], correlation_id=7, flags=1 if x[0] == 1 else 2)\n"
        "r = q.exec()\n"
        "if r.has_error():\n"
        "    raise pb_utils.TritonModelException(r.error().message())\n"
        "return self.reply(pb_utils.get_output_tensor_by_name(r, 'OUT').as_numpy().reshape(-1))",
    )
    with Server(repo, "--model-control-mode=explicit", "--load-model=*") as s:
        assert value(s, "caller", 0) == [10] and value(s, "caller", 1) == [20]
        rules(s, "callee", {"labels": {"canary": 1}})
        assert value(s, "caller", 1) == [10]
        refused = s.infer("lost", ask(1))
        assert refused.status == 500 and "'callee' has no version with the label 'none'" in refused.error
        assert value(s, "adds", 1) == [1]
        rules(s, "sums", {"weights": {"2": 1}})
        assert value(s, "adds", 5) == [6], "it goes on where it began"


def test_weights_share_and_stick(server):
    shared = rules(
        server, "m", {"labels": {"stable": 1, "canary": 2}, "weights": {"stable": 80, "canary": 20}, "sticky": "x-user"}
    )
    assert shared["primary"] == "1" and [v["share"] for v in shared["versions"]] == [0.8, 0.2, 0]
    counts = collections.Counter(asked(server, "m") for _ in range(300))
    assert set(counts) == {1, 2} and 20 < counts[2] < 120, counts
    users = [f"user-{i}" for i in range(100)]
    with grpc.InferenceServerClient(server.grpc) as c:
        went = {u: asked(server, "m", **{"X-User": u}) for u in users}
        assert went == {u: over_grpc(c, "m", **{"x-user": u}) for u in users}
        assert set(went.values()) == {1, 2}
        neso(server, "rollout", "m", "stable=50", "canary=50")
        later = {u: over_grpc(c, "m", **{"x-user": u}) for u in users}
    assert all(later[u] == 2 for u in users if went[u] == 2), "who had the canary keeps it when its weight grows"
    assert server.get("/v2/models/m").json["versions"] == ["1", "2", "3"]
    metrics = server.metrics()
    assert 'neso_rollout_requests_total{label="",model="m",reason="sticky",version="2"}' in metrics
    assert 'neso_rollout_share{model="m",version="1"} 0.5' in metrics
    assert "SHARE" in neso(server, "rollout", "m") and "50.0 %" in neso(server, "rollout", "m")
    rules(server, "m", {"weights": None, "sticky": None})
    assert asked(server, "m") == 3


def test_sequences_stay_where_they_began(server):
    rules(server, "sums", {"labels": {"now": 1}, "weights": {"now": 1}})
    value = grpc.InferInput("IN", [1, 1], "INT32")

    def add(client, n, sequence, **flags):
        value.set_data_from_numpy(np.array([[n]], np.int32))
        r = client.infer("sums", [value], sequence_id=sequence, **flags)
        return int(r.get_response().model_version), r.as_numpy("OUT").item()

    with grpc.InferenceServerClient(server.grpc) as c:
        assert add(c, 1, 7, sequence_start=True) == (1, 1)
        rules(server, "sums", {"labels": {"now": 2}})
        assert add(c, 2, 7) == (1, 3)
        assert add(c, 5, 8, sequence_start=True) == (2, 5)
        assert add(c, 4, 7, sequence_end=True) == (1, 7)
        assert add(c, 1, 7, sequence_start=True, sequence_end=True) == (2, 1)
        assert add(c, 1, 8, sequence_end=True) == (2, 6)
    assert by_version(server, "sums")["1"]["requests"]["sequence"] == 2


def test_mirror_of_sequences(server):
    """A sequence is mirrored as a whole, to one of the other version with a state of its own, beside those of its clients."""
    rules(server, "sums", {"labels": {"now": 1}, "weights": {"now": 1}, "mirror": {"to": 2, "concurrency": 2}})
    value, out = grpc.InferInput("IN", [1, 1], "INT32"), [grpc.InferRequestedOutput("OUT")]

    def add(client, n, sequence, version="", **flags):
        value.set_data_from_numpy(np.array([[n]], np.int32))
        r = client.infer("sums", [value], outputs=out, model_version=version, sequence_id=sequence, **flags)
        return r.as_numpy("OUT").item()

    with grpc.InferenceServerClient(server.grpc) as c:
        before = by_version(server, "sums")["2"].get("mirrored", {}).get("equal", 0)
        assert add(c, 1, 7, sequence_start=True) == 1
        assert add(c, 50, 7, "2", sequence_start=True) == 50, "a client of the other version may have one of this id"
        assert [add(c, n, 7, sequence_end=n == 3) for n in (2, 3)] == [3, 6]
        assert add(c, 1, 7, "2", sequence_end=True) == 51
    assert until(lambda: by_version(server, "sums")["2"]["mirrored"]["equal"] == before + 3)
    rules(server, "sums", {"mirror": None})


def test_sequences_stay_where_they_began_in_ensembles(tmp_path):
    """A step without a version: its sequence ends in the version where it began, whatever the ensemble is made of then."""
    repo = tmp_path / "models"
    add_model(repo, "sums", more=ALL)
    (repo / "sums" / "2").mkdir()
    (repo / "sums" / "2" / "model.py").write_text(
        (repo / "sums" / "1" / "model.py").read_text().replace("total = value", "total = 100 + value")
    )
    (repo / "sums" / "rollout.yaml").write_text("weights: {1: 1}\n")
    for name, step in (("whole", "sums"), ("outer", "whole")):
        (repo / name / "1").mkdir(parents=True)
        (repo / name / "config.pbtxt").write_text(
            f"""platform: "ensemble"
max_batch_size: 4
input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }} ]
ensemble_scheduling {{ step [ {{
  model_name: "{step}" model_version: -1
  input_map {{ key: "IN" value: "IN" }} output_map {{ key: "OUT" value: "OUT" }}
}} ] }}
"""
        )
    value = grpc.InferInput("IN", [1, 1], "INT32")
    with Server(repo, "--model-control-mode=explicit", "--load-model=*") as s, grpc.InferenceServerClient(s.grpc) as c:

        def add(model, n, sequence, **flags):
            value.set_data_from_numpy(np.array([[n]], np.int32))
            return c.infer(model, [value], sequence_id=sequence, **flags).as_numpy("OUT").item()

        for model in ("whole", "outer"):
            rules(s, "sums", {"weights": {"1": 1}})
            assert add(model, 1, 7, sequence_start=True) == 1
            rules(s, "sums", {"weights": {"2": 1}})
            assert add(model, 2, 7) == 3
            assert add(model, 5, 8, sequence_start=True) == 105
            assert add(model, 4, 7, sequence_end=True) == 7
            assert add(model, 1, 7, sequence_start=True, sequence_end=True) == 101
            assert add(model, 1, 8, sequence_end=True) == 206


def test_mirror_compares_and_counts(server):
    for to, result in ((2, "equal"), (3, "close"), (4, "failed")):
        rules(server, "copied", {"weights": {"1": 1}, "mirror": {"to": to, "tolerance": {"absolute": 0.001}}})
        assert [asked(server, "copied") for _ in range(5)] == [1] * 5
        assert until(
            lambda to=to, result=result: by_version(server, "copied")[str(to)].get("mirrored", {}).get(result) == 5
        )
    rules(server, "copied", {"mirror": {"to": 3}})
    assert asked(server, "copied") == 1
    assert until(lambda: by_version(server, "copied")["3"]["mirrored"]["different"] == 1)
    said = server.get("/v2/repository/models/copied/rollout").json["last_difference"]
    assert "output 'OUTPUT0': element 0 is 2 and 2.000" in said
    assert 'neso_rollout_mirrored_total{model="copied",result="equal",version="2"} 5' in server.metrics()
    rules(server, "copied", {"mirror": None})


def test_steps_back_from_errors_and_stays_there(server):
    rules(server, "bad", {
        "labels": {"canary": 2}, "weights": {"1": 1, "canary": 1},
        "step_back": {"from": "canary", "window": "60s", "min_requests": 5, "max_error_rate": 0.1},
    })  # fmt: skip
    failed = 0
    for _ in range(300):
        failed += server.post("/v2/models/bad/infer", X).status != 200
    assert failed == 5, "the fifth failure is the last that a client sees"
    said = server.get("/v2/repository/models/bad/rollout").json
    assert said["stepped_back"]["version"] == "2"
    assert said["stepped_back"]["why"] == "100.0 % of 5 requests in 1m0s failed, the bound is 10.0 %"
    [reason] = [
        e["reason"] for e in server.post("/v2/repository/index").json if (e["name"], e.get("version")) == ("bad", "2")
    ]
    assert reason.startswith("stepped back at 20") and reason.endswith("the bound is 10.0 %")
    metrics = server.metrics()
    assert 'neso_rollout_step_backs_total{model="bad",version="2"} 1' in metrics
    assert 'neso_rollout_stepped_back{model="bad",version="2"} 1' in metrics
    assert "stepped back from a version" in server.log()
    server.post("/v2/repository/models/bad/load")
    rules(server, "bad", {"labels": {"old": 1}})
    assert [asked(server, "bad") for _ in range(20)] == [1] * 20, "neither a load nor a label ends it"
    assert "stepped_back" not in json.loads(neso(server, "rollout", "bad", "--resume", "--json"))


def test_vectors_of_one_request_are_of_one_version(tmp_path):
    """Of many texts under weights: two versions whose vectors differ, each request has those of one of them."""
    repo = tmp_path / "models"
    shutil.copytree(ROOT / "examples" / "openai" / "letters", repo / "letters")
    shutil.copytree(repo / "letters" / "1", repo / "letters" / "2")
    other = (repo / "letters" / "2" / "model.py").read_text().replace("return counts /", "return -counts /")
    (repo / "letters" / "2" / "model.py").write_text(other)
    with (repo / "letters" / "config.pbtxt").open("a") as f:
        f.write(ALL)
    (repo / "letters" / "rollout.yaml").write_text("labels: {new: 2}\nweights: {1: 1, new: 1}\n")
    with Server(repo, "--openai=true") as s:
        signs = collections.Counter()
        for _ in range(24):
            reply = s.post("/v1/embeddings", {"model": "letters", "input": ["a", "b", "c"] * 40})
            assert reply.status == 200, reply
            of_one = {max(v["embedding"], key=abs) for v in reply.json["data"]}
            assert len(of_one) == 1, "the vectors of one request are of two versions"
            signs[of_one.pop()] += 1
        assert len(signs) == 2, signs
        versions = by_version(s, "letters")
        assert versions["1"]["requests"]["weight"] + versions["2"]["requests"]["weight"] == 24 * 15  # batches of eight
        named = s.post("/v1/embeddings", {"model": "letters@new", "input": ["a"] * 3})
        assert {max(v["embedding"], key=abs) for v in named.json["data"]} == {-1}


def test_rules_that_cannot_hold(server):
    for change, said in (
        ({"labels": {"1": 2}}, "labels.1: a label has 1 to 64 letters"),
        ({"labels": {"a": 9}}, "version 9 is not loaded: the version policy loads 1, 2, 3"),
        ({"weights": {"nobody": 1}}, "there is no label 'nobody'"),
        ({"weights": {"1": -1}}, "expected a whole number from 0 to 1000000, got '-1'"),
        ({"weights": {"1": 0}}, "their sum is 0"),
        ({"sticky": "Authorization"}, "'authorization' is not a header to go by"),
        ({"step_back": {"from": 1}}, "there is no bound"),
        ({"nope": 1}, "nope: there is no such field"),
        ("{", "the request: "),
        ("&a [*a]", "expected fields"),
        ("labels: &x {a: 1}\nweights: *x", "anchors and aliases are not taken"),
        ("x" * 70_000, "the limit is 65536"),
    ):
        assert said in rules(server, "m", change, status=400)["error"], change
    assert server.post("/v2/repository/models/nobody/rollout", {"labels": {}}).status == 404
    assert server.request("DELETE", "/v2/repository/models/m/rollout").status == 405
    origin = rules(server, "m", {"labels": {}}, status=403, headers={"Origin": "http://evil.example"})
    assert "it comes from a page of" in origin["error"]


def test_the_file_at_load(server, repo, tmp_path):
    python_model(repo, "filed", 1, extra=ALL)
    for text, said in (
        ("labels: {canary: 2}", "rollout.yaml of model 'filed': labels.canary: version 2 is not loaded"),
        ("labels: {canary: x}", "filed/rollout.yaml:1: labels.canary: expected the number of a version, got 'x'"),
        ("resume: true", "it is an order to a running server"),
    ):
        (repo / "filed" / "rollout.yaml").write_text(text)
        reply = server.post("/v2/repository/models/filed/load")
        assert reply.status == 400 and said in reply.error, reply
    (repo / "filed" / "rollout.yaml").write_text("labels: {stable: 1}")
    assert server.post("/v2/repository/models/filed/load").status == 200
    assert asked(server, "filed/versions/stable") == 1
    python_model(repo, "filed", 2, extra="")
    reply = server.post("/v2/repository/models/filed/load")
    assert reply.status == 400 and "labels.stable: version 1 is not loaded: the version policy loads 2" in reply.error
    assert asked(server, "filed/versions/stable") == 1, "what served serves on"


def test_polling_takes_the_file(tmp_path):
    for version in (1, 2):
        python_model(tmp_path / "models", "m", version, add=version, extra=ALL)
    file = tmp_path / "models" / "m" / "rollout.yaml"
    file.write_text("labels: {stable: 1}\n")
    with Server(tmp_path / "models", "--model-control-mode=poll", "--repository-poll-secs=1") as server:
        assert asked(server, "m/versions/stable") == 1
        file.write_text("labels: {stable: 2}\n")
        assert until(lambda: asked(server, "m/versions/stable") == 2)
        assert server.log().count("loading: m:") == 2, "no version is loaded anew for it"
        refused = server.post("/v2/repository/models/m/rollout", {"labels": {"stable": 1}})
        assert refused.status == 503 and "--model-control-mode=explicit" in refused.error
        assert server.get("/v2/repository/models/m/rollout").json["rules"] == {"labels": {"stable": 2}}


def test_texts_traces_and_a_restricted_interface(tmp_path):
    repo, traces = tmp_path / "models", tmp_path / "trace.json"
    shutil.copytree(ROOT / "examples" / "openai" / "parrot", repo / "parrot")
    shutil.copytree(repo / "parrot" / "1", repo / "parrot" / "2")
    with (repo / "parrot" / "config.pbtxt").open("a") as f:
        f.write(ALL)
    (repo / "parrot" / "rollout.yaml").write_text("labels: {canary: 1}")
    options = ["--openai=true", "--http-restricted-api=model-repository:manage=m", "--model-control-mode=explicit"]
    options += [f"--trace-config=triton,file={traces}", "--trace-config=rate=1", "--trace-config=level=TIMESTAMPS"]
    with Server(repo, *options, "--load-model=*") as s:

        def executed():
            stats = s.get("/v2/models/parrot/stats").json["model_stats"]
            return {v["version"]: v["inference_count"] for v in stats}

        chat = {"messages": [{"role": "user", "content": "hello"}]}
        for name in ("parrot@canary", "parrot@1", "parrot@2", "parrot"):
            reply = s.post("/v1/chat/completions", {**chat, "model": name})
            assert reply.status == 200 and "hello" in reply.json["choices"][0]["message"]["content"], reply
        assert executed() == {"1": 2, "2": 2}
        assert s.post("/v1/chat/completions", {**chat, "model": "parrot@none"}).status == 404
        assert s.get("/v1/models/parrot@canary").status == 200
        events = s.post("/v2/models/parrot/versions/canary/generate_stream", {"text_input": "hello"})
        assert events.status == 200 and b'"model_version":"1"' in events.body

        assert s.get("/v2/repository/models/parrot/rollout").status == 403
        change = {"weights": {"canary": 1}, "mirror": {"to": 2}}
        assert s.post("/v2/repository/models/parrot/rollout", change).status == 403
        key = {"manage": "m"}
        rules(s, "parrot", change, headers=key)
        with grpc.InferenceServerClient(s.grpc) as c:
            answers = queue.Queue()
            c.start_stream(lambda result, error: answers.put((result, error)))
            text = grpc.InferInput("text_input", [1], "BYTES")
            text.set_data_from_numpy(np.array([b"hello"], object))
            c.async_stream_infer("parrot", [text], request_id="one")
            result, error = answers.get(timeout=60)
            assert error is None and result.get_response().model_version == "1"
            c.stop_stream()

        def copies():
            document = s.request("GET", "/v2/repository/models/parrot/rollout", headers=key).json
            return document["versions"][1].get("mirrored", {})

        assert until(lambda: copies().get("equal") == 1), "a decoupled model's answers are compared one by one"
    text = traces.read_text()
    assert '"version_reason":"label","version_label":"canary"' in text and '"version_reason":"weight"' in text
