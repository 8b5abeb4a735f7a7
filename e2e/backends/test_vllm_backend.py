"""NVIDIA's own backend for vLLM, as it is, over a stand-in for vLLM itself (e2e/standin/vllm).

VLLM_BACKEND names the directory `src` of a checkout of github.com/triton-inference-server/vllm_backend.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import openai
import pytest
from server import ROOT, Server

SOURCE = os.environ.get("VLLM_BACKEND")
pytestmark = pytest.mark.skipif(not SOURCE, reason="VLLM_BACKEND names no directory with NVIDIA's model.py for vLLM")


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    root = tmp_path_factory.mktemp("vllm")
    shutil.copytree(pathlib.Path(SOURCE), root / "backends" / "vllm")
    model = root / "models" / "vllm_model"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.json").write_text(json.dumps({"model": "standin", "disable_log_stats": False}))
    (model / "config.pbtxt").write_text(
        'backend: "vllm"\ninstance_group [ { count: 1 kind: KIND_MODEL } ]\n'
        'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }\n'
        'parameters { key: "chat_template" value { string_value: "chatml" } }\n'
    )
    path = os.pathsep.join([str(ROOT / "e2e" / "standin"), os.environ.get("PYTHONPATH", "")])
    with Server(
        root / "models",
        f"--backend-directory={root / 'backends'}",
        "--openai=true",
        env={"PYTHONPATH": path},
    ) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


def test_generate(vllm):
    reply = vllm.post("/v2/models/vllm_model/generate", json.dumps({"text_input": "one two", "max_tokens": 1}))
    assert reply.status == 200 and reply.json["text_output"] == "one twoONE"  # the prompt comes first unless excluded
    body = {"text_input": "one two three", "stream": True, "return_num_output_tokens": True}
    lines = vllm.post("/v2/models/vllm_model/generate_stream", json.dumps(body)).body.decode().splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert [e["text_output"] for e in events] == ["ONE", " TWO", " THREE"]


def test_openai(vllm):
    with openai.OpenAI(base_url=f"http://{vllm.http}/v1", api_key="none", max_retries=0) as client:
        r = client.completions.create(model="vllm_model", prompt="one two", temperature=0, logprobs=1)
        assert (r.choices[0].text, r.choices[0].finish_reason) == ("ONE TWO", "length")
        assert (r.usage.prompt_tokens, r.usage.completion_tokens) == (2, 2)
        chunks = client.completions.create(model="vllm_model", prompt="one two", stream=True)
        assert "".join(c.choices[0].text for c in chunks) == "ONE TWO"
        with pytest.raises(openai.APIStatusError, match="the engine failed"):
            client.completions.create(model="vllm_model", prompt="fail")
        endless = client.completions.create(model="vllm_model", prompt="endless", stream=True, max_tokens=5)
        next(iter(endless))
        endless.close()


def test_metrics(vllm):
    """The model publishes metrics under the names under which the server has those of others."""
    page = vllm.metrics()
    assert 'vllm:prompt_tokens_total{model="vllm_model",version="1"}' in page
    assert 'neso_generation_tokens_total{model="vllm_model",version="1"}' in page
    assert 'vllm:generation_tokens_total{model_name="vllm_model"}' not in page
