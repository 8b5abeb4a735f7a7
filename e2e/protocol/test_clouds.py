"""The forms of SageMaker's and Vertex AI's containers; the answers are the real server's."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import pytest
from repository import until
from server import BINARY, MODELS, Server, free_port

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
    config = (
        f'platform: "ensemble"\nmax_batch_size: 8\n{io}ensemble_scheduling {{ step {{ model_name: "a_part" '
        f"model_version: -1 {step} }} }}\n"
    )
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
    for method, path, status in (
        ("GET", "/nope", 400), ("GET", "/v2", 400), ("DELETE", "/", 400), ("PUT", "/models", 400), ("DELETE", "/models", 404),
        ("DELETE", "/models/", 404), ("GET", "/models/nope", 404), ("GET", "/models/nope?a=b", 404), ("DELETE", "/models/nope", 404),
        ("POST", "/models/nope/invoke", 404), ("PUT", "/models/nope", 400), ("GET", "/models/nope/x", 400),
        ("DELETE", "/models/nope/x", 400), ("POST", "/models/nope/invoke/", 400), ("GET", "/models//nope", 400),
    ):  # fmt: skip
        assert sagemaker.status(method, path) == status, (method, path)
    assert json.loads(sagemaker.call("GET", "/models/")[2]) == {"models": []}


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
    entry = {"modelName": "h1", "modelUrl": str(url)}  # the repository that its model is in
    assert json.loads(sagemaker.call("GET", "/models")[2]) == {"models": [entry]}
    assert json.loads(sagemaker.call("GET", "/models/h1")[2]) == entry
    assert "Loading SageMaker TargetModel: h1" in sagemaker.server.log()
    answer = json.loads(sagemaker.call("POST", "/models/h1/invoke", BODY)[2])
    assert answer["model_name"] == "h1" and answer["outputs"] == ANSWER
    assert sagemaker.status("POST", "/models/h1/invoke", BODY, X_Amzn_SageMaker_Target_Model="h1") == 200
    status, _, body = load(sagemaker, "h1", sagemaker.root / "bare" / "model")
    assert status == 409 and "conflicting mapping for 'h1'" in json.loads(body)["error"]
    assert sagemaker.status("POST", "/models/h1/invoke", BODY) == 200, "a load that fails leaves what serves"
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
    assert json.loads(sagemaker.call("GET", "/models/h2")[2])["modelUrl"] == str(sagemaker.root / "bare")
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


@pytest.mark.parametrize("url", ["one", "broken"])
def test_sagemaker_failed_load_leaves_the_serving_model(sagemaker, url):
    assert load(sagemaker, "add_sub", sagemaker.root / url / "model")[0] == 400, "the name is that of another model"
    assert sagemaker.status("GET", "/ping") == 200 and sagemaker.status("POST", "/invocations", BODY) == 200
    assert load(sagemaker, "h4", sagemaker.root / "one" / "model")[0] == 200, "the failed load has left nothing"
    assert sagemaker.status("DELETE", "/models/h4") == 200


def test_sagemaker_target_model_is_the_served_name(sagemaker):
    target = {"X_Amzn_SageMaker_Target_Model": "digits.tar.gz"}
    body = json.dumps({"model_name": "h5", "url": str(sagemaker.root / "one" / "model")})
    assert sagemaker.status("POST", "/models", body, **target) == 200
    for headers in (target, {}):
        status, _, answer = sagemaker.call("POST", "/models/h5/invoke", BODY, **headers)
        assert status == 200 and json.loads(answer)["model_name"] == "digits.tar.gz"
    assert sagemaker.status("DELETE", "/models/h5", None, **target) == 200
    assert sagemaker.status("POST", "/models/h5/invoke", BODY, **target) == 404


def test_sagemaker_restrictions(tmp_path):
    add_sub(tmp_path / "models" / "add_sub")
    add_sub(tmp_path / "ml" / "one" / "model")
    front = Front(free_port())
    options = ["--allow-sagemaker=true", f"--sagemaker-port={front.port}", f"--sagemaker-model-root={tmp_path / 'ml'}"]
    options += ["--http-restricted-api=model-repository:manage=m", "--http-restricted-api=inference:ask=a"]
    env = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "add_sub"}
    with Server(tmp_path / "models", *options, "--model-control-mode=explicit", "--load-model=add_sub", env=env):
        body = json.dumps({"model_name": "h", "url": str(tmp_path / "ml" / "one" / "model")})
        for method, path, want, given in (
            ("POST", "/models", 200, body),
            ("GET", "/models", 200, None),
            ("GET", "/models/h", 200, None),
            ("GET", "/models/other", 404, None),
            ("DELETE", "/models/h", 200, None),
        ):
            status, _, answer = front.call(method, path, given)
            assert status == 403 and json.loads(answer) == {
                "error": "This API is restricted, expecting header 'manage'"
            }, path
            assert front.status(method, path, given, manage="no") == 403
            assert front.status(method, path, given, manage="m") == want, path
        assert front.status("POST", "/models", body, manage="m") == 200
        assert front.status("POST", "/models/h/invoke", BODY) == 403
        assert front.status("POST", "/models/h/invoke", BODY, ask="a") == 200
        assert front.status("POST", "/invocations", BODY) == 403 == front.status("GET", "/invocations")
        assert front.status("POST", "/invocations", BODY, ask="a") == 200
        assert front.status("GET", "/ping") == 200


def container(binary, *options, **variables):
    """A start without what the tests' servers are given otherwise."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SAGEMAKER_", "AIP_"))}
    env.update({"NESO_PYTHON": sys.executable, **variables})
    log = tempfile.TemporaryFile()
    process = subprocess.Popen([*binary, *options], stdout=log, stderr=subprocess.STDOUT, env=env)
    return process, log


