"""Load, reload, unload, broken models, start and stop, through the built binary."""

from __future__ import annotations

import base64
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import subprocess
import threading

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
from forms import FORMS
from repository import MODEL, Gate, Sent, X, answer, ensemble, identity_model, python_model, settled, until
from server import BINARY, Server, alive, descendants, named


def index(server):
    return {
        (m["name"], m.get("version")): (m.get("state"), m.get("reason", ""))
        for m in server.post("/v2/repository/index").json
    }


def test_versions_and_policies(tmp_path):
    for version in (1, 2, 10):
        python_model(tmp_path, "latest", version, add=version)
        python_model(tmp_path, "all", version, add=version, extra="version_policy { all {} }")
        python_model(
            tmp_path, "specific", version, add=version, extra="version_policy { specific { versions: [ 2 ] } }"
        )
    with Server(tmp_path) as s:
        assert answer(s, "latest") == 11 and answer(s, "all") == 11 and answer(s, "specific") == 3
        assert s.get("/v2/models/all").json["versions"] == ["1", "2", "10"]
        r = s.post("/v2/models/all/versions/1/infer", X)
        assert r.json["model_version"] == "1" and r.json["outputs"][0]["data"] == [2.0]
        assert s.post("/v2/models/latest/versions/1/infer", X).status == 404


def test_explicit_mode_over_both_protocols(tmp_path):
    python_model(tmp_path, "m")
    with Server(tmp_path, "--model-control-mode=explicit") as s:
        assert s.infer("m", X).status == 404
        with thttp.InferenceServerClient(s.http) as h, tgrpc.InferenceServerClient(s.grpc) as g:
            h.load_model("m")
            assert h.is_model_ready("m") and answer(s, "m") == 1
            g.unload_model("m")
            assert until(lambda: index(s)[("m", "1")] == ("UNAVAILABLE", "unloaded")), index(s)
            assert not h.is_model_ready("m")
            g.load_model("m")
            assert g.is_model_ready("m")
            with pytest.raises(Exception, match="failed to load 'nope', failed to poll from model repository"):
                h.load_model("nope")


def test_loads_of_related_models_wait_for_each_other(tmp_path):
    """As Triton's: none fails because another one is loading the same model, or a part of it."""
    python_model(tmp_path, "part", init="import time; time.sleep(1)")
    for name in ("one", "two"):
        ensemble(tmp_path, name, "part")
    with Server(tmp_path, "--model-control-mode=explicit") as s:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            paths = [f"/v2/repository/models/{m}/load" for m in ("part", "one", "two", "part", "one", "two")]
            replies = list(pool.map(lambda path: s.post(path, {}), paths))
            assert [r.status for r in replies] == [200] * 6, [r.error for r in replies]
        assert all(s.get(f"/v2/models/{m}/ready").status == 200 for m in ("part", "one", "two"))


@pytest.mark.parametrize("taken", ["served", "slow"])
def test_an_unload_of_a_part_comes_after_the_load_of_its_ensemble(tmp_path, taken):
    """As Triton's: the load does not fail for it, and the unload takes the ensemble too."""
    gate = tmp_path / "gate"
    gate.touch()
    models = tmp_path / "models"
    python_model(models, "served")
    python_model(models, "slow", init=f"import os\n        while os.path.exists({str(gate)!r}): time.sleep(0.005)")
    ensemble(models, "chain", "served", "slow")
    with Server(models, "--model-control-mode=explicit", "--load-model=served") as s:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            load = pool.submit(s.post, "/v2/repository/models/chain/load", {})
            assert until(lambda: index(s).get(("slow", "1"), ("",))[0] == "LOADING"), index(s)
            unload = pool.submit(s.post, f"/v2/repository/models/{taken}/unload", {})
            early, _ = concurrent.futures.wait([load, unload], timeout=0.2)
            gate.unlink()
            replies = load.result(), unload.result()
        assert not early, [f.result() for f in early]
        assert [r.status for r in replies] == [200, 200], [r.error for r in replies]
        assert s.get("/v2/models/chain/ready").status == s.get(f"/v2/models/{taken}/ready").status == 400
        left = "slow" if taken == "served" else "served"
        assert s.get(f"/v2/models/{left}/ready").status == 200
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for action, ready in (("load", 200), ("unload", 400)):
                paths = [f"/v2/repository/models/{m}/{action}" for m in ("chain", taken)]
                replies = list(pool.map(lambda path: s.post(path, {}), paths))
                assert [r.status for r in replies] == [200, 200], [r.error for r in replies]
                assert {s.get(f"/v2/models/{m}/ready").status for m in ("chain", taken)} == {ready}


