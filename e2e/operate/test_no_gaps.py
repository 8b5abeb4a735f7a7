"""What serves before and after a change answers all the while: requests of each kind, sent without a pause, see no failure."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import threading

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from repository import X, ensemble, place, python_model, until
from server import BINARY, Server

ASKS = ("infer", "grpc", "ready", "metadata", "config", "stats", "index", "server")
ONE = ASKS[:-1]  # the server is not ready while a version is loaded that did not serve before, as in Triton


class Hammer:
    """Asks for models all the while, a thread and a connection for each model and kind of request.

    pass_ waits until each thread has had an answer to a request that it has begun since: no change goes by unseen.
    """

    def __init__(self, server, *models, asks=ASKS):
        self.server, self.stop, self.failures = server, threading.Event(), []
        self.kinds = [(m, a) for m in models for a in asks]
        self.asked = dict.fromkeys(self.kinds, 0)

    def __enter__(self):
        self.threads = [threading.Thread(target=self._run, args=k, daemon=True) for k in self.kinds]
        for t in self.threads:
            t.start()
        self.pass_()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.pass_()
        self.stop.set()
        for t in self.threads:
            t.join(60)
        if kind is None:
            assert not self.failures, self.failures[:4]

    def pass_(self):
        seen = dict(self.asked)
        assert until(lambda: self.failures or all(self.asked[k] >= n + 2 for k, n in seen.items())), self.asked
        assert not self.failures, self.failures[:4]

    def _run(self, model, ask):
        try:
            with contextlib.ExitStack() as stack:
                send = self._grpc(stack, model) if ask == "grpc" else self._http(stack, model, ask)
                while not self.stop.is_set():
                    send()
                    self.asked[model, ask] += 1
        except Exception as e:
            self.failures.append((model, ask, self.asked[model, ask], repr(e)))

    def _grpc(self, stack, model):
        client = stack.enter_context(tgrpc.InferenceServerClient(self.server.grpc))
        tensor = tgrpc.InferInput("INPUT0", [1, 1], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 1), np.float32))
        name, _, version = model.partition("/versions/")
        return lambda: client.infer(name, [tensor], model_version=version)

    def _http(self, stack, model, ask):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=120)
        stack.callback(connection.close)
        method, body, path = (
            "GET",
            None,
            {
                "infer": f"/v2/models/{model}/infer",
                "ready": f"/v2/models/{model}/ready",
                "server": "/v2/health/ready",
                "metadata": f"/v2/models/{model}",
                "config": f"/v2/models/{model}/config",
                "stats": f"/v2/models/{model}/stats",
                "index": "/v2/repository/index",
            }[ask],
        )
        if ask in ("infer", "index"):
            method, body = "POST", json.dumps(X if ask == "infer" else {"ready": True})

        def send():
            connection.request(method, path, body)
            reply = connection.getresponse()
            text = reply.read()
            assert reply.status == 200, (reply.status, text)
            if ask == "index":
                assert model.partition("/")[0] in [m["name"] for m in json.loads(text)], text

        return send


def explicit(repo, *flags):
    return Server(repo, "--model-control-mode=explicit", "--load-model=*", *flags)


def load(server, name):
    reply = server.post(f"/v2/repository/models/{name}/load")
    assert reply.status == 200, reply


def configure(repo, name, text):
    """Adds a line to the configuration, so that a load loads the model anew."""
    place(repo / name, {"config.pbtxt": (repo / name / "config.pbtxt").read_text().split("# -\n")[0] + "# -\n" + text})


def note(n):
    return f'parameters {{ key: "n" value {{ string_value: "{n}" }} }}\n'


def quick(repo, name):
    """A model that is loaded in a moment."""
    place(
        repo / name,
        {
            "config.pbtxt": 'backend: "identity"\n'
            'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n'
            'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n',
            "1/.keep": "",
        },
    )


@pytest.mark.parametrize("make", [quick, python_model])
def test_reload(tmp_path, make):
    make(tmp_path, "m")
    with explicit(tmp_path) as s, Hammer(s, "m", "m/versions/1") as hammer:
        for n in range(12):
            configure(tmp_path, "m", note(n))
            load(s, "m")
            hammer.pass_()


def test_steps_are_reloaded(tmp_path):
    """Models of an ensemble's steps, the ensemble itself, and an ensemble of ensembles."""
    quick(tmp_path, "a")
    quick(tmp_path, "b")
    ensemble(tmp_path, "inner", "a", "b")
    ensemble(tmp_path, "outer", "inner", "a")
    with explicit(tmp_path) as s, Hammer(s, "outer", "inner", asks=ONE) as hammer:
        for n in range(6):
            for name in ("a", "b", "inner", "outer"):
                configure(tmp_path, name, note(n))
                load(s, name)
            hammer.pass_()
        # To another model, of which the former is unloaded then.
        quick(tmp_path, "c")
        ensemble(tmp_path / "aside", "inner", "a", "c")
        place(tmp_path / "inner", {"config.pbtxt": (tmp_path / "aside" / "inner" / "config.pbtxt").read_text()})
        load(s, "inner")
        assert s.post("/v2/repository/models/b/unload").status == 200
        assert s.infer("b", X).status == 404