def ended(process, log):
    """The exit status, and what was printed."""
    process.terminate()
    status = process.wait(120)
    log.seek(0)
    return status, log.read().decode()


@pytest.mark.parametrize("linked", [False, True])
def test_sagemaker_container_of_one_model(tmp_path, linked):
    add_sub(tmp_path / "model" / "add_sub")
    binary = [str(BINARY), "sagemaker"]
    if linked:
        (tmp_path / "serve").symlink_to(BINARY)
        binary = [str(tmp_path / "serve")]
    front, metrics, grpc = Front(free_port()), Front(free_port()), free_port()
    process, log = container(
        binary,
        f"--model-repository={tmp_path / 'model'}",
        SAGEMAKER_BIND_TO_PORT=str(front.port),
        SAGEMAKER_TRITON_ALLOW_METRICS="true",
        SAGEMAKER_TRITON_METRICS_PORT=str(metrics.port),
        SAGEMAKER_TRITON_GRPC_PORT=str(grpc),
        SAGEMAKER_TRITON_LOG_VERBOSE="false",
        SAGEMAKER_TRITON_ADDITIONAL_ARGS="--log-format=ISO8601 --exit-timeout-secs 5",
    )
    try:
        assert until(lambda: process.poll() is not None or answers(front)) and process.poll() is None, ended(
            process, log
        )
        assert front.status("POST", "/invocations", BODY) == 200
        assert metrics.status("GET", "/metrics") == 200
    finally:
        status, text = ended(process, log)
    assert status == 0 and "Started HTTPService" not in text and "Started GRPC" not in text
    assert "only existing model directory add_sub" in text and re.search(r"^\d{4}-\d\d-\d\dT", text, re.M)


def answers(front):
    with contextlib.suppress(OSError):
        return front.status("GET", "/ping") == 200
    return False


