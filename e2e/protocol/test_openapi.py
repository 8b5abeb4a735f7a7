"""The description of the API: valid for others' tools, true for every model, and shown by a page."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import subprocess
import sys

import pytest
from chromium import browser
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from repository import X, place, python_model
from server import ROOT, Server
from test_auth import Keys


def resolved(doc, schema):
    """A schema that knows what its references lead to."""
    return Draft202012Validator({**schema, "components": doc["components"]})


def media(doc, path, method="post"):
    return doc["paths"][path][method]["requestBody"]["content"]["application/json"]


def answers(doc, path, status="200", kind="application/json"):
    return resolved(doc, doc["paths"][path]["post"]["responses"][status]["content"][kind]["schema"])


def described(s, query="", headers=None):
    reply = s.get("/openapi.json" + query, headers=headers)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json"), reply
    return reply.json


@pytest.fixture(scope="module")
def examples():
    with Server(ROOT / "examples" / "models") as s:
        yield s


def test_the_document_is_valid(server):
    doc = described(server)
    assert doc["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(doc).validate()
    assert "/v2/models/add_sub/infer" in doc["paths"]
    assert described(server) == doc


def test_every_example_works(examples):
    doc = described(examples)
    sent = set()
    for path in [p for p in doc["paths"] if p.startswith("/v2/models/") and "{" not in p and p != "/v2/models/stats"]:
        example = (
            media(doc, path).get("example")
            or media(described(examples, "?model=" + path.split("/")[3]), path)["example"]
        )
        resolved(doc, media(doc, path)["schema"]).validate(example)
        reply = examples.post(path, example)
        assert reply.status == 200, (path, reply)
        if path.endswith("stream"):
            schema = answers(doc, path, kind="text/event-stream")
            for line in reply.body.decode().splitlines():
                if line:
                    schema.validate(json.loads(line.removeprefix("data: ")))
        else:
            answers(doc, path).validate(reply.json)
        sent.add(path.split("/")[3])
    assert sent == {p.name for p in (ROOT / "examples" / "models").iterdir() if p.is_dir()}


def test_answers_are_as_described(server):
    doc = described(server)
    for path, body in [
        ("/v2/models/add_sub/infer", None),
        ("/v2/models/add_sub/nothing", None),
        ("/v2/models/nobody/infer", "{}"),
    ]:
        reply = server.post(path, body or "not JSON")
        assert reply.status in (400, 404)
        resolved(doc, doc["components"]["schemas"]["Error"]).validate(reply.json)
    for path, operation in doc["paths"].items():
        get = operation.get("get")
        content = get and get["responses"]["200"].get("content")
        if content and "cuda" not in path:
            real = path.replace("{model}", "add_sub").replace("{version}", "1")
            if "{" in real:
                continue
            reply = server.get(real + ("?verbose" if real == "/v2/health/ready" else ""))
            if real.endswith("/explain"):  # test_objective.py has a model with something to explain
                assert reply.status == 400
                resolved(doc, doc["components"]["schemas"]["Error"]).validate(reply.json)
                continue
            assert reply.status == 200, (real, reply)
            resolved(doc, content["application/json"]["schema"]).validate(reply.json)
    schema = resolved(doc, media(doc, "/v2/models/add_sub/infer")["schema"])
    for wrong in (
        {},
        {"inputs": []},
        {"inputs": [{"name": "NOBODY", "datatype": "INT32", "shape": [1, 16], "data": [0]}]},
    ):
        assert not schema.is_valid(wrong), wrong


@contextlib.contextmanager
def generated(server, directory):
    """The client that openapi-python-client makes of the document, as the package `made`."""
    (directory / "openapi.json").write_bytes(server.get("/openapi.json").body)
    (directory / "config.yml").write_text("post_hooks: []\n")
    generate = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"]
    r = subprocess.run(
        [*generate, "--output-path", "made", "--config", "config.yml"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert r.returncode == 0, r.stdout + r.stderr
    sys.path.insert(0, str(directory))
    try:
        yield importlib.import_module("made.client").Client(base_url=f"http://{server.http}")
    finally:
        sys.path.remove(str(directory))
        for name in [n for n in sys.modules if n == "made" or n.startswith("made.")]:
            del sys.modules[name]


def test_a_client_is_generated_and_calls(examples, tmp_path):
    with generated(examples, tmp_path) as made:
        metadata = importlib.import_module("made.api.server.server_metadata").sync(client=made)
        assert metadata.name == "triton" and metadata.version == described(examples)["info"]["version"]
        call = importlib.import_module("made.api.inference.generate_model_twice")
        request = importlib.import_module("made.models").ModelTwiceGenerateRequest.from_dict(
            media(described(examples), "/v2/models/twice/generate")["example"]
        )
        answer = call.sync_detailed(client=made, body=request)
        assert answer.status_code == 200 and answer.parsed.model_name == "twice"
        assert asyncio.run(call.asyncio_detailed(client=made, body=request)).status_code == 200


def test_names_that_are_no_identifiers(tmp_path):
    for name in ("it's-1.0(a)", "a b<i>ä", "plain"):
        python_model(tmp_path, name, extra="max_batch_size: 0\n")
    with Server(tmp_path) as s:
        doc = described(s)
        OpenAPIV31SpecValidator(doc).validate()
        path = "/v2/models/it's-1.0(a)/infer"
        assert s.post(path, media(doc, path)["example"]).status == 200
        assert "<i>" not in json.dumps(doc["paths"])  # no URL has that name as it is
        one = described(s, "?model=plain")
        assert "/v2/models/plain/infer" in one["paths"] and path not in one["paths"]
        assert s.get("/openapi.json?model=nobody").status == 404


def test_large_examples_are_in_the_document_of_the_model(tmp_path):
    config = 'backend: "python"\ninput { name: "INPUT0" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }\n'
    code = (
        "import triton_python_backend_utils as p\nclass TritonPythonModel:\n    def execute(self, requests):\n"
        "        x = [p.get_input_tensor_by_name(r, 'INPUT0').as_numpy() for r in requests]\n"
        "        return [p.InferenceResponse([p.Tensor('OUTPUT0', i.sum((1, 2)))]) for i in x]\n"
    )
    place(
        tmp_path / "image",
        {"config.pbtxt": config + 'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 3 ] }\n', "1/model.py": code},
    )
    python_model(tmp_path, "small")
    with Server(tmp_path) as s:
        assert "example" not in media(described(s), "/v2/models/image/infer")
        assert len(s.get("/openapi.json").body) < 200_000
        example = media(described(s, "?model=image"), "/v2/models/image/infer")["example"]
        assert s.infer("image", example).json["outputs"][0]["data"] == [0, 0, 0]


def test_keys_restrictions_and_off(tmp_path):
    python_model(tmp_path, "open-1")
    python_model(tmp_path, "closed")
    keys = Keys(tmp_path.parent / "keys.json", app=["--models", "open-*"])
    with Server(tmp_path, f"--auth-file={keys.path}") as s:
        assert s.get("/openapi.json").status == 401
        doc = described(s, headers=keys.of("app"))
        assert "/v2/models/open-1/infer" in doc["paths"] and "closed" not in json.dumps(doc) and doc["security"]
        assert (
            s.get("/openapi.json?model=closed", headers=keys.of("app")).status
            == s.get("/v2/models/closed", headers=keys.of("app")).status
            == 403
        )
        assert s.get("/docs").status == 200  # it says nothing, and is where a key is given
        assert s.post("/openapi.json", "{}").status == 405
    with Server(tmp_path, "--http-restricted-api=metadata:k=v") as s:
        assert s.get("/openapi.json").status == 403 and s.get("/openapi.json", headers={"k": "v"}).status == 200
    with Server(tmp_path, "--http-docs=false") as s:
        assert s.get("/openapi.json").status == s.get("/docs").status == s.get("/docs/view.js").status == 404
        assert s.infer("closed", X).status == 200


def test_the_page_in_a_browser(tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    repo = tmp_path / "repo"
    hostile = "<img src=x onerror=document.title='taken'>"
    python_model(repo, "m")
    python_model(repo, hostile.replace("/", ""))
    keys = Keys(tmp_path / "keys.json", app=[])
    page = browser(tmp_path)
    try:
        with Server(repo, f"--auth-file={keys.path}") as s:
            wait = WebDriverWait(page, 60)
            page.get(f"http://{s.http}/docs")
            state = page.find_element(By.ID, "state")
            wait.until(lambda _: "asks for a key" in state.text)
            page.find_element(By.ID, "key").send_keys(keys.key["app"] + "\n")
            wait.until(lambda _: "operations" in state.text)
            assert page.title == "Neso: HTTP API"
            page.find_element(By.ID, "filter").send_keys("m/infer")
            rows = [r for r in page.find_elements(By.CSS_SELECTOR, "details.operation") if r.is_displayed()]
            assert [r.find_element(By.TAG_NAME, "code").text for r in rows][:1] == ["/v2/models/m/infer"]
            rows[0].find_element(By.TAG_NAME, "summary").click()
            wait.until(lambda _: rows[0].find_elements(By.TAG_NAME, "button"))[0].click()
            answer = wait.until(lambda _: rows[0].find_elements(By.CSS_SELECTOR, "pre.answer"))[0]
            assert json.loads(answer.get_attribute("textContent"))["outputs"][0]["name"] == "OUTPUT0"
            shell = rows[0].find_elements(By.TAG_NAME, "pre")[1].get_attribute("textContent")
            out = subprocess.run(
                shell.replace("KEY", keys.key["app"], 1), shell=True, capture_output=True, text=True, timeout=60
            )
            assert json.loads(out.stdout) == json.loads(answer.get_attribute("textContent"))
            loud = [e for e in page.get_log("browser") if "401" not in e["message"] and "favicon" not in e["message"]]
            assert loud == []
            assert page.title == "Neso: HTTP API", "a model's name has become markup"
    finally:
        page.quit()


@pytest.fixture(scope="module")
def openai():
    with Server(ROOT / "examples" / "openai", "--openai=true") as s:
        yield s


def test_openais_routes_are_described(openai, server):
    doc = described(openai)
    OpenAPIV31SpecValidator(doc).validate()
    assert "/v1/models" not in described(server)["paths"]
    models = {"Chat": ["parrot"], "Completion": ["parrot"], "Embeddings": ["letters"]}
    for route, names in models.items():
        assert doc["components"]["schemas"][f"OpenAI{route}Model"]["enum"] == names
    error = resolved(doc, doc["components"]["schemas"]["OpenAIError"])
    for path in [p for p in doc["paths"] if p.startswith("/v1/")]:
        if "get" in doc["paths"][path]:
            reply = openai.get(path.replace("{model}", "parrot"))
            schema = doc["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            assert reply.status == 200, reply
            resolved(doc, schema).validate(reply.json)
            continue
        example = media(doc, path)["example"]
        resolved(doc, media(doc, path)["schema"]).validate(example)
        reply = openai.post(path, example)
        assert reply.status == 200, (path, reply)
        answers(doc, path).validate(reply.json)
        for wrong in ({}, {**example, "model": "nobody"}):
            assert not resolved(doc, media(doc, path)["schema"]).is_valid(wrong)
            reply = openai.post(path, wrong)
            assert reply.status in (400, 404)
            error.validate(reply.json)


def test_a_client_of_openais_routes(openai, tmp_path):
    with generated(openai, tmp_path) as made:
        models = importlib.import_module("made.models")
        for route, request in (
            ("chat", "ChatRequest"),
            ("completions", "CompletionRequest"),
            ("embeddings", "EmbeddingsRequest"),
        ):
            path = f"/v1/{'chat/completions' if route == 'chat' else route}"
            body = getattr(models, f"OpenAI{request}").from_dict(media(described(openai), path)["example"])
            call = importlib.import_module(f"made.api.open_ai.openai_{route}")
            assert call.sync_detailed(client=made, body=body).status_code == 200
            setattr(body, "dimensions" if route == "embeddings" else "temperature", 9)
            fault = call.sync_detailed(client=made, body=body)
            assert fault.status_code == 400 and " is 9, " in fault.parsed.error.message
