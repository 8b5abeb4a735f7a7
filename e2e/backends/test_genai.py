"""Language models of ONNX Runtime GenAI: a network with random weights, compared token by token with the library's own Python API."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import openai
import pytest
import tritonclient.grpc as grpcclient
from server import ROOT, Server, isolated, kill

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read while the library is being opened
og = pytest.importorskip("onnxruntime_genai", reason="pip install -r scripts/requirements-tests.txt brings it")

PROMPTS = ["A server keeps models", "The weather was", "naïve Häuser\n x  y", "1 2 3 4", '{"name": ']


def export(directory, *options):
    subprocess.run([sys.executable, ROOT / "examples" / "export_tiny_llm.py", directory, *options], check=True)
    return directory


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A repository: a plain model, one with an adapter, one for the engine, two that are damaged."""
    root = tmp_path_factory.mktemp("llm")
    plain = export(root / "tiny" / "1")
    export(root / "paged" / "1", "--paged", "--blocks=64")
    export(root / "lora" / "1", "--adapter")
    for name, damaged in (
        ("no_words", "tokenizer.json"),
        ("no_weights", "model.onnx"),
        ("no_config", "genai_config.json"),
    ):
        shutil.copytree(plain, root / name / "1")
        file = root / name / "1" / damaged
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    shutil.copytree(plain, root / "small" / "1")
    (root / "small" / "config.pbtxt").write_text(
        'backend: "genai"\nparameters { key: "cache_memory_mb" value { string_value: "1" } }\n'
        'parameters { key: "max_sequences" value { string_value: "3" } }\n'
    )
    return root


@pytest.fixture(scope="module")
def llm(exported):
    with Server(exported, "--openai=true", "--exit-on-error=false", "--strict-readiness=false") as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture
def client(llm):
    with openai.OpenAI(base_url=f"http://{llm.http}/v1", api_key="none", max_retries=0) as c:
        yield c


class Reference:
    """The library's own API in this process."""

    def __init__(self, directory):
        self.model = og.Model(str(directory))
        self.tokenizer = og.Tokenizer(self.model)

    def write(self, prompt, tokens, adapter=None, **search):
        ids = self.tokenizer.encode(prompt)
        params = og.GeneratorParams(self.model)
        params.set_search_options(**{"do_sample": False, "max_length": len(ids) + tokens, **search})
        generator = og.Generator(self.model, params)
        if adapter:
            adapters = og.Adapters(self.model)
            adapters.load(str(adapter), "it")
            generator.set_active_adapter(adapters, "it")
        generator.append_tokens(ids)
        while not generator.is_done():
            generator.generate_next_token()
        return [int(t) for t in generator.get_sequence(0)[len(ids) :]]

    def text(self, ids):
        stream = self.tokenizer.create_stream()
        return "".join(stream.decode(i) for i in ids)


@pytest.fixture(scope="module")
def reference(exported):
    return Reference(exported / "tiny" / "1")


def generate(s, model, **body):
    return s.post(f"/v2/models/{model}/generate", json.dumps(body))


def pieces(s, model, body, path="generate_stream"):
    """The events of a stream."""
    connection = http.client.HTTPConnection(s.http, timeout=60)
    connection.request("POST", f"/v2/models/{model}/{path}", json.dumps({"stream": True, **body}))
    reply = connection.getresponse()
    events = [json.loads(line[6:]) for line in reply.read().decode().splitlines() if line.startswith("data: ")]
    connection.close()
    assert reply.status == 200, events
    return events


def value(s, name, label):
    found = re.search(rf'^{re.escape(name)}\{{[^}}]*"{label}"[^}}]*\}} (\S+)$', s.metrics(), re.MULTILINE)
    return float(found[1]) if found else None


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)  # another process: there is nothing to wait on


@pytest.mark.parametrize("model", ["tiny", "paged"])
def test_same_tokens_as_the_library(llm, reference, model):
    for prompt in PROMPTS:
        want = reference.text(reference.write(prompt, 40))
        reply = generate(llm, model, text_input=prompt, max_tokens=40, temperature=0.0)
        assert reply.status == 200, reply
        assert reply.json["text_output"] == want, prompt
        events = pieces(llm, model, {"text_input": prompt, "max_tokens": 40})
        assert "".join(e["text_output"] for e in events) == want
        assert sum(e["num_output_tokens"] for e in events) == reply.json["num_output_tokens"]
        assert [e["finish_reason"] for e in events[:-1]] == [""] * (len(events) - 1)
        ids = reference.write(prompt, 40)
        ended = len(ids) < 40 or ids[-1] in reference.tokenizer.eos_token_ids
        assert events[-1]["finish_reason"] == reply.json["finish_reason"] == ("stop" if ended else "length")