def test_load_with_config_and_files(tmp_path):
    config = {
        "backend": "python",
        "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1, -1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1, -1]}],
    }
    source = MODEL.format(init="pass", execute="pass", add=41).encode()
    with Server(tmp_path, "--model-control-mode=explicit") as s:
        r = s.post(
            "/v2/repository/models/made/load",
            {"parameters": {"config": json.dumps(config), "file:1/model.py": base64.b64encode(source).decode()}},
        )
        assert r.status == 200, r
        assert answer(s, "made") == 42
        with tgrpc.InferenceServerClient(s.grpc) as g:
            g.load_model("made2", config=json.dumps(config), files={"file:7/model.py": source})
        assert s.infer("made2", X).json["model_version"] == "7"


@pytest.mark.parametrize("path", ["../evil/model.py", "/etc/x", "1/../../x", "1/..\\..\\x"])
def test_file_overrides_stay_inside(tmp_path, path):
    with Server(tmp_path, "--model-control-mode=explicit") as s:
        r = s.post("/v2/repository/models/m/load", {"parameters": {"config": "{}", "file:" + path: ""}})
        assert r.status in (400, 500), r
        assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize("name", ["..", ".", "a/b", "..%2f..%2fetc", "a\\b", "%2e%2e"])
def test_names_with_path_tricks(tmp_path, name):
    with Server(tmp_path, "--model-control-mode=explicit") as s, tgrpc.InferenceServerClient(s.grpc) as g:
        with pytest.raises(Exception):
            g.load_model(name)
        assert s.post(f"/v2/repository/models/{name}/load").status >= 400
        assert s.get("/v2/health/live").status == 200


def test_reload_loses_no_request(tmp_path):
    python_model(tmp_path, "m", add=0)
    failures, answers, stop = [], set(), threading.Event()

    def load(server):
        x = np.ones((1, 1), np.float32)
        while not stop.is_set():
            for form in ("binary", "grpc"):
                try:
                    answers.add(float(FORMS[form](server, "m", {"INPUT0": x})["OUTPUT0"][0, 0]))
                except Exception as e:
                    failures.append(repr(e))

    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        threads = [threading.Thread(target=load, args=(s,)) for _ in range(3)]
        for t in threads:
            t.start()
        try:
            for add in (10, 20, 30):
                python_model(tmp_path, "m", add=add)
                assert s.post("/v2/repository/models/m/load").status == 200
                assert answer(s, "m") == 1 + add  # the new one answers as soon as the load has
                assert until(lambda add=add: 1 + add in answers or failures), failures[:3]
        finally:
            stop.set()
            for t in threads:
                t.join()
    assert not failures and answers <= {1, 11, 21, 31}, (failures[:3], answers)


def test_reload_within_a_second(tmp_path):
    """What Python has compiled of a model.py is not taken for that of another one of the same size and second."""
    python_model(tmp_path, "m", add=10)
    file = tmp_path / "m" / "1" / "model.py"
    os.utime(file, (1_000_000_000, 1_000_000_000))
    options = ("--model-control-mode=explicit", "--load-model=m")
    with Server(tmp_path, *options, env={"PYTHONDONTWRITEBYTECODE": ""}) as s:
        assert answer(s, "m") == 11
        for add in (20, 30):
            python_model(tmp_path, "m", add=add)
            os.utime(file, ns=(10**18, 10**18 + add))
            assert s.post("/v2/repository/models/m/load").status == 200 and answer(s, "m") == 1 + add


