"""The forms of SageMaker's and Vertex AI's containers; the answers are the real server's."""

from __future__ import annotations

import http.client
import json
import shutil
import struct

import pytest
from repository import until
from server import MODELS, Server, free_port

HEAD = json.dumps(
    {
        "inputs": [{"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}]
        + [{"name": "INPUT1", "shape": [1, 2], "datatype": "FP32", "data": [10, 20]}],
        "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
    }
).encode()
BINARY_BODY = HEAD + struct.pack("<2f", 1, 2)
BODY = json.dumps(
    {
        "inputs": [{"name": n, "shape": [1, 2], "datatype": "FP32", "data": [1, 2]} for n in ("INPUT0", "INPUT1")],
        "outputs": [{"name": "OUTPUT0"}],
    }
)
ANSWER = [{"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 2], "data": [2, 4]}]


class Front:
    """One cloud's listener."""

    def __init__(self, port):
        self.port = port

    def call(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def status(self, *args, **headers):
        return self.call(*args, **headers)[0]


def add_sub(directory):
    shutil.copytree(MODELS / "add_sub", directory)


@pytest.fixture(scope="module")
def sagemaker(tmp_path_factory):
    root = tmp_path_factory.mktemp("ml")
    repository = tmp_path_factory.mktemp("models")
    add_sub(repository / "add_sub")
    add_sub(root / "one" / "model" / "any_name")
    add_sub(root / "bare" / "model")
    many = root / "many" / "model"
    add_sub(many / "a_part")
    (many / "whole" / "1").mkdir(parents=True)
    io = "".join(
        f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [ -1 ] }}\n'
        for kind, name in (("input", "A"), ("input", "B"), ("output", "C"))
    )
    step = 'input_map { key: "INPUT0" value: "A" } input_map { key: "INPUT1" value: "B" } output_map { key: "OUTPUT0" value: "C" }'
    config = f'platform: "ensemble"\nmax_batch_size: 8\n{io}ensemble_scheduling {{ step {{ model_name: "a_part" model_version: -1 {step} }} }}\n'
    (many / "whole" / "config.pbtxt").write_text(config)
    (root / "broken" / "model" / "m" / "1").mkdir(parents=True)
    (root / "broken" / "model" / "m" / "config.pbtxt").write_text('backend: "nope"\nmax_batch_size: 0\n')
    (root / "empty" / "model").mkdir(parents=True)
    (root / "link").mkdir()
    (root / "link" / "model").symlink_to(repository / "add_sub")
    front = Front(free_port())
    options = ["--allow-sagemaker=true", f"--sagemaker-port={front.port}", f"--sagemaker-model-root={root}"]
    with Server(
        repository,
        *options,
        "--model-control-mode=explicit",
        "--load-model=add_sub",
        env={"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "add_sub"},
    ) as s:
        front.root, front.server = root, s
        yield front


def test_sagemaker_ping_and_wrong_paths(sagemaker):
    status, headers, body = sagemaker.call("GET", "/ping")
    assert (status, headers["Content-Type"], body) == (200, "text/plain", b"")
    assert sagemaker.status("POST", "/ping", "") == 405
    assert sagemaker.status("GET", "/invocations") == 405
    for method, path in (("GET", "/nope"), ("PUT", "/models"), ("GET", "/v2"), ("GET", "/models/")):
        assert sagemaker.status(method, path) in (400, 404), path


def test_sagemaker_invocations(sagemaker):
    status, headers, body = sagemaker.call("POST", "/invocations", BODY)
    assert status == 200 and headers["Content-Type"] == "application/json" and json.loads(body)["outputs"] == ANSWER
    mime = "application/vnd.sagemaker-triton.binary+json;json-header-size="
    status, headers, body = sagemaker.call("POST", "/invocations", BINARY_BODY, Content_Type=f"{mime}{len(HEAD)}")
    assert (
        status == 200 and headers["Content-Type"].startswith(mime) and "Inference-Header-Content-Length" not in headers
    )
    size = int(headers["Content-Type"][len(mime) :])
    assert json.loads(body[:size])["outputs"][0]["name"] == "OUTPUT0" and struct.unpack("<2f", body[size:]) == (11, 22)
    for bad in ("x", "-1", "99999999999"):
        status, _, body = sagemaker.call("POST", "/invocations", BINARY_BODY, Content_Type=mime + bad)
        assert status == 400 and f"Unable to parse inference header size, got: {bad}" in json.loads(body)["error"]
    assert sagemaker.status("POST", "/invocations", BINARY_BODY, Content_Type=f"{mime}{len(HEAD) + 100}") == 400
    # The form has no other way to say the length.
    assert sagemaker.status("POST", "/invocations", BINARY_BODY, Inference_Header_Content_Length=str(len(HEAD))) == 400


def load(front, name, url):
    return front.call("POST", "/models", json.dumps({"model_name": name, "url": str(url)}))


def test_sagemaker_many_models(sagemaker):
    url = sagemaker.root / "one" / "model"
    assert load(sagemaker, "h1", url)[0] == 200
    status, _, body = load(sagemaker, "h1", url)
    assert status == 409 and "has already been registered" in json.loads(body)["error"]
    assert json.loads(sagemaker.call("GET", "/models")[2]) == {"models": [{"modelName": "h1", "modelUrl": str(url)}]}
    assert json.loads(sagemaker.call("GET", "/models/h1")[2]) == {"modelName": "h1", "modelUrl": str(url)}
    answer = json.loads(sagemaker.call("POST", "/models/h1/invoke", BODY)[2])
    assert answer["model_name"] == "h1" and answer["outputs"] == ANSWER
    assert sagemaker.status("POST", "/models/h1/invoke", BODY, X_Amzn_SageMaker_Target_Model="h1") == 200
    status, _, body = sagemaker.call("POST", "/models/h1/invoke", BODY, X_Amzn_SageMaker_Target_Model="zz")
    assert status == 400 and "Request for unknown model: 'zz' is not found" in json.loads(body)["error"]
    assert sagemaker.status("POST", "/models/h1/invoke", "{bad") == 400
    assert sagemaker.status("DELETE", "/models/h1") == 200
    assert json.loads(sagemaker.call("GET", "/models")[2]) == {"models": []}
    for method, path in (("POST", "/models/h1/invoke"), ("GET", "/models/h1"), ("DELETE", "/models/h1")):
        assert sagemaker.status(method, path, BODY) == 404
    assert load(sagemaker, "h1", url)[0] == 200, "after an unload the same can be loaded again"
    assert sagemaker.status("DELETE", "/models/h1") == 200


def test_sagemaker_model_itself_and_ensemble(sagemaker):
    assert load(sagemaker, "h2", sagemaker.root / "bare" / "model")[0] == 200
    assert sagemaker.status("POST", "/models/h2/invoke", BODY) == 200
    assert load(sagemaker, "h3", sagemaker.root / "many" / "model")[0] == 200
    body = json.dumps({"inputs": [{"name": n, "shape": [1, 1], "datatype": "FP32", "data": [3]} for n in "AB"]})
    assert json.loads(sagemaker.call("POST", "/models/h3/invoke", body)[2])["outputs"][0]["data"] == [6]
    for name in ("h2", "h3"):
        assert sagemaker.status("DELETE", f"/models/{name}") == 200


@pytest.mark.parametrize(
    "name, url, fault",
    [
        ("x", "{root}/broken/model", "unable to find backend library for backend 'nope'"),
        ("x", "{root}/empty/model", "holds no model"),
        ("x", "{root}/none/model", "repository not found"),
        ("x", "/tmp", "invalid url"),
        ("x", "{root}/one/model/../../../..", "invalid url"),
        ("x", "{root}/one/other", "invalid url"),
        ("x", "/proc/self/model", "invalid url"),
        ("x", "{root}/link/model", "leads out of"),
        ("x", "", "invalid url"),
        ("../x", "{root}/one/model", "invalid model_name"),
        ("", "{root}/one/model", "invalid model_name"),
    ],
)
def test_sagemaker_refuses(sagemaker, name, url, fault):
    status, _, body = load(sagemaker, name, url.format(root=sagemaker.root))
    assert status == 400 and fault in json.loads(body)["error"], body
    assert json.loads(sagemaker.call("GET", "/models")[2]) == {"models": []}


@pytest.mark.parametrize("body", ["", "{bad", "[]", '{"model_name": 3}'])
def test_sagemaker_bad_load_body(sagemaker, body):
    assert sagemaker.status("POST", "/models", body) == 400  # the real server ends
    assert sagemaker.status("GET", "/ping") == 200


@pytest.fixture(scope="module")
def vertex(tmp_path_factory):
    repository = tmp_path_factory.mktemp("models")
    add_sub(repository / "add_sub")
    front = Front(free_port())
    env = {"AIP_PREDICT_ROUTE": "/predict", "AIP_HEALTH_ROUTE": "/health", "AIP_HTTP_PORT": str(front.port)}
    with Server(repository, "--allow-vertex-ai=true", env=env) as s:
        front.server = s
        yield front


def test_vertex(vertex):
    assert vertex.status("GET", "/health") == 200 and vertex.status("POST", "/health", "") == 405
    assert vertex.status("GET", "/predict") == 405 and vertex.status("GET", "/nope") == 400
    status, headers, body = vertex.call("POST", "/predict", BODY)
    assert status == 200 and headers["Content-Type"] == "application/json" and json.loads(body)["outputs"] == ANSWER
    mime = f"application/vnd.vertex-ai-triton.binary+json;json-header-size={len(HEAD)}"
    status, headers, body = vertex.call("POST", "/predict", BINARY_BODY, Content_Type=mime)
    size = int(headers["Inference-Header-Content-Length"])
    assert (
        status == 200
        and headers["Content-Type"] == "application/octet-stream"
        and struct.unpack("<2f", body[size:]) == (11, 22)
    )
    assert vertex.call("POST", "/predict", BODY, Accept_Encoding="gzip")[1]["Content-Encoding"] == "gzip"


@pytest.mark.parametrize(
    "path, want",
    {
        "v2/models/add_sub/infer": 200,
        "v2/models/add_sub/versions/1/infer": 200,
        "v2/models/nope/infer": 404,
        "metrics": 200,
        "v2": 200,
        "v2/health/ready": 200,
        "v2/models/stats": 200,
        "v2/models/add_sub": 200,
        "v2/models/add_sub/ready": 200,
        "v2/models/add_sub/config": 200,
        "v2/models/add_sub/stats": 200,
        "v2/repository/index": 200,
        "v2/systemsharedmemory/status": 200,
        "v2/repository/models/add_sub/load": 403,
        "v2/repository/models/add_sub/unload": 403,
        "v2/systemsharedmemory/region/a/register": 403,
        "v2/models/add_sub/generate": 400,
        "v2/logging": 400,
        "/v2": 400,
        "v2/": 400,
    }.items(),
)
def test_vertex_redirect(vertex, path, want):
    body = BODY if path.endswith("infer") else ""
    assert vertex.status("POST", "/predict", body, X_Vertex_Ai_Triton_Redirect=path) == want


def test_vertex_needs_its_model_and_routes(tmp_path):
    add_sub(tmp_path / "a")
    add_sub(tmp_path / "b")
    routes = {"AIP_PREDICT_ROUTE": "/predict", "AIP_HEALTH_ROUTE": "/health"}
    for options, env, fault in (
        ([], routes, "only a single model if default model is not specified"),
        (["--vertex-ai-default-model=c"], routes, "Expect the default model 'c' is loaded"),
        ([], {"AIP_HEALTH_ROUTE": "/health"}, "AIP_PREDICT_ROUTE is not defined"),
        ([], {**routes, "AIP_HTTP_PORT": "x"}, "AIP_HTTP_PORT"),
    ):
        command = ["--allow-vertex-ai=true", *options]
        command += [] if "AIP_HTTP_PORT" in env else [f"--vertex-ai-port={free_port()}"]
        s = Server(tmp_path, *command, env=env, wait=False)
        try:
            assert s.process.wait(120) == 1 and fault in s.log(), s.log()
        finally:
            s.stop()


def test_vertex_mode_turns_the_other_front_ends_off(tmp_path):
    add_sub(tmp_path / "add_sub")
    front = Front(free_port())
    env = {
        "AIP_MODE": "PREDICTION",
        "AIP_PREDICT_ROUTE": "/predict",
        "AIP_HEALTH_ROUTE": "/health",
        "AIP_HTTP_PORT": str(front.port),
    }
    s = Server(tmp_path, env=env, wait=False)
    try:
        assert until(lambda: "READY" in s.log() or s.process.poll() is not None), s.log()
        assert (
            "Started Vertex AI HTTPService" in s.log()
            and "Started HTTPService" not in s.log()
            and "Started GRPC" not in s.log()
        )
        assert front.status("POST", "/predict", BODY) == 200
    finally:
        s.stop()