def test_same_tokens_side_by_side(llm, reference):
    """Sixteen at once on each model, which begin and end at different times."""
    jobs = [(m, PROMPTS[i % 5], 5 + 7 * i) for i in range(16) for m in ("tiny", "paged")]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda j: generate(llm, j[0], text_input=j[1], max_tokens=j[2]), jobs))
    for (_, prompt, n), reply in zip(jobs, replies):
        assert reply.status == 200 and reply.json["text_output"] == reference.text(reference.write(prompt, n)), (
            prompt,
            n,
        )
    until(lambda: value(llm, "neso_generation_cache_bytes", "tiny") == 0)
    until(lambda: value(llm, "vllm:kv_cache_usage_perc", "paged") == 0)


def test_end_of_text_and_lengths(llm, reference, exported):
    """A token that the network writes is made the end of texts."""
    ids = reference.write(PROMPTS[1], 40)
    config = json.loads((exported / "tiny" / "1" / "genai_config.json").read_text())
    assert not set(ids) & set(config["model"]["eos_token_id"])
    reply = generate(llm, "tiny", text_input=PROMPTS[1], max_tokens=4)
    assert (reply.json["num_output_tokens"], reply.json["finish_reason"]) == (4, "length")
    free = generate(llm, "tiny", text_input=PROMPTS[1])
    assert free.json["num_input_tokens"] + free.json["num_output_tokens"] <= 512


@pytest.mark.parametrize("model", ["tiny", "paged"])
def test_stop(llm, reference, model):
    text = reference.text(reference.write(PROMPTS[0], 40))
    stop = text[9:12]
    want = text[: text.index(stop)]
    body = {"text_input": PROMPTS[0], "max_tokens": 40, "sampling_parameters": json.dumps({"stop": ["never", stop]})}
    reply = generate(llm, model, **body)
    assert (reply.json["text_output"], reply.json["finish_reason"]) == (want, "stop")
    assert "".join(e["text_output"] for e in pieces(llm, model, body)) == want
    kept = json.dumps({"stop": stop, "include_stop_str_in_output": True})
    assert generate(llm, model, text_input=PROMPTS[0], sampling_parameters=kept).json["text_output"] == want + stop


def test_sampling(llm, reference):
    def write(**more):
        return generate(llm, "tiny", text_input=PROMPTS[0], max_tokens=20, **more).json["text_output"]

    greedy = write()
    assert write(temperature=1.5, seed=1) == write(temperature=1.5, seed=1) != write(temperature=1.5, seed=2)
    assert (
        write(temperature=1.5, top_k=1)
        == write(temperature=0.0)
        == write(temperature=1.0, top_p=0.0001, top_k=50)
        == greedy
    )
    assert write(repetition_penalty=5.0) == reference.text(reference.write(PROMPTS[0], 20, repetition_penalty=5.0))


def test_beams(llm, reference):
    want = reference.text(reference.write(PROMPTS[0], 12, num_beams=4))
    reply = generate(llm, "tiny", text_input=PROMPTS[0], max_tokens=12, num_beams=4, num_return_sequences=2)
    assert reply.json["text_output"][0] == want and len(reply.json["text_output"]) == 2
    assert "num_beams" in generate(llm, "tiny", text_input="x", num_beams=2, stream=True).error


def test_adapters(llm, exported):
    lora = Reference(exported / "lora" / "1")
    want = lora.text(lora.write(PROMPTS[0], 20, adapter=exported / "lora" / "1" / "tiny.onnx_adapter"))
    got = generate(llm, "lora", text_input=PROMPTS[0], max_tokens=20, adapter="tiny").json["text_output"]
    assert got == want != generate(llm, "lora", text_input=PROMPTS[0], max_tokens=20).json["text_output"]
    assert "has no adapter 'other': it has tiny" in generate(llm, "lora", text_input="x", adapter="other").error