def test_failed_reload_keeps_the_old(tmp_path):
    python_model(tmp_path, "m", add=1)
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        python_model(tmp_path, "m", init='raise ValueError("cannot start today")')
        r = s.post("/v2/repository/models/m/load")
        assert r.status == 400 and "cannot start today" in r.error, r
        assert answer(s, "m") == 2
        seen = index(s)[("m", "1")]
        assert seen[0] == "READY" and seen[1].startswith(
            "the latest change is not served: load failed for model 'm'"
        ), seen
        assert "cannot start today" in seen[1]
        (tmp_path / "m" / "config.pbtxt").write_text('backend: "python"\nmax_batch_size: -3\nnonsense: 1\n')
        r = s.post("/v2/repository/models/m/load")
        assert r.status == 500 and r.error.startswith("failed to load 'm', failed to poll from model repository"), r
        assert "nonsense" in r.error and ":3" in r.error, r
        assert answer(s, "m") == 2 and s.get("/v2/health/ready").status == 200
        with tgrpc.InferenceServerClient(s.grpc) as g:
            (m,) = g.get_model_repository_index().models
            assert m.state == "READY" and "nonsense" in m.reason and "cannot start" not in m.reason
            python_model(tmp_path, "m", add=2)
            g.load_model("m")
            (m,) = g.get_model_repository_index().models
            assert (m.state, m.reason) == ("READY", "") and answer(s, "m") == 3


def broken_repository(repo):
    identity_model(repo, "good")
    python_model(repo, "bad_init", init='raise ValueError("no way")')
    python_model(repo, "bad_import", init="this is no python")
    (repo / "bad_config").mkdir()
    (repo / "bad_config" / "config.pbtxt").write_text('backend: "python"\ninput { name: 3 }\n')
    (repo / "bad_missing" / "1").mkdir(parents=True)
    (repo / "bad_missing" / "config.pbtxt").write_text('backend: "python"\n')


def test_broken_models_end_the_start_with_every_reason(tmp_path):
    broken_repository(tmp_path)
    s = Server(tmp_path, wait=False)
    assert s.process.wait(180) == 1
    log = s.log()
    s.stop()
    for name, reason in (
        ("bad_init", "no way"),
        ("bad_import", "SyntaxError"),
        ("bad_config", "config.pbtxt:2"),
        ("bad_missing", "model.py"),
    ):
        assert name in log and reason in log, (name, log)


def test_workers_are_called_after_their_instances(tmp_path):
    python_model(tmp_path, "m")
    with Server(tmp_path) as s:
        assert named(s.process.pid, "m_0")


@pytest.mark.parametrize(
    ("repository", "warning"),
    [
        ("empty", "there are no models in the model repositories"),
        ("repo/m", "it looks like a model, and each directory in it is taken for one"),
    ],
)
def test_repositories_that_are_none_are_warned_of(tmp_path, repository, warning):
    python_model(tmp_path / "repo", "m")
    (tmp_path / "empty").mkdir()
    with Server(tmp_path / repository, "--exit-on-error=false", wait=False) as s:
        assert until(lambda: warning in s.log()), s.log()


def test_broken_models_beside_good_ones(tmp_path):
    broken_repository(tmp_path)
    s = Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false")
    with s:
        assert answer(s, "good") == 1
        seen = index(s)
        assert seen[("good", "1")][0] == "READY"
        assert "no way" in seen[("bad_init", "1")][1]
        assert s.infer("bad_init", X).status == 404


def test_strict_readiness(tmp_path):
    identity_model(tmp_path, "good")
    python_model(tmp_path, "bad", init='raise ValueError("no way")')
    with Server(tmp_path, "--exit-on-error=false", wait=False) as s:
        assert "no way" in settled(s, 2)["bad"]
        assert answer(s, "good") == 1 and index(s)[("bad", "1")][0] == "UNAVAILABLE"
        assert s.get("/v2/health/live").status == 200
        assert s.get("/v2/health/ready").status == 400
        assert s.get("/v2/models/good/ready").status == 200
        assert s.get("/v2/models/bad/ready").status == 400