def test_sagemaker_container_of_many_models(tmp_path):
    add_sub(tmp_path / "one" / "model")
    front = Front(free_port())
    process, log = container(
        [str(BINARY), "sagemaker"],
        f"--sagemaker-model-root={tmp_path}",
        SAGEMAKER_MULTI_MODEL="true",
        SAGEMAKER_BIND_TO_PORT=str(front.port),
    )
    try:
        assert until(lambda: process.poll() is not None or answers(front)) and process.poll() is None, ended(
            process, log
        )
        assert json.loads(front.call("GET", "/models")[2]) == {"models": []}
        assert load(front, "h1", tmp_path / "one" / "model")[0] == 200
        assert front.status("POST", "/models/h1/invoke", BODY) == 200
        assert front.status("DELETE", "/models/h1") == 200
    finally:
        status, text = ended(process, log)
    assert status == 0 and "whether the server is live" in text


@pytest.mark.parametrize(
    "make, variables, fault",
    [
        (["config.pbtxt"], {}, "Incorrect directory structure"),
        ([], {}, "No model found in model repository"),
        (["a/x", "b/x"], {}, "More than 1 model directory found in model repository: a b"),
        (["a/x"], {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "c"}, "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME c does not exist"),
        (
            ["a/x"],
            {"SAGEMAKER_BIND_TO_PORT": "many"},
            'SAGEMAKER_BIND_TO_PORT is "many": Bad option: "--sagemaker-port"',
        ),
    ],
)
def test_sagemaker_container_refuses(tmp_path, make, variables, fault):
    for path in make:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("")
    process, log = container(
        [str(BINARY), "sagemaker"], f"--model-repository={tmp_path}", "--load-model=a", **variables
    )
    assert process.wait(120) == 1
    log.seek(0)
    assert fault in log.read().decode()


def test_sagemaker_variables_set_up_an_ordinary_start(tmp_path):
    add_sub(tmp_path / "add_sub")
    front = Front(free_port())
    env = {"SAGEMAKER_BIND_TO_PORT": str(front.port), "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "add_sub"}
    with Server(tmp_path, "--allow-sagemaker=true", env=env):
        assert front.status("POST", "/invocations", BODY) == 200
    # Ports of the command line win, and without the listener nothing is taken.
    with Server(tmp_path, env={"SAGEMAKER_TRITON_ALLOW_GRPC": "neither"}) as s:
        assert s.get("/v2").status == 200


def test_vertex_storage_uri(tmp_path):
    add_sub(tmp_path / "add_sub")
    front = Front(free_port())
    process, log = container(
        [str(BINARY), "serve"],
        AIP_MODE="PREDICTION",
        AIP_PREDICT_ROUTE="/predict",
        AIP_HEALTH_ROUTE="/ping",
        AIP_HTTP_PORT=str(front.port),
        AIP_STORAGE_URI=str(tmp_path),
        SAGEMAKER_TRITON_ALLOW_METRICS="false",
    )
    try:
        assert until(lambda: process.poll() is not None or answers(front)) and process.poll() is None, ended(
            process, log
        )
        assert front.status("POST", "/predict", BODY) == 200
    finally:
        status, text = ended(process, log)
    assert status == 0, text
    with Server(tmp_path, env={"AIP_STORAGE_URI": "/nowhere"}) as s:  # the command line's is another
        assert s.get("/v2/models/add_sub").status == 200


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
        "v2/systemsharedmemory/region/a/unregister": 403,
        "v2/cudasharedmemory/unregister": 403,
        "v2/models/add_sub/generate": 400,
        "v2/logging": 400,
        "/v2": 400,
        "v2/": 400,
    }.items(),
)
def test_vertex_redirect(vertex, path, want):
    body = BODY if path.endswith("infer") else ""
    status, _, answer = vertex.call("POST", "/predict", body, X_Vertex_Ai_Triton_Redirect=path)
    assert status == want
    if path == "metrics":
        assert b'nv_inference_request_success{model="add_sub",version="1"}' in answer


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