@pytest.mark.parametrize("model", ["tiny", "paged"])
def test_guided(llm, model):
    reply = generate(llm, model, text_input="x", max_tokens=30, guided_regex="[a-c]{3}[0-9]{2}")
    assert re.fullmatch("[a-c]{3}[0-9]{2}", reply.json["text_output"]) and reply.json["finish_reason"] == "stop"
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1, 22]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    reply = generate(
        llm, model, text_input="x", max_tokens=200, sampling_parameters=json.dumps({"guided_json": schema})
    )
    if reply.json["finish_reason"] == "stop":  # it may write spaces until there is no more room
        assert json.loads(reply.json["text_output"])["a"] in (1, 22)
    grammar = 'start: "yes" | "no"'
    assert generate(llm, model, text_input="x", guided_grammar=grammar).json["text_output"] in ("yes", "no")


def test_openai(llm, client, reference):
    """The package as it is: chats by the model's own template, streams, log probabilities, counts."""
    messages = [{"role": "user", "content": "Hi"}]
    prompt = reference.tokenizer.apply_chat_template(json.dumps(messages), add_generation_prompt=True)
    ids = reference.write(prompt, 12)
    chat = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=12, temperature=0, logprobs=True, top_logprobs=3
    )
    assert chat.choices[0].message.content == reference.text(ids)
    assert (chat.usage.prompt_tokens, chat.usage.completion_tokens) == (len(reference.tokenizer.encode(prompt)), 12)
    for i, token in enumerate(chat.choices[0].logprobs.content):
        assert token.token == reference.tokenizer.decode([ids[i]])
        best = token.top_logprobs
        assert len(best) == 3 and best[0].token == token.token and best[0].logprob >= best[1].logprob >= best[2].logprob
        assert sum(np.exp(b.logprob) for b in best) < 1.0001
    parts = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=12, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(parts)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == reference.text(ids)
    assert chunks[-1].usage.completion_tokens == 12
    several = client.completions.create(model="tiny", prompt="x", n=3, temperature=1.5, seed=3, max_tokens=8)
    assert len({c.text for c in several.choices}) > 1
    with pytest.raises(openai.BadRequestError, match="takes text only"):
        client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
        )


def test_grpc_stream(llm, reference):
    text = np.array([PROMPTS[0].encode()], dtype=object)
    inputs = [grpcclient.InferInput("text_input", [1], "BYTES"), grpcclient.InferInput("stream", [1], "BOOL")]
    inputs[0].set_data_from_numpy(text)
    inputs[1].set_data_from_numpy(np.array([True]))
    got, done = [], concurrent.futures.Future()

    def take(result, error):
        if error:
            done.set_exception(error)
        elif result.get_response().parameters["triton_final_response"].bool_param:
            done.set_result(None)
        if not error and (out := result.as_numpy("text_output")) is not None:
            got.append(out[0].decode())

    with grpcclient.InferenceServerClient(llm.grpc) as c:
        c.start_stream(take)
        c.async_stream_infer("tiny", inputs, parameters={"max_tokens": 20}, enable_empty_final_response=True)
        done.result(60)
    assert "".join(got) == reference.text(reference.write(PROMPTS[0], 20)) and len(got) > 10


BAD = [
    ({"text_input": "word " * 2000}, "tokens, and model 'tiny' has room for 512"),
    ({"text_input": ""}, "has no tokens"),
    ({}, "takes 'text_input' or 'messages'"),
    ({"text_input": "a\0b"}, "has a NUL at byte 1"),
    ({"text_input": "x", "messages": "[]"}, "and one of them"),
    ({"messages": "[]"}, "has 0 messages"),
    ({"messages": "{"}, "is no JSON array"),
    ({"messages": '[{"content": "x"}]'}, "has no role"),
    ({"text_input": "x", "top_p": 7.0}, "expected a number of 0 to 1"),
    ({"text_input": "x", "max_tokens": 0}, "expected a whole number of 1"),
    ({"text_input": "x", "min_tokens": 600}, "there is room for"),
    ({"text_input": "x", "sampling_parameters": '{"frobnicate": 1}'}, "'frobnicate' is not known"),
    ({"text_input": "x", "sampling_parameters": "["}, "is no JSON object"),
    ({"text_input": "x", "presence_penalty": 1.0}, "repetition_penalty alone"),
    ({"text_input": "x", "guided_regex": "[0-9"}, "unclosed character class"),
    ({"text_input": "x", "sampling_parameters": '{"guided_json": {"type": "no"}}'}, "Invalid type"),
    (
        {"text_input": "x", "sampling_parameters": '{"guided_json": {"$ref": "file:///etc/passwd"}}'},
        "only what lies in itself",
    ),
    (
        {"text_input": "x", "sampling_parameters": '{"guided_json": ' + '{"not":' * 100 + "{}" + "}" * 100 + "}"},
        "nested more than",
    ),
    ({"text_input": "x", "guided_regex": "a" * 300000}, "the most is 262144"),
    ({"text_input": "x", "sampling_parameters": json.dumps({"stop": ["x"] * 17})}, "the most is 16"),
]


