"""Poll mode, namespaces, repository agents, parallel loads and retries, through the built binary."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import threading

import pytest
from repository import X, answer, ensemble, metric, place, python_model, until
from server import Server
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

POLL = ["--model-control-mode=poll", "--repository-poll-secs=1", "--repository-settle-secs=1"]


def index(server):
    return {
        (m["name"], m.get("version")): (m.get("state"), m.get("reason", ""))
        for m in server.post("/v2/repository/index").json
    }


def test_poll_follows_the_directory(tmp_path):
    repo, aside = tmp_path / "repo", tmp_path / "aside"
    python_model(repo, "m", add=1)
    ensemble(repo, "e", "m", "m")
    with Server(repo, *POLL) as s:
        assert answer(s, "e") == 3
        python_model(repo, "new", add=5)
        assert until(lambda: s.infer("new", X).status == 200), s.log()
        python_model(repo, "m", version=3, add=10)
        assert until(lambda: answer(s, "e") == 21), s.log()
        # A configuration that is no good, then one whose backend fails.
        config = (repo / "m" / "config.pbtxt").read_text()
        (repo / "m" / "config.pbtxt").write_text("nonsense {")
        assert until(lambda: "nonsense" in index(s)[("m", "3")][1]), s.log()
        assert index(s)[("m", "3")][0] == "READY" and answer(s, "m") == 11
        (repo / "m" / "config.pbtxt").write_text(config)
        python_model(repo, "m", version=4, init="raise ValueError('bad change')")
        assert until(lambda: "bad change" in index(s)[("m", "3")][1]), s.log()
        assert answer(s, "m") == 11 and s.get("/v2/models/m/versions/4/ready").status == 400
        assert s.log().count("failed to load 'm' version 4") == 1
        shutil.rmtree(repo / "m" / "4")
        assert until(lambda: index(s)[("m", "3")] == ("READY", "")), index(s)
        (repo / "new").rename(aside)
        assert until(lambda: index(s).get(("new", "1"), ("UNAVAILABLE", ""))[0] == "UNAVAILABLE"), s.log()
        assert s.infer("new", X).status == 404 and s.get("/v2/health/ready").status == 200
        for verb in ("load", "unload"):
            r = s.post(f"/v2/repository/models/m/{verb}")
            assert r.status == 503
            assert r.error == "explicit model load / unload is not allowed if polling is enabled"
    assert s.process.returncode == 0


def test_poll_says_the_latest_fault(tmp_path):
    """What is said of a model that does not serve is what is wrong now, not what was."""
    repo, aside = tmp_path / "repo", tmp_path / "aside"
    python_model(repo, "m")
    with Server(repo, *POLL) as s:
        python_model(repo, "new", init="raise ValueError('first fault')")
        assert until(lambda: "first fault" in index(s).get(("new", "1"), ("", ""))[1]), s.log()
        (repo / "new" / "config.pbtxt").write_text("nonsense {")
        assert until(lambda: "nonsense" in index(s)[("new", "1")][1]), s.log()
        ready = s.get("/v2/health/ready?verbose")
        assert ready.status == 400 and "nonsense" in ready.json["reason"], ready.body
        # One that was taken away and comes back unreadable has no version any more.
        (repo / "new").rename(aside)
        assert until(lambda: ("new", "1") not in index(s) and s.get("/v2/health/ready").status == 200), s.log()
        aside.rename(repo / "new")
        assert until(lambda: "nonsense" in index(s).get(("new", None), ("", ""))[1]), s.log()
        assert ("new", "1") not in index(s)


def manifest(directory):
    files = sorted(f for f in directory.rglob("*") if f.is_file() and f.name != "manifest.sha256")
    return "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  ./{f.relative_to(directory)}\n" for f in files)


def test_manifest(tmp_path):
    """What is copied slower than the settle time is taken once it is what its manifest says."""
    repo, whole = tmp_path / "repo", tmp_path / "whole"
    python_model(repo, "m", add=1)
    for version in (1, 2):
        python_model(whole, "m", version=version, add=10 * version)
        python_model(whole, "new", version=version, add=5)
    with Server(repo, *POLL) as s:
        for name in ("m", "new"):
            (repo / name).mkdir(exist_ok=True)
            (repo / name / "manifest.sha256").write_text(manifest(whole / name))
        # Half of it stays half for longer than the settle time.
        missing = "not complete: manifest.sha256 names "
        assert until(lambda: missing in index(s)[("m", "1")][1]), (index(s), s.log())
        assert until(lambda: missing in index(s).get(("new", None), ("", ""))[1]), index(s)
        assert index(s)[("m", "1")][0] == "READY" and answer(s, "m") == 2
        assert s.get("/v2/health/ready").status == 200 and s.infer("new", X).status == 404
        shutil.copytree(whole, repo, dirs_exist_ok=True)
        assert until(lambda: s.infer("new", X).status == 200 and answer(s, "m") == 21), s.log()
        assert until(lambda: index(s).get(("m", "2")) == ("READY", "")), index(s)
        # An old version that the manifest of the next state does not name any more.
        shutil.rmtree(whole / "m" / "2")
        (repo / "m" / "manifest.sha256").write_text(manifest(whole / "m"))
        assert until(lambda: "2/model.py is not in manifest.sha256" in index(s)[("m", "2")][1]), index(s)
        assert answer(s, "m") == 21
        (repo / "m" / "2").rename(tmp_path / "aside")
        assert until(lambda: answer(s, "m") == 11), s.log()
        assert "[E" not in s.log() and "\nE" not in s.log(), s.log()


def test_required_manifest(tmp_path):
    python_model(tmp_path, "m", add=1)
    explicit = ("--model-control-mode=explicit", "--repository-require-manifest=true")
    with Server(tmp_path, *explicit) as s:
        r = s.post("/v2/repository/models/m/load", {})
        assert r.status != 200 and "it has no manifest.sha256" in r.error, r
        (tmp_path / "m" / "manifest.sha256").write_text(manifest(tmp_path / "m"))
        assert s.post("/v2/repository/models/m/load", {}).status == 200
        assert answer(s, "m") == 2


def test_a_manifest_of_files_that_are_sent(tmp_path):
    """A load with files is asked for its manifest as well, and held to it."""
    python_model(tmp_path / "aside", "m", add=1)
    made = tmp_path / "aside" / "m"
    io = {"data_type": "TYPE_FP32", "dims": [-1, -1]}
    config = json.dumps(
        {"backend": "python", "input": [{"name": "INPUT0", **io}], "output": [{"name": "OUTPUT0", **io}]}
    )
    repo = tmp_path / "models"
    (made / "config.pbtxt").unlink()
    repo.mkdir()
    files = {"1/model.py": (made / "1" / "model.py").read_bytes(), "manifest.sha256": manifest(made).encode()}
    bad = {**files, "1/model.py": b"# something else"}
    explicit = ("--model-control-mode=explicit", "--repository-require-manifest=true")
    with Server(repo, *explicit) as s, InferenceServerClient(s.grpc) as client:

        def load(files):
            parameters = {f"file:{path}": base64.b64encode(content).decode() for path, content in files.items()}
            by_http = s.post("/v2/repository/models/m/load", {"parameters": {"config": config, **parameters}})
            try:
                client.load_model("m", config=config, files={f"file:{p}": c for p, c in files.items()})
            except InferenceServerException as e:
                assert by_http.status != 200
                return str(e) if by_http.error in str(e) else f"{by_http.error} | {e}"
            assert by_http.status == 200, by_http
            return ""

        assert "it has no manifest.sha256" in load({"1/model.py": files["1/model.py"]})
        assert "1/model.py has not the sum that manifest.sha256 says" in load(bad)
        assert "1/more.py is not in manifest.sha256" in load({**files, "1/more.py": b""})
        assert load(files) == "" and answer(s, "m") == 2


@contextlib.contextmanager
def asked(server, model):
    """Asks the model all the while: what it has answered so far, and at the end that no request failed."""
    failures, answers, stop = [], [], threading.Event()

    def ask():
        while not stop.is_set():
            r = server.infer(model, X)
            (failures if r.status != 200 else answers).append(r if r.status != 200 else r.json["outputs"][0]["data"][0])

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()
    assert not failures, failures[0]


def test_poll_loses_no_request(tmp_path):
    python_model(tmp_path, "m", add=0)
    with Server(tmp_path, *POLL) as s, asked(s, "m") as answers:
        for add in (10, 20):
            python_model(tmp_path, "m", add=add)
            assert until(lambda add=add: 1 + add in answers), s.log()
    assert set(answers) == {1, 11, 21}


def test_a_step_that_moves_loses_no_request(tmp_path):
    """The model of a step goes once the ensemble has that of the new configuration; without one the ensemble goes with it."""
    repo = tmp_path / "repo"
    python_model(repo, "old", add=1)
    python_model(repo, "new", add=2)
    ensemble(repo, "e", "old")
    ensemble(tmp_path / "aside", "e", "new")
    with Server(repo, *POLL) as s:
        with asked(s, "e") as answers:
            assert until(lambda: 2 in answers), s.log()
            place(repo / "e", {"config.pbtxt": (tmp_path / "aside" / "e" / "config.pbtxt").read_text()})
            shutil.move(repo / "old", tmp_path / "away")
            assert until(lambda: s.infer("old", X).status == 404), s.log()
            assert until(lambda: answers[-1] == 3), s.log()
        shutil.move(repo / "new", tmp_path / "gone")
        assert until(lambda: s.infer("e", X).status == 404), s.log()
        assert index(s)[("e", "1")][0] == "UNAVAILABLE"


def test_one_name_in_two_repositories(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    python_model(a, "m", add=1)
    python_model(b, "m", add=2)
    python_model(a, "only", add=7)
    ensemble(a, "ea", "m")
    ensemble(b, "eb", "m")
    s = Server([a, b], wait=False)
    assert s.process.wait(180) == 1
    assert "failed to poll model 'm': not unique across all model repositories" in s.log()
    with Server([a, b], "--exit-on-error=false", "--strict-readiness=false") as s:
        assert answer(s, "only") == 8
        assert s.infer("m", X).status == 404 and s.infer("ea", X).status == 404
        assert index(s)[("m", None)] == ("UNAVAILABLE", "model appears in two or more repositories")


def test_namespaces(tmp_path):
    """What the peer answers: the ensembles find their own, the plain name is ambiguous."""
    a, b = tmp_path / "a", tmp_path / "b"
    python_model(a, "m", add=1)
    python_model(b, "m", add=2)
    python_model(a, "only", add=7)
    ensemble(a, "ea", "m")
    ensemble(b, "eb", "m", "only")
    ambiguous = (
        "There are 2 identifiers of model 'm' in global map, model namespace must be provided to resolve ambiguity."
    )
    with Server([a, b], "--model-namespacing=true", *POLL) as s:
        with asked(s, "ea") as answers:
            shutil.move(a / "m", tmp_path / "away")
            assert until(lambda: 3 in answers), "that of the other repository, where its own has none"
            shutil.move(tmp_path / "away", a / "m")
            assert until(lambda: answers[-1] == 2), s.log()
    with Server([a, b], "--model-namespacing=true", *POLL) as s:
        assert answer(s, "ea") == 2 and answer(s, "eb") == 10 and answer(s, "only") == 8
        for r in (s.infer("m", X), s.get("/v2/models/m")):
            assert (r.status, r.error) == (400, ambiguous)
        assert s.get("/v2/models/m/ready").status == 400
        rows = s.post("/v2/repository/index").json
        assert [m["name"] for m in rows if m["state"] == "READY"] == ["ea", "eb", "m", "m", "only"]
        (step,) = s.get("/v2/models/ea/config").json["ensemble_scheduling"]["step"]
        assert (step["model_name"], step["model_namespace"]) == ("m", str(a))
        assert metric(s, "nv_inference_request_success", model="m", namespace=str(a), version="1") == 1
        assert metric(s, "nv_inference_request_success", model="m", namespace=str(b), version="1") == 1
        shutil.rmtree(b / "m")
        shutil.rmtree(b / "eb")
        python_model(a, "m", add=4)
        assert until(lambda: answer(s, "ea") == 5), s.log()
        assert until(lambda: s.infer("eb", X).status == 404), s.log()
        assert answer(s, "m") == 5, "the name is that of the only model which is left"
        assert s.post("/v2/models/nope/trace/setting", {"trace_file": "x"}).error == "Request for unknown model : nope"


def test_checksum_agent(tmp_path):
    agents = 'model_repository_agents { agents { name: "%s" parameters { key: "%s" value: "%s" } } }'
    python_model(tmp_path, "good")
    sum = hashlib.md5((tmp_path / "good" / "1" / "model.py").read_bytes()).hexdigest()
    python_model(tmp_path, "good", extra=agents % ("checksum", "MD5:1/model.py", sum))
    python_model(tmp_path, "bad", extra=agents % ("checksum", "MD5:1/model.py", "0" * 32))
    python_model(tmp_path, "unknown", extra=agents % ("nosuch", "a", "b"))
    with Server(tmp_path, "--model-control-mode=explicit", "--repoagent-directory=/agents") as s:
        assert s.post("/v2/repository/models/good/load").status == 200 and answer(s, "good") == 1
        for name, why in (
            ("bad", f"Mismatched MD5 hash for file 1/model.py, expect: {'0' * 32}, got: {sum}"),
            ("unknown", "unable to find 'libtritonrepoagent_nosuch.so' for repo agent 'nosuch', searched: /agents"),
        ):
            r = s.post(f"/v2/repository/models/{name}/load")
            assert r.status == 500
            assert r.error == f"failed to load '{name}', failed to poll from model repository: {why}"


def test_config_name(tmp_path):
    python_model(tmp_path, "m")
    python_model(tmp_path, "n")
    (tmp_path / "m" / "configs").mkdir()
    text = (tmp_path / "m" / "config.pbtxt").read_text()
    (tmp_path / "m" / "configs" / "small.pbtxt").write_text(
        text + 'parameters { key: "size" value { string_value: "small" } }'
    )
    with Server(tmp_path, "--model-config-name=small") as s:
        assert s.get("/v2/models/m/config").json["parameters"] == {"size": {"string_value": "small"}}
        assert s.get("/v2/models/n/config").json["parameters"] == {}


@pytest.mark.parametrize(("threads", "together"), [(1, 1), (4, 4)])
def test_load_threads(tmp_path, threads, together):
    """Each model notes how many load at the same time: it waits for the others, or looks for a while whether one comes."""
    notes = tmp_path / "notes"
    notes.mkdir()
    init = f"""
        import os, time
        mine = os.path.join({str(notes)!r}, args["model_name"])
        open(mine, "w").close()
        end = time.monotonic() + (120 if {together} > 1 else 0.3)
        most = 0
        while time.monotonic() < end and most < 4:
            most = max(most, sum(n[1:].isdigit() for n in os.listdir({str(notes)!r})))
            time.sleep(0.01)
        open(os.path.join({str(notes)!r}, "most-%d" % most), "w").close()
        os.rename(mine, mine + ".done") if {together} == 1 else None"""
    for i in range(4):
        python_model(tmp_path / "repo", f"m{i}", init=init.lstrip())
    with Server(tmp_path / "repo", f"--model-load-thread-count={threads}"):
        assert {p.name for p in notes.glob("most-*")} == {f"most-{together}"}


def test_load_retries(tmp_path):
    flag = tmp_path / "tries"
    init = f"""
        with open({str(flag)!r}, "a") as f:
            f.write("x")
        if len(open({str(flag)!r}).read()) < 3:
            raise ValueError("not yet")"""
    python_model(tmp_path / "repo", "m", init=init.lstrip())
    with Server(tmp_path / "repo", "--model-load-retry-count=2") as s:
        assert answer(s, "m") == 1 and s.log().count("failed to load 'm' version 1") == 2
    flag.unlink()
    s = Server(tmp_path / "repo", "--model-load-retry-count=1", wait=False)
    assert s.process.wait(180) == 1
