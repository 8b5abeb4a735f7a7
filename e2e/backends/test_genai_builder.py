"""Networks that ONNX Runtime GenAI's own model builder has written, served as they are and compared with the library by itself.

NESO_BUILDER=PYTHON says which interpreter has what e2e/build_llm.py needs, PyTorch among it.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import shutil
import subprocess

import pytest
from server import ROOT, Server
from test_genai import PROMPTS, Reference, generate

BUILDER = os.environ.get("NESO_BUILDER")
pytestmark = pytest.mark.skipif(not BUILDER, reason="NESO_BUILDER=PYTHON says who has PyTorch and the model builder")

MODELS = ["llama_int4", "llama_fp32", "llama_fp16", "qwen2_int4", "mistral_int4"]
LONG = "The cache holds keys and values of what was read. " * 6


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("built")
    subprocess.run([BUILDER, ROOT / "e2e" / "build_llm.py", root / "models"], check=True, capture_output=True)
    return root / "models"


@pytest.fixture(scope="module")
def served(built):
    with Server(built, "--openai=true") as s:
        yield s


@pytest.mark.parametrize("model", MODELS)
def test_as_the_library(served, built, tmp_path, model):
    """Token by token, alone and beside others, and with beams."""
    own = tmp_path / "own"
    shutil.copytree(built / model / "1", own)
    config = json.loads((own / "genai_config.json").read_text())
    # The library has a cache of the window's size for attention that looks at the whole text, and fails when it is full.
    config["model"]["decoder"].pop("sliding_window", None)
    (own / "genai_config.json").write_text(json.dumps(config))
    reference = Reference(own)

    def want(prompt, n):
        ids = reference.write(prompt, n, min_length=n + len(reference.tokenizer.encode(prompt)))
        return reference.text(i for i in ids if i not in reference.tokenizer.eos_token_ids)

    jobs = [(p, 40 + 10 * i) for i, p in enumerate([*PROMPTS, LONG])]
    wanted = [want(*j) for j in jobs]
    assert len(set(wanted)) == len(jobs)
    for (prompt, n), text in zip(jobs, wanted):
        assert generate(served, model, text_input=prompt, max_tokens=n, ignore_eos=True).json["text_output"] == text
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        replies = pool.map(
            lambda j: generate(served, model, text_input=j[0], max_tokens=j[1], ignore_eos=True), jobs * 2
        )
        assert [r.json["text_output"] for r in replies] == wanted * 2
    beams = generate(served, model, text_input=PROMPTS[0], max_tokens=12, num_beams=3)
    assert beams.status == 200, beams


def test_all_are_computed_together(served):
    assert "computed one by one" not in served.log()