@pytest.mark.parametrize("body, error", BAD)
def test_bad_requests(llm, body, error):
    reply = generate(llm, "tiny", **body)
    assert reply.status == 400 and error in reply.error, reply


def test_bad_bytes(llm):
    reply = llm.post("/v2/models/tiny/generate", b'{"text_input": "a\xff b"}')
    assert reply.status == 400 and "UTF-8" in reply.error, reply


def test_schemas_that_explode(llm):
    """What takes the library long is refused or served, and holds nobody up for good."""
    for regex in ("((a{1,100}){1,100}){1,100}", "(a|b)*a(a|b){500}c", "(.*a.*b.*){40}"):
        generate(llm, "tiny", text_input="x", max_tokens=5, guided_regex=regex)
    schema = {"type": "object", "properties": {f"p{i}": {"$ref": "#"} for i in range(200)}, "required": ["p0"]}
    generate(llm, "tiny", text_input="x", max_tokens=5, sampling_parameters=json.dumps({"guided_json": schema}))
    assert generate(llm, "tiny", text_input="x", max_tokens=5).status == 200


def test_damaged_models(llm):
    index = {m["name"]: m.get("reason", "") for m in llm.post("/v2/repository/index", "{}").json}
    assert "tokenizer" in index["no_words"] and "unable to load model 'no_weights'" in index["no_weights"]
    assert "genai_config.json" in index["no_config"] and index["tiny"] == ""
    for reason in index.values():
        assert "/1/" not in reason, reason


@pytest.mark.parametrize("model", ["tiny", "paged"])
def test_clients_that_vanish(llm, model):
    """Their places are free again, and nobody writes for them."""
    gone = []
    for _ in range(40):
        c = socket.create_connection(("127.0.0.1", llm.http_port))
        body = json.dumps({"text_input": "x", "stream": True, "ignore_eos": True}).encode()
        c.sendall(
            b"POST /v2/models/%s/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            % (model.encode(), len(body))
            + body
        )
        gone.append(c)
    for c in gone:
        c.close()
    until(lambda: value(llm, "neso_generation_cache_bytes", model) == 0)
    assert generate(llm, model, text_input="x", max_tokens=5).status == 200


def test_memory_of_the_cache(llm):
    """1 MiB holds 2,048 tokens of this network: four texts of 512, of which three may be written."""
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda i: generate(llm, "small", text_input="x", max_tokens=400 + i), range(12)))
    assert {r.status for r in replies} == {200}
    reply = generate(llm, "small", text_input="x", num_beams=8)
    assert reply.status == 400 and "keys and values" in reply.error, reply


def test_crashes_end_no_server(llm):
    """The processes that the models run in are killed in the midst of answers: others follow them."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(generate, llm, "tiny", text_input="x", max_tokens=500, ignore_eos=True) for _ in range(8)]
        for pid in isolated(llm.process.pid):
            kill(pid, signal.SIGKILL)
        replies = [j.result() for j in jobs]
    assert all(r.status == 200 or "is not healthy" in r.error for r in replies), replies
    for model in ("tiny", "paged", "lora"):
        until(lambda m=model: generate(llm, m, text_input="x", max_tokens=5).status == 200)
    assert llm.process.poll() is None


def test_without_a_configuration(exported):
    """`neso serve DIRECTORY`, as the model builder has written it, in the server's process."""
    from server import BINARY

    out = subprocess.run(
        [BINARY, "config", "init", exported / "tiny" / "1", "--output=-"], capture_output=True, text=True, timeout=120
    )
    assert 'backend: "genai"' in out.stdout and "decoupled: true" in out.stdout, out
