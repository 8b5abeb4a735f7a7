"""Pages in browsers, and sites whose names lead here, change nothing; official clients and trusted proxies do."""

from __future__ import annotations

import http.client
import json
import socket

import numpy as np
import pytest
from repository import X, identity_model
from server import Server
from tritonclient import http as tritonhttp
from tritonclient.utils import shared_memory

EXPLICIT = ("--model-control-mode=explicit", "--load-model=m")
LOAD = "/v2/repository/models/m/load"
CHANGES = [
    (LOAD, {}),
    ("/v2/repository/models/m/unload", {}),
    ("/v2/logging", {"log_verbose_level": 1}),
    ("/v2/trace/setting", {"trace_rate": "1"}),
    ("/v2/systemsharedmemory/region/r/register", {"key": "/x", "offset": 0, "byte_size": 4}),
    ("/v2/systemsharedmemory/unregister", {}),
    ("/v2/repository/bind", {}),
]


def ask(s, path, body, **headers):
    """Headers as they are, Host among them; a page can send this type without asking first."""
    connection = http.client.HTTPConnection("127.0.0.1", s.http_port, timeout=60)
    data = json.dumps(body).encode()
    headers = {"Content-Type": "text/plain", "Content-Length": str(len(data)), **headers}
    try:
        connection.putrequest("POST", path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(data)
        r = connection.getresponse()
        return r.status, r.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repo = tmp_path_factory.mktemp("models")
    identity_model(repo, "m")
    with Server(repo, *EXPLICIT, "--http-trusted-host=ops.example", "--http-trusted-host=*.cluster.local") as s:
        yield s


@pytest.mark.parametrize(("path", "body"), CHANGES)
def test_pages_change_nothing(server, path, body):
    port = server.http_port
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://evil.example:{port}", "Host": f"evil.example:{port}"},
        {"Origin": "http://localhost:3000"},
        {"Origin": f"http://127.0.0.1:{port}.evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": f"evil.example:{port}"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "ops.example.evil.example"},
    ):
        status, text = ask(server, path, body, **headers)
        if "sharedmemory" in path:
            assert status == 501 and "shared memory" in text, (headers, status, text)
        else:
            assert status == 403 and "--http-trusted-host" in text, (headers, status, text)
    assert server.infer("m", X).status == 200


def test_who_changes_the_server(server):
    port = server.http_port
    for headers in (
        {},
        {"Host": f"localhost:{port}"},
        {"Host": f"127.0.0.1:{port}"},
        {"Host": f"[::1]:{port}"},
        {"Host": socket.gethostname()},
        {"Host": "triton:8000"},
        {"Host": "10.1.2.3"},
        {"Host": "triton.prod.svc.cluster.local:8000"},
        {"Host": "ops.example", "Origin": "https://ops.example"},
        {"Origin": "https://ops.example"},
        {"Origin": f"http://127.0.0.1:{port}"},
    ):
        status, text = ask(server, LOAD, {}, **headers)
        assert status == 200, (headers, status, text)
    with tritonhttp.InferenceServerClient(server.http) as client:
        client.load_model("m")
    with tritonhttp.InferenceServerClient(f"localhost:{port}") as client:
        client.unload_model("m")
        client.load_model("m")


def test_pages_and_inference(server):
    """What only asks is as before: keys are what keeps that to some."""
    status, _ = ask(server, "/v2/models/m/infer", X, Origin="http://evil.example", Host="evil.example")
    assert status == 200
    status, _ = ask(server, "/v2/repository/index", {}, Origin="http://evil.example")
    assert status == 200


def test_shared_memory(server):
    """Who may not register shared memory cannot use what others have registered either."""
    region = shared_memory.create_shared_memory_region("r", f"/neso-origins-{server.http_port}", 4)
    try:
        shared_memory.set_shared_memory_region(region, [np.float32([7])])
        with tritonhttp.InferenceServerClient(server.http) as client:
            client.register_system_shared_memory("r", f"/neso-origins-{server.http_port}", 4)
        parameters = {"shared_memory_region": "r", "shared_memory_byte_size": 4}
        body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "parameters": parameters}]}
        status, text = ask(server, "/v2/models/m/infer", body)
        assert status == 200 and json.loads(text)["outputs"][0]["data"] == [7], text
        for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
            status, text = ask(server, "/v2/models/m/infer", body, **headers)
            assert status == 404 and "shared memory" in text, (status, text)
    finally:
        shared_memory.destroy_shared_memory_region(region)
