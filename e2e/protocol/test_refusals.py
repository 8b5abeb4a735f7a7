"""What is refused for security stands in the log, a line each, and in the metrics; no line has a key."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from repository import X, identity_model, metric
from server import Server, free_port
from test_auth import Keys
from test_origins import ask
from tritonclient.utils import InferenceServerException

LOAD = "/v2/repository/models/m/load"
CONFIG = {"backend": "onnxruntime", "model_operations": {"op_library_filename": ["/tmp/evil.so"]}}


def lines(s, reason):
    return [line for line in s.log().splitlines() if "request refused" in line and f"reason={reason} " in line]


def refused(s, call, reason, *words):
    """The call is refused, with one line more that has the words and one more in the metrics."""
    before = len(lines(s, reason)), metric(s, "neso_refused_requests_total", reason=reason)
    call()
    found = lines(s, reason)
    assert len(found) == before[0] + 1, (reason, found)
    assert re.match(r"W\d{4} ", found[-1]) and all(word in found[-1] for word in words), (words, found[-1])
    assert metric(s, "neso_refused_requests_total", reason=reason) == before[1] + 1


def status(s, code, method="POST", path=LOAD, **kw):
    r = s.request(method, path, "{}", **kw)
    assert r.status == code, r


def denied(call):
    with pytest.raises(InferenceServerException):
        call()


def test_keys_and_listeners(tmp_path):
    identity_model(tmp_path / "models", "m")
    identity_model(tmp_path / "models", "secret")
    keys = Keys(tmp_path / "keys.json", app=["--models", "m"], boss=["--scopes", "manage"])
    admin = free_port()
    options = ["--model-control-mode=explicit", "--load-model=*", f"--admin-address=127.0.0.1:{admin}"]
    options += ["--allow-model-files=false", f"--auth-file={keys.path}"]
    index, guess = "/v2/repository/index", "neso_a-guess-that-nobody-may-read"
    # The metrics are asked for without a key by this test.
    with Server(tmp_path / "models", *options) as s, grpcclient.InferenceServerClient(s.grpc) as g:
        real = s.get
        s.get = lambda path, **kw: real(path, **{"headers": keys.of("boss"), **kw})
        app, boss = {"x-api-key": keys.key["app"]}, {"x-api-key": keys.key["boss"]}
        refused(s, lambda: status(s, 401, path=index), "key_missing", "client=127.0.0.1:", "path=/v2/repository/index")
        refused(s, lambda: denied(g.get_model_repository_index), "key_missing", "client=127.0.0.1:", "RepositoryIndex")
        wrong = {"Authorization": f"Bearer {guess}"}
        refused(s, lambda: status(s, 401, path=index, headers=wrong), "key_unknown", "protocol=http")
        refused(s, lambda: denied(lambda: g.load_model("m", headers={"x-api-key": guess})), "key_unknown", "ModelLoad")
        refused(s, lambda: status(s, 403, path=index, headers=app), "key_limits", "scope", "app")
        path = "/v2/models/secret/infer"
        refused(s, lambda: status(s, 403, path=path, headers=app), "key_limits", "is not for model 'secret'")
        x = grpcclient.InferInput("INPUT0", [1, 1], "FP32")
        x.set_data_from_numpy(np.ones((1, 1), np.float32))
        refused(s, lambda: denied(lambda: g.infer("secret", [x], headers=app)), "key_limits", "model=secret")
        refused(s, lambda: status(s, 403, headers=boss), "listener", "--admin-address")
        refused(s, lambda: denied(lambda: g.load_model("m", headers=boss)), "listener", "ModelLoad")
        body = {"parameters": {"config": json.dumps(CONFIG), "file:1/x": "aGk="}}

        def load(body, code):
            assert s.post(LOAD, body, boss, port=admin).status == code

        refused(s, lambda: load(body, 403), "model_files", "model=m")
        del body["parameters"]["file:1/x"]
        refused(s, lambda: load(body, 403), "path", "/tmp/evil.so", "model=m")
        assert s.infer("m", X, app).status == 200
        for key in (*keys.key.values(), guess):
            assert key not in s.log() and key.removeprefix("neso_") not in s.log()


def test_pages_and_restricted_interfaces(tmp_path):
    identity_model(tmp_path, "m")
    options = ["--model-control-mode=explicit", "--load-model=m", "--http-restricted-api=statistics:who=secret-word"]
    with Server(tmp_path, *options, "--grpc-restricted-protocol=statistics:who=secret-word") as s:
        page = {"Origin": "http://evil.example"}

        def evil(**headers):
            assert ask(s, LOAD, {}, **headers)[0] == 403

        refused(s, lambda: evil(**page), "origin", "http://evil.example", "client=127.0.0.1:")
        refused(s, lambda: evil(Sec_Fetch_Site="cross-site"), "origin", "another site")
        refused(s, lambda: evil(Host="evil.example"), "host", "evil.example")
        region = "/v2/systemsharedmemory/region/r/register"
        refused(s, lambda: ask(s, region, {"key": "/x", "offset": 0, "byte_size": 4}, **page), "origin", "region")
        for kind in ("systemsharedmemory", "cudasharedmemory"):
            for path in (f"/v2/{kind}/unregister", f"/v2/{kind}/region/r/unregister"):
                refused(s, lambda path=path: ask(s, path, {}, **page), "origin", f"path={path}")
            path = f"/v2/{kind}/status"
            refused(s, lambda path=path: status(s, 200, "GET", path, headers=page), "origin", f"path={path}")
        stats = "/v2/models/m/stats"
        refused(s, lambda: status(s, 403, "GET", stats, headers={"who": "me"}), "restricted", "path=/v2/models/m/stats")
        with grpcclient.InferenceServerClient(s.grpc) as g:
            refused(s, lambda: denied(lambda: g.get_inference_statistics("m")), "restricted", "ModelStatistics")
        assert "secret-word" not in s.log()