def test_version_policies(tmp_path):
    """Version 2 is there under each of them; the latest is another one now and then."""
    quick(tmp_path, "m")
    for version in ("2", "3"):
        place(tmp_path / "m", {f"{version}/.keep": ""})
    ensemble(tmp_path, "e", "m")
    configure(tmp_path, "m", "version_policy { specific { versions: [ 2 ] } }\n")
    with explicit(tmp_path) as s, Hammer(s, "m", "m/versions/2", "e", asks=ONE) as hammer:
        for policy in [
            "all { }",
            "specific { versions: [ 1, 2 ] }",
            "latest { num_versions: 2 }",
            "specific { versions: [ 2 ] }",
        ] * 2:
            configure(tmp_path, "m", f"version_policy {{ {policy} }}\n")
            load(s, "m")
            hammer.pass_()
        for n, policy in enumerate(["all { }", "specific { versions: [ 2, 3 ] }", "specific { versions: [ 2 ] }"]):
            configure(tmp_path, "m", f"version_policy {{ {policy} }}\n" + note(n))
            load(s, "m")
            hammer.pass_()


def test_commands(tmp_path):
    quick(tmp_path, "m")
    quick(tmp_path, "other")
    with explicit(tmp_path) as s, Hammer(s, "m", asks=ONE) as hammer:

        def neso(*arguments):
            done = subprocess.run(
                [BINARY, *arguments, "--url", s.http], capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        for n in range(3):
            configure(tmp_path, "m", note(n))
            neso("load", "m")
            neso("unload", "other")
            assert "m" in neso("index")
            neso("load", "other")
            neso("ready", "m")
            neso("config", "m")
            hammer.pass_()


def test_neighbours_come_and_go(tmp_path):
    """Loads that fail, unloads and loads of other models, and of other repositories, touch nobody else."""
    first, second = tmp_path / "first", tmp_path / "second"
    quick(first, "m")
    quick(first, "part")
    ensemble(first, "e", "part")
    quick(second, "other")
    with (
        Server([first, second], "--model-control-mode=explicit", "--load-model=*") as s,
        Hammer(s, "m", "e", asks=ONE) as hammer,
    ):
        for n in range(4):
            for verb in ("unload", "load"):
                assert s.post(f"/v2/repository/models/other/{verb}").status == 200
            configure(first, "m", "nonsense {")
            assert s.post("/v2/repository/models/m/load").status == 500
            configure(first, "part", f'backend: "nothing{n}"\n')
            assert s.post("/v2/repository/models/part/load").status != 200
            configure(first, "m", note(n))
            configure(first, "part", note(n))
            load(s, "m")
            load(s, "e")
            hammer.pass_()


def test_calls_of_models(tmp_path):
    """A model that others call by BLS is loaded anew."""
    quick(tmp_path, "callee")
    python_model(
        tmp_path,
        "m",
        execute="x = [pb_utils.get_input_tensor_by_name(r, 'INPUT0') for r in requests]\n"
        "        for t in x:\n"
        "            a = pb_utils.InferenceRequest(model_name='callee', requested_output_names=['OUTPUT0'], inputs=[t]).exec()\n"
        "            if a.has_error():\n"
        "                raise RuntimeError(a.error().message())",
    )
    with explicit(tmp_path) as s, Hammer(s, "m", asks=("infer", "grpc", "ready", "server")) as hammer:
        for n in range(10):
            configure(tmp_path, "callee", note(n))
            load(s, "callee")
            hammer.pass_()


def test_polls(tmp_path):
    """Files, versions and ensembles change, a model moves to another repository, under another control than requests."""
    repo, other = tmp_path / "repo", tmp_path / "other"
    other.mkdir()
    quick(repo, "m")
    ensemble(repo, "e", "m")
    # A look that falls into the move may find the model in both repositories: it has to stay so to count.
    flags = ["--model-control-mode=poll", "--repository-poll-secs=1", "--repository-settle-secs=1"]

    def parameters():
        return s.get("/v2/models/m/config").json["parameters"]

    with Server([repo, other], *flags) as s, Hammer(s, "m", "e", asks=ONE) as hammer:
        for n in range(2):
            configure(repo, "m", note(n))
            assert until(lambda n=n: parameters() == {"n": {"string_value": str(n)}}), s.log()
            hammer.pass_()
        place(repo / "m", {"2/.keep": ""})
        assert until(lambda: s.get("/v2/models/m/versions/2/ready").status == 200), s.log()
        os.rename(repo / "m" / "1", tmp_path / "1")
        hammer.pass_()
        os.rename(repo / "m", other / "m")
        configure(other, "m", note(7))
        assert until(lambda: parameters() == {"n": {"string_value": "7"}}), s.log()


def test_instances_of_one_name(tmp_path):
    """Loads at the same time, of the same model and of the ensemble that uses it."""
    quick(tmp_path, "m")
    ensemble(tmp_path, "e", "m")
    with explicit(tmp_path) as s, Hammer(s, "m", "e") as hammer:
        over, failures = threading.Event(), []

        def reload(name):
            while not over.is_set():
                reply = s.post(f"/v2/repository/models/{name}/load")
                if reply.status != 200:
                    failures.append(reply)

        threads = [threading.Thread(target=reload, args=(name,)) for name in ("m", "e")]
        for t in threads:
            t.start()
        try:
            for n in range(8):
                configure(tmp_path, "m", f"instance_group {{ count: {1 + n % 3} kind: KIND_CPU }}\n" + note(n // 2))
                hammer.pass_()
        finally:
            over.set()
            for t in threads:
                t.join(60)
        assert not failures, failures[0]