def test_a_server_that_could_not_start_says_so(tmp_path):
    """With --exit-on-error=false it stays, neither live nor ready, and says what it is."""
    with (
        Server(tmp_path / "nowhere", "--exit-on-error=false", wait=False) as s,
        thttp.InferenceServerClient(s.http) as h,
        tgrpc.InferenceServerClient(s.grpc) as g,
    ):
        assert until(lambda: all(f"Started {x}" in s.log() for x in ("HTTPService", "GRPCInferenceService"))), s.log()
        for c in h, g:
            assert not c.is_server_live() and not c.is_server_ready()
            with pytest.raises(Exception, match="Server not ready"):
                c.get_model_metadata("m")
            with pytest.raises(Exception, match="Server not ready"):
                c.load_model("m")
        assert s.get("/v2/health/live").status == s.get("/v2/health/ready").status == 400
        assert g.get_server_metadata().name == h.get_server_metadata()["name"]


def test_stop_answers_what_is_in_flight(tmp_path):
    gate = Gate(tmp_path)
    python_model(tmp_path / "models", "slow", execute=gate.execute)
    s = Server(tmp_path / "models")
    request = Sent(s, "slow")
    gate.come()
    workers = descendants(s.process.pid)
    assert workers
    s.process.send_signal(signal.SIGTERM)
    assert until(lambda: s.get("/v2/health/live").status == 503)
    gate.open()
    assert request.status() == 200
    assert s.stop() == 0, s.log()
    assert until(lambda: not any(map(alive, workers))), "worker processes are left"


def test_exit_timeout(tmp_path):
    gate = Gate(tmp_path)
    python_model(tmp_path / "models", "stuck", execute=gate.execute)
    s = Server(tmp_path / "models", "--exit-timeout-secs=1")
    request = Sent(s, "stuck")
    gate.come()
    workers = descendants(s.process.pid)
    assert s.stop() == 1
    try:
        assert request.status() != 200
    except (OSError, http.client.HTTPException):  # cut off without an answer
        pass
    assert until(lambda: not any(map(alive, workers))), "worker processes are left"


def test_silent_connections_do_not_keep_the_server(tmp_path):
    """A probe that only connects is no reason to wait."""
    identity_model(tmp_path, "m")
    s = Server(tmp_path, "--exit-timeout-secs=600")
    connections = [socket.create_connection(("127.0.0.1", p)) for p in (s.http_port, s.grpc_port, s.metrics_port)]
    try:
        assert answer(s, "m") == 1
        s.process.send_signal(signal.SIGTERM)
        assert s.process.wait(60) == 0, s.log()
    finally:
        for c in connections:
            c.close()
        s.stop()


def test_stop_while_models_load(tmp_path):
    python_model(tmp_path, "slow", init="time.sleep(3600)")
    s = Server(tmp_path, wait=False)
    assert until(lambda: "loading" in s.log())
    s.process.send_signal(signal.SIGTERM)
    assert s.process.wait(60) == 0, s.log()
    s.stop()


def test_workers_end_with_a_killed_server(tmp_path):
    python_model(tmp_path, "m")
    s = Server(tmp_path)
    workers = descendants(s.process.pid)
    assert workers
    s.process.send_signal(signal.SIGKILL)
    s.process.wait()
    assert until(lambda: not any(map(alive, workers)))


def test_a_taken_port_is_named(tmp_path):
    identity_model(tmp_path, "m")
    with Server(tmp_path) as s:
        for option in ("http", "grpc", "metrics"):
            ports = {"http": 0, "grpc": 0, "metrics": 0, option: s.http_port}
            r = subprocess.run(
                [
                    BINARY,
                    "serve",
                    f"--model-repository={tmp_path}",
                    *[f"--{k}-port={v}" for k, v in ports.items()],
                    "--http-address=127.0.0.1",
                    "--grpc-address=127.0.0.1",
                ],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert r.returncode == 1 and r.stderr.count(f"Socket '127.0.0.1:{s.http_port}' already in use") == 1, (
                r.stderr
            )


def test_several_repositories(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    identity_model(a, "one")
    identity_model(b, "two")
    with Server([a, b]) as s:
        assert answer(s, "one") == answer(s, "two") == 1
