"""Keys, scopes, model patterns and quotas over every front end, and the listener of administrators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from google.protobuf import duration_pb2, struct_pb2
from repository import Gate, X, identity_model, metric, python_model, until
from server import BINARY, ROOT, Server, free_port
from tritonclient.utils import InferenceServerException


def new_key(name, *options):
    """What `neso key new` makes: the key, and the entry for the file."""
    out = subprocess.run([BINARY, "key", "new", name, *options], capture_output=True, text=True, check=True).stdout
    key = out.split("key (shown once): ")[1].split("\n")[0]
    assert key.startswith("neso_") and len(key) == 48
    entry = json.loads(out[out.index("{") :])
    assert key not in json.dumps(entry)
    return key, entry


def written(path, text):
    """Puts a text into a file that the server may look at any moment: there is no half of it."""
    whole = path.with_suffix(".new")
    whole.write_text(text)
    whole.replace(path)


class Keys:
    """An auth file and the keys to it."""

    def __init__(self, path, **named):
        self.path, self.key, self.entries = path, {}, []
        for name, options in named.items():
            self.key[name], entry = new_key(name, *options)
            self.entries.append(entry)
        self.write()

    def write(self, **more):
        written(self.path, json.dumps({**more, "keys": self.entries}, indent=1))

    def of(self, name):
        return {"Authorization": f"Bearer {self.key[name]}"}


NAMES = dict(
    app=["--models", "open-*"],
    ops=["--scopes", "read,manage"],
    watcher=["--scopes", "read"],
    slow=["--requests-per-second", "0.01", "--burst", "2"],
    single=["--concurrent-requests", "1"],
    anything=[],
    small=["--queued-bytes", "100"],
)


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    d = tmp_path_factory.mktemp("auth")
    repo = d / "models"
    repo.mkdir()
    identity_model(repo, "open-a")
    identity_model(repo, "closed")
    gate = Gate(d)
    gate.open()
    python_model(repo, "open-slow", execute=gate.execute)
    keys = Keys(d / "keys.json", **NAMES)
    options = ["--model-control-mode=explicit", "--load-model=*", "--log-verbose=1", f"--auth-file={keys.path}"]
    port = free_port()
    options += ["--allow-sagemaker=true", f"--sagemaker-port={port}", "--http-header-forward-pattern=.*"]
    env = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "closed"}
    with Server(repo, *options, env=env) as s:
        s.sagemaker_port, s.gate = port, gate
        yield s, keys


def infer_x(s, model, headers=None, n=1, **kw):
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, n], "data": [1] * n}]}
    return s.infer(model, body, headers=headers, **kw)


HTTP = [
    # method, path, key, status, words of the error
    ("GET", "/v2/health/live", None, 200, ""),
    ("GET", "/v2/health/ready", None, 200, ""),
    ("GET", "/v2/health/ready?verbose", None, 401, "asks for a key"),
    ("GET", "/v2/health/ready?verbose", "app", 403, "needs the scope read or manage"),
    ("GET", "/v2/health/ready?verbose", "watcher", 200, ""),
    ("GET", "/v2", None, 401, "this server asks for a key"),
    ("GET", "/v2", "app", 200, ""),
    ("GET", "/v2/models/open-a", "app", 200, ""),
    ("GET", "/v2/models/open-a/config", "app", 200, ""),
    ("GET", "/v2/models/open-a/ready", "app", 200, ""),
    ("GET", "/v2/models/closed", "app", 403, "key 'app' is not for model 'closed'"),
    ("GET", "/v2/models/nothing", "app", 403, "key 'app' is not for model 'nothing'"),
    ("GET", "/v2/models/closed/ready", "app", 403, "not for model"),
    ("GET", "/v2/models/stats", "app", 403, "needs the scope read or manage"),
    ("GET", "/v2/models/stats", "watcher", 200, ""),
    ("GET", "/v2/logging", "watcher", 200, ""),
    ("POST", "/v2/logging", "watcher", 403, "needs the scope manage"),
    ("POST", "/v2/logging", "ops", 200, ""),
    ("POST", "/v2/repository/index", "watcher", 200, ""),
    ("POST", "/v2/repository/index", "app", 403, "needs the scope"),
    ("POST", "/v2/repository/models/open-a/load", "watcher", 403, "needs the scope manage"),
    ("POST", "/v2/repository/models/open-a/load", None, 401, "asks for a key"),
    ("POST", "/v2/repository/models/open-a/load", "ops", 200, ""),
    ("GET", "/v2/repository/models/open-a/rollout", None, 401, "asks for a key"),
    ("GET", "/v2/repository/models/open-a/rollout", "app", 403, "needs the scope read or manage"),
    ("GET", "/v2/repository/models/open-a/rollout", "watcher", 200, ""),
    ("POST", "/v2/repository/models/open-a/rollout", "watcher", 403, "needs the scope manage"),
    ("POST", "/v2/repository/models/open-a/rollout", "ops", 200, ""),
    ("POST", "/v2/models/closed/versions/stable/infer", "app", 403, "not for model 'closed'"),
    ("POST", "/v2/repository/bind", "app", 403, "needs the scope manage"),
    ("POST", "/v2/systemsharedmemory/region/x/register", "app", 403, "needs the scope manage"),
    ("POST", "/v2/models/open-a/infer", "ops", 403, "needs the scope infer"),
    ("POST", "/v2/models/open-a/infer", None, 401, "asks for a key"),
    ("POST", "/v2/models/closed/infer", "app", 403, "not for model 'closed'"),
    ("POST", "/v2/models/closed/generate", "app", 403, "not for model 'closed'"),
    ("POST", "/v2/models/closed/generate_stream", "app", 403, "not for model 'closed'"),
]


@pytest.mark.parametrize(("method", "path", "key", "status", "words"), HTTP)
def test_http(setting, method, path, key, status, words):
    s, keys = setting
    r = s.request(method, path, "{}" if method == "POST" else None, keys.of(key) if key else {})
    assert r.status == status, r
    assert words in (r.error if words else ""), r
    assert ("www-authenticate" in r.headers) == (status == 401), r
    if key:  # the other header means the same
        assert (
            s.request(method, path, "{}" if method == "POST" else None, {"X-API-Key": keys.key[key]}).status == status
        )


def test_wrong_keys(setting):
    s, keys = setting
    right = keys.key["app"]
    for wrong in ("x", right[:-1], right + "x", right.upper(), "neso_" + "A" * 43, "é", "k" * 5000):
        r = s.get("/v2", headers={"X-API-Key": wrong.encode()})
        assert r.status == 401 and r.error == "the key is not known to this server", r
        assert r.headers["www-authenticate"].startswith("Bearer")


def test_official_clients(setting):
    s, keys = setting
    x = np.ones((1, 4), np.float32)
    for module, address in ((httpclient, s.http), (grpcclient, s.grpc)):
        with module.InferenceServerClient(address) as client:
            i = module.InferInput("INPUT0", x.shape, "FP32")
            i.set_data_from_numpy(x)
            key = keys.of("app") if module is httpclient else {"authorization": keys.of("app")["Authorization"]}
            assert client.is_server_ready()
            assert (client.infer("open-a", [i], headers=key).as_numpy("OUTPUT0") == x).all()
            assert client.get_model_metadata("open-a", headers=key)
            for headers in (None, {"x-api-key": "wrong"}):
                with pytest.raises(InferenceServerException) as e:
                    client.infer("open-a", [i], headers=headers)
                assert "key" in e.value.message()
                if module is grpcclient:
                    assert e.value.status() == "StatusCode.UNAUTHENTICATED"
            with pytest.raises(InferenceServerException) as e:
                client.infer("closed", [i], headers=key)
            assert e.value.message() == "key 'app' is not for model 'closed'"
            if module is grpcclient:
                assert e.value.status() == "StatusCode.PERMISSION_DENIED"


GRPC = [
    ("is_model_ready", ("open-a",), "app", None),
    ("is_model_ready", ("closed",), "app", "PERMISSION_DENIED"),
    ("get_model_config", ("closed",), "app", "PERMISSION_DENIED"),
    ("get_server_metadata", (), None, "UNAUTHENTICATED"),
    ("get_server_metadata", (), "app", None),
    ("get_inference_statistics", (), "app", "PERMISSION_DENIED"),
    ("get_inference_statistics", (), "watcher", None),
    ("get_model_repository_index", (), "watcher", None),
    ("get_log_settings", (), "watcher", None),
    ("update_log_settings", ({"log_info": True},), "watcher", "PERMISSION_DENIED"),
    ("update_log_settings", ({"log_info": True},), "ops", None),
    ("load_model", ("open-a",), "app", "PERMISSION_DENIED"),
    ("load_model", ("open-a",), "ops", None),
    ("unload_model", ("open-a",), "watcher", "PERMISSION_DENIED"),
    ("register_system_shared_memory", ("r", "/x", 8), "app", "PERMISSION_DENIED"),
]


@pytest.mark.parametrize(("call", "args", "key", "status"), GRPC)
def test_grpc(setting, call, args, key, status):
    s, keys = setting
    with grpcclient.InferenceServerClient(s.grpc) as client:
        headers = {"x-api-key": keys.key[key]} if key else {}
        try:
            getattr(client, call)(*args, headers=headers)
            got = None
        except InferenceServerException as e:
            got = e.status().removeprefix("StatusCode.")
    assert got == status


def test_health_of_grpc_is_open(setting):
    s, _ = setting
    with grpc.insecure_channel(s.grpc) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"
        bind = channel.unary_unary("/neso.Binding/RepositoryBind")
        with pytest.raises(grpc.RpcError) as e:
            bind(b"")
        assert e.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_every_request_of_a_stream(setting):
    s, keys = setting
    answers, come = [], threading.Semaphore(0)

    def callback(result, error):
        answers.append(error.message() if error else "ok")
        come.release()

    x = np.ones((1, 4), np.float32)
    i = grpcclient.InferInput("INPUT0", x.shape, "FP32")
    i.set_data_from_numpy(x)
    with grpcclient.InferenceServerClient(s.grpc) as client:
        client.start_stream(callback, headers={"x-api-key": keys.key["app"]})
        for model in ("open-a", "closed", "open-a"):
            client.async_stream_infer(model, [i])
            assert come.acquire(timeout=60)
        client.stop_stream()
        assert answers == ["ok", "key 'app' is not for model 'closed'", "ok"]
        answers.clear()
        client.start_stream(callback, headers={"x-api-key": keys.key["slow"]})
        for _ in range(3):
            client.async_stream_infer("open-a", [i])
            assert come.acquire(timeout=60)
        client.stop_stream()
    assert answers == ["ok", "ok", "key 'slow' has sent more than its 0.01 requests per second"]
    # The same bucket, over the other front ends.
    r = infer_x(s, "open-a", keys.of("slow"))
    assert r.status == 429 and 50 < int(r.headers["retry-after"]) <= 100, r
    with grpc.insecure_channel(s.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as e:
            call(b"\x0a\x06open-a", metadata=[("x-api-key", keys.key["slow"])])
    assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    trailer = dict(e.value.trailing_metadata())
    assert int(trailer["grpc-retry-pushback-ms"]) > 50_000
    assert 50 < retry_delay(trailer["grpc-status-details-bin"]) <= 100


def retry_delay(details):
    """The seconds of the google.rpc.RetryInfo in a google.rpc.Status: its only detail, an Any in field 3."""
    mark = b"type.googleapis.com/google.rpc.RetryInfo"
    assert mark in details, details
    value = details.partition(mark)[2]
    assert value[:1] == b"\x12" and value[2:3] == b"\x0a", value
    delay = duration_pb2.Duration()
    delay.ParseFromString(value[4 : 4 + value[3]])
    return delay.seconds + delay.nanos / 1e9


def test_concurrent_requests_and_bytes(setting):
    s, keys = setting
    first = []
    s.gate.close()
    t = threading.Thread(target=lambda: first.append(infer_x(s, "open-slow", keys.of("single")).status))
    t.start()
    s.gate.come()
    assert until(lambda: metric(s_with(s, keys), "neso_auth_concurrent_requests", key="single") == 1)
    r = infer_x(s, "open-a", keys.of("single"))
    assert r.status == 429 and r.headers["retry-after"] == "1", r
    assert r.error == "key 'single' has its maximum of 1 requests in the server"
    s.gate.open()
    t.join()
    assert first == [200]
    assert until(lambda: metric(s_with(s, keys), "neso_auth_concurrent_requests", key="single") == 0)
    assert infer_x(s, "open-a", keys.of("single")).status == 200
    r = infer_x(s, "open-a", keys.of("small"), n=100)
    assert r.status == 429 and "retry-after" not in r.headers and "key 'small' may queue at present" in r.error, r
    assert until(lambda: metric(s_with(s, keys), "neso_auth_queued_bytes", key="small") == 0)
    # 88 bytes of text, and twice as many of tensor.
    body = '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,25],"data":[' + ",".join("1" * 25) + "]}]}"
    big = body.replace("25", "6").replace(",".join("1" * 25), ",".join("1" * 6))
    assert len(big) <= 100 < len(body), (len(big), len(body))
    assert s.infer("open-a", big, headers=keys.of("small")).status == 200
    assert until(lambda: metric(s_with(s, keys), "neso_auth_queued_bytes", key="small") == 0)


class s_with:
    """The server for helpers that read metrics, with a key."""

    def __init__(self, s, keys):
        self.s, self.keys = s, keys

    def metrics(self):
        r = self.s.get("/metrics", port=self.s.metrics_port, headers=self.keys.of("watcher"))
        assert r.status == 200, r
        return r.body.decode()


def test_metrics_and_log(setting):
    s, keys = setting
    assert s.get("/metrics", port=s.metrics_port).status == 401
    assert s.get("/metrics", port=s.metrics_port, headers=keys.of("app")).status == 403
    with_key = s_with(s, keys)
    counters = (
        ("neso_auth_requests_total", {"key": "app"}),
        ("neso_auth_refused_total", {"key": "app", "reason": "model"}),
        ("neso_auth_unauthenticated_total", {"reason": "unknown"}),
    )

    def counted():
        return [metric(with_key, name, **labels) or 0 for name, labels in counters]

    before = counted()
    assert infer_x(s, "open-a", keys.of("app")).status == 200
    assert infer_x(s, "closed", keys.of("app")).status == 403
    assert infer_x(s, "open-a", {"X-API-Key": "unknown"}).status == 401
    assert counted() == [n + 1 for n in before]
    assert until(lambda: any("infer" in x and "key=app" in x for x in s.log().splitlines())), s.log()[-2000:]
    log = s.log() + with_key.metrics()
    for key in keys.key.values():
        assert key not in log and key[5:] not in log


def test_lists_show_only_its_models(setting, tmp_path):
    s, keys = setting
    key, entry = new_key("narrow", "--scopes", "read", "--models", "open-a")
    keys.entries.append(entry)
    keys.write()
    assert until(lambda: s.get("/v2", headers={"X-API-Key": key}).status == 200)
    names = {m["name"] for m in s.post("/v2/repository/index", headers={"X-API-Key": key}).json}
    assert names == {"open-a"}
    assert {m["name"] for m in s.get("/v2/models/stats", headers={"X-API-Key": key}).json["model_stats"]} == {"open-a"}
    with grpcclient.InferenceServerClient(s.grpc) as client:
        index = client.get_model_repository_index(headers={"x-api-key": key}, as_json=True)
        stats = client.get_inference_statistics(headers={"x-api-key": key}, as_json=True)
    assert {m["name"] for m in index["models"]} == {m["name"] for m in stats["model_stats"]} == {"open-a"}


def test_sagemaker(setting):
    s, keys = setting
    port = s.sagemaker_port
    assert s.get("/ping", port=port).status == 200
    assert s.post("/invocations", X, port=port).status == 401
    assert s.post("/invocations", X, headers=keys.of("app"), port=port).status == 403
    assert s.post("/invocations", X, headers=keys.of("anything"), port=port).status == 200
    assert s.get("/models", port=port).status == 401
    load = {"model_name": "m", "url": "/opt/ml/models/m/model"}
    assert s.post("/models", load, port=port, headers=keys.of("app")).status == 403
    assert s.post("/models", load, port=port, headers=keys.of("ops")).status == 400
    assert s.request("DELETE", "/models/m", port=port, headers=keys.of("watcher")).status == 403


def test_keys_do_not_reach_models(tmp_path):
    keys = Keys(tmp_path / "keys.json", app=[])
    repo = tmp_path / "models"
    python_model(repo, "m", execute="print('PARAMETERS', [r.parameters() for r in requests], flush=True)")
    pattern = "--{}-header-forward-pattern=.*"
    with Server(repo, f"--auth-file={keys.path}", pattern.format("http"), pattern.format("grpc")) as s:
        assert s.infer("m", X, headers=keys.of("app")).status == 200
        assert s.infer("m", X, headers={"X-API-Key": keys.key["app"], "Other": "o"}).status == 200
        x = np.ones((1, 1), np.float32)
        i = grpcclient.InferInput("INPUT0", x.shape, "FP32")
        i.set_data_from_numpy(x)
        with grpcclient.InferenceServerClient(s.grpc) as client:
            client.infer("m", [i], headers={"authorization": "Bearer " + keys.key["app"]})
        assert until(lambda: s.log().count("PARAMETERS") == 3)
        assert "Other" in s.log() and keys.key["app"] not in s.log()


def test_reload(tmp_path):
    repo = tmp_path / "models"
    repo.mkdir()
    identity_model(repo, "m")
    keys = Keys(tmp_path / "keys.json", a=[])
    with Server(repo, f"--auth-file={keys.path}") as s:

        def status():
            return s.get("/v2", headers=keys.of("a")).status

        assert status() == 200
        good = keys.path.read_text()
        written(keys.path, '{\n"keys": [{"name": "a"}]}')
        assert until(lambda: status() and "the old keys stay" in s.log())
        for _ in range(3):  # the file is looked at twice more
            time.sleep(1.1)
            assert status() == 200
        assert s.log().count("the old keys stay") == 1
        assert f"auth file {keys.path}: line 2: keys[0].sha256: expected the 64 hexadecimal digits" in s.log()
        keys.path.unlink()
        assert until(lambda: status() and s.log().count("the old keys stay") == 2)
        assert status() == 200
        written(keys.path, good.replace('"infer"', '"read"'))
        assert until(lambda: s.infer("m", X, headers=keys.of("a")).status == 403)
        keys.entries = [new_key("b")[1]]
        keys.write(health="keys")
        assert until(lambda: status() == 401)
        assert s.get("/v2/health/ready").status == 401
        assert s.get("/v2/health/live").status == 401


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file"),
        ("{", "line 1: unexpected EOF"),
        ('{"keys": [\n{"name": "a", "sha256": "0"}]}', "line 2: keys[0].sha256: expected"),
    ],
)
def test_bad_file_at_start(tmp_path, text, words):
    path = tmp_path / "keys.json"
    if text:
        path.write_text(text)
    repo = tmp_path / "models"
    repo.mkdir()
    identity_model(repo, "m")
    s = Server(repo, f"--auth-file={path}", wait=False)
    assert s.process.wait(120) == 1
    assert str(path) in s.log() and words in s.log(), s.log()
    s.stop()


def test_command_with_a_key(setting, monkeypatch):
    s, keys = setting

    def run(*args, key=""):
        return subprocess.run(
            [BINARY, *args, "-u", s.http], capture_output=True, text=True, env={"NESO_KEY": key} if key else {}
        )

    assert "open-a" in run("index", key=keys.key["ops"]).stdout
    assert "asks for a key" in run("index").stderr
    assert run("ready").returncode == 0


def test_programs_join_with_a_key(setting):
    s, keys = setting
    code = "import sys; from neso import RemoteTriton; r = RemoteTriton(sys.argv[1]); r.connect(); print('joined'); r.stop()"
    for url in (f"http://{s.http}", f"grpc://{s.grpc}"):
        for name, works in (("ops", True), ("app", False), (None, False)):
            env = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "NESO_KEY": keys.key[name] if name else ""}
            r = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, env=env, timeout=180)
            assert ("joined" in r.stdout) == works, r
            assert works or "key" in r.stderr, r
            assert not name or keys.key[name] not in r.stderr + r.stdout


def test_admin_address(tmp_path):
    repo = tmp_path / "models"
    repo.mkdir()
    identity_model(repo, "m")
    port = free_port()
    text = "this server is managed at the address of --admin-address, not here"
    with Server(repo, "--model-control-mode=explicit", "--load-model=m", f"--admin-address=127.0.0.1:{port}") as s:
        for path in (
            "/v2/repository/models/m/load",
            "/v2/repository/models/m/unload",
            "/v2/logging",
            "/v2/repository/bind",
            "/v2/systemsharedmemory/region/x/register",
            "/v2/cudasharedmemory/unregister",
        ):
            r = s.post(path, "{}")
            assert r.status == 403 and r.error == text, (path, r)
            assert s.post(path, "{}", port=port).status != 403, path
        assert s.post("/v2/repository/models/m/load", "{}", port=port).status == 200
        assert s.infer("m", X).status == 200
        assert s.get("/v2/logging").status == 200
        assert s.post("/v2/repository/index").status == 200
        r = s.infer("m", X, port=port)
        assert r.status == 403 and r.error == "inference is not served at --admin-address", r
        assert s.get("/v2/health/ready", port=port).status == 200
        with grpcclient.InferenceServerClient(s.grpc) as client:
            for call in (
                lambda: client.load_model("m"),
                lambda: client.update_log_settings({"log_info": True}),
                lambda: client.register_system_shared_memory("x", "/x", 8),
            ):
                with pytest.raises(InferenceServerException) as e:
                    call()
                assert e.value.status() == "StatusCode.PERMISSION_DENIED" and e.value.message() == text
            assert client.get_log_settings()
            assert client.get_model_repository_index()
        assert (
            subprocess.run(
                [BINARY, "unload", "m", "-u", f"127.0.0.1:{port}"], capture_output=True, text=True
            ).returncode
            == 0
        )
        assert until(lambda: s.infer("m", X).status != 200)


def test_admin_address_and_keys(tmp_path):
    """Who has no key is asked for one, also where nobody may do what is asked."""
    repo = tmp_path / "models"
    repo.mkdir()
    identity_model(repo, "m")
    keys = Keys(tmp_path / "keys.json", boss=["--scopes", "manage"])
    options = ["--model-control-mode=explicit", f"--admin-address=127.0.0.1:{free_port()}", f"--auth-file={keys.path}"]
    with Server(repo, *options) as s, grpcclient.InferenceServerClient(s.grpc) as client:
        for call in (
            lambda headers: client.load_model("m", headers=headers),
            lambda headers: client.update_log_settings({"log_info": True}, headers=headers),
        ):
            for headers, status in (
                (None, "UNAUTHENTICATED"),
                ({"x-api-key": "wrong"}, "UNAUTHENTICATED"),
                ({"x-api-key": keys.key["boss"]}, "PERMISSION_DENIED"),
            ):
                with pytest.raises(InferenceServerException) as e:
                    call(headers)
                assert e.value.status() == f"StatusCode.{status}", (headers, e.value)


def test_admin_address_on_a_socket(tmp_path):
    repo = tmp_path / "models"
    repo.mkdir()
    identity_model(repo, "m")
    path = tmp_path / "admin"
    with Server(repo, "--model-control-mode=explicit", f"--admin-address=unix:{path}") as s:
        r = subprocess.run([BINARY, "load", "m", "-u", f"unix:{path}"], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        assert s.infer("m", X).status == 200


def test_model_files(tmp_path):
    repo = tmp_path / "models"
    repo.mkdir()
    identity_model(repo, "m")
    config = json.dumps({"backend": "identity", "input": [{"name": "I", "data_type": "TYPE_FP32", "dims": [1]}]})
    load = {"parameters": {"config": config, "file:1/x": "aGk="}}
    with Server(repo, "--model-control-mode=explicit", "--allow-model-files=false") as s:
        r = s.post("/v2/repository/models/n/load", load)
        assert r.status == 403 and "--allow-model-files=false" in r.error, r
        with grpcclient.InferenceServerClient(s.grpc) as client, pytest.raises(InferenceServerException) as e:
            client.load_model("n", config=config, files={"file:1/x": b"hi"})
        assert e.value.status() == "StatusCode.PERMISSION_DENIED"
        assert s.post("/v2/repository/models/m/load", "{}").status == 200


def test_rules_for_versions_over_grpc(setting):
    """To look is to observe, to change is to manage: as over HTTP, and with its words."""
    s, keys = setting
    with grpc.insecure_channel(s.grpc) as channel:
        call = channel.unary_unary(
            "/neso.Rollout/ModelRollout",
            request_serializer=struct_pb2.Struct.SerializeToString,
            response_deserializer=struct_pb2.Struct.FromString,
        )

        def asked(key, **fields):
            request = struct_pb2.Struct()
            request.update(fields)
            try:
                return call(request, timeout=60, metadata=[("x-api-key", keys.key[key])] if key else [])["model"]
            except grpc.RpcError as e:
                return e.code().name

        assert asked("", model="open-a") == "UNAUTHENTICATED"
        path, told = (
            "/v2/repository/models/open-a/rollout",
            {"open-a": 200, "PERMISSION_DENIED": 403, "UNAVAILABLE": 503},
        )
        for key in ("app", "watcher", "ops"):
            headers = {"x-api-key": keys.key[key]}
            http = s.get(path, headers=headers).status, s.post(path, {"labels": {}}, headers).status
            ours = told[asked(key, model="open-a")], told[asked(key, model="open-a", change="labels: {}")]
            assert ours == http and (http[0] == 200, http[1] != 403) == (key != "app", key == "ops"), (key, ours, http)
