"""Language models of ONNX Runtime GenAI: a network with random weights, compared token by token with the library's own Python API."""

from __future__ import annotations

import concurrent.futures
import functools
import http.client
import json
import os
import re
import resource
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
    """A repository: a plain model, the same with a generator for each text, one that is told the places of tokens, one for the engine, one
    with an adapter, some that are damaged."""
    root = tmp_path_factory.mktemp("llm")
    plain = export(root / "tiny" / "1")
    export(root / "paged" / "1", "--paged", "--blocks=64")
    export(root / "positions" / "1", "--positions", "--seed=8")
    export(root / "long" / "1", "--context=2048")
    shutil.copytree(plain, root / "alone" / "1")
    (root / "alone" / "config.pbtxt").write_text(
        'backend: "genai"\nparameters { key: "continuous_batching" value { string_value: "false" } }\n'
    )
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


@pytest.mark.parametrize("model", ["tiny", "paged", "alone"])
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


def test_same_tokens_side_by_side(llm, exported, reference):
    """Sixteen at once on each model, which begin and end at different times."""
    models = {m: reference for m in ("tiny", "paged", "alone")}
    models["positions"] = Reference(exported / "positions" / "1")
    jobs = [(m, PROMPTS[i % 5] * (1 + i % 3), 5 + 7 * i) for i in range(16) for m in models]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        replies = list(pool.map(lambda j: generate(llm, j[0], text_input=j[1], max_tokens=j[2]), jobs))
    for (model, prompt, n), reply in zip(jobs, replies):
        want = models[model].text(models[model].write(prompt, n))
        assert reply.status == 200 and reply.json["text_output"] == want, (model, prompt, n)
    until(lambda: value(llm, "neso_generation_cache_bytes", "tiny") == 0)
    until(lambda: value(llm, "vllm:kv_cache_usage_perc", "paged") == 0)


def test_which_are_computed_together(llm):
    """Those of the model builder's kind; of the others the log says why not."""
    reasons = dict(re.findall(r'computed one by one.* model=(\w+) version=1 reason=\\*"([^"\\]*)', llm.log()))
    assert reasons.keys() == {"alone", "lora"}, reasons
    assert "'continuous_batching' says so" in reasons["alone"] and "adapters" in reasons["lora"]


def test_others_do_not_change_a_text(llm, reference):
    """Greedy, drawn, guided and told with their chances: each beside the others as by itself."""
    kinds = [
        {"text_input": PROMPTS[0], "max_tokens": 40},
        {"text_input": PROMPTS[1], "max_tokens": 30, "temperature": 1.5, "seed": 3},
        {"text_input": PROMPTS[2], "max_tokens": 25, "temperature": 0.7, "top_p": 0.9, "top_k": 20, "seed": 4},
        {"text_input": "x", "max_tokens": 30, "guided_regex": "[a-c]{3}[0-9]{2}"},
        {"text_input": PROMPTS[3], "max_tokens": 35, "repetition_penalty": 3.0},
        {"text_input": PROMPTS[3], "max_tokens": 35, "no_repeat_ngram_size": 2},
        {"text_input": PROMPTS[4], "max_tokens": 20, "logprobs": 2},
        {"text_input": PROMPTS[4], "max_tokens": 20, "min_tokens": 20, "logprobs": 2, "temperature": 1.0, "seed": 5},
    ]
    want = [generate(llm, "tiny", **k).json for k in kinds]
    assert want[4]["text_output"] == reference.text(reference.write(PROMPTS[3], 35, repetition_penalty=3.0))
    assert want[5]["text_output"] == reference.text(reference.write(PROMPTS[3], 35, no_repeat_ngram_size=2))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        got = [r.json for r in pool.map(lambda k: generate(llm, "tiny", **k), kinds * 2)]
    for alone, beside in zip(want * 2, got):
        tokens = json.loads(beside.pop("logprobs", "[]"))
        for a, b in zip(json.loads(alone.get("logprobs", "[]")), tokens):
            assert list(a) == list(b) and np.allclose(
                [t["logprob"] for t in a.values()], [t["logprob"] for t in b.values()], atol=1e-3
            )
        assert {k: v for k, v in alone.items() if k != "logprobs"} == beside


def test_texts_join_and_leave(llm, reference):
    """A long text is being written while others come and go, some of them in the midst: it is what it is alone, and so are they."""
    connection = http.client.HTTPConnection(llm.http, timeout=60)
    body = {"text_input": PROMPTS[0], "stream": True, "max_tokens": 400, "ignore_eos": True}
    connection.request("POST", "/v2/models/tiny/generate_stream", json.dumps(body))
    reply = connection.getresponse()
    first = reply.readline() + reply.readline()
    for i in range(12):
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            jobs = [(PROMPTS[(i + k) % 5] * (1 + k), 3 + 2 * k) for k in range(3)]
            for (prompt, n), r in zip(
                jobs, pool.map(lambda j: generate(llm, "tiny", text_input=j[0], max_tokens=j[1]), jobs)
            ):
                assert r.json["text_output"] == reference.text(reference.write(prompt, n))
        with socket.create_connection(("127.0.0.1", llm.http_port)) as gone:
            text = json.dumps({"text_input": PROMPTS[i % 5], "stream": True}).encode()
            gone.sendall(
                b"POST /v2/models/tiny/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(text)
                + text
            )
    lines = (first + reply.read()).decode().splitlines()
    text = "".join(json.loads(line[6:])["text_output"] for line in lines if line.startswith("data: "))
    connection.close()
    assert text == reference.text(
        reference.write(PROMPTS[0], 400, min_length=400 + len(reference.tokenizer.encode(PROMPTS[0])))
    )


def test_long_prompts(llm, exported):
    """They are read in parts between the tokens of others: several at once, some of which are given up, change nobody's text."""
    long = Reference(exported / "long" / "1")
    jobs = [("The cache holds keys and values of what was read. " * n, 60) for n in (40, 70, 55)] + [
        (p, 300) for p in PROMPTS
    ]
    assert len(long.tokenizer.encode(jobs[1][0])) > 1024  # three parts
    gone = []
    for n in (60, 65):
        c = socket.create_connection(("127.0.0.1", llm.http_port))
        text = json.dumps({"text_input": "A server keeps models. " * n, "stream": True}).encode()
        c.sendall(
            b"POST /v2/models/long/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(text) + text
        )
        gone.append(c)
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        replies = pool.map(lambda j: generate(llm, "long", text_input=j[0], max_tokens=j[1], ignore_eos=True), jobs)
        for c in gone:
            c.close()
        for (prompt, n), reply in zip(jobs, replies):
            length = len(long.tokenizer.encode(prompt)) + n
            assert reply.json["text_output"] == long.text(long.write(prompt, n, min_length=length)), (prompt[:20], n)
    until(lambda: value(llm, "neso_generation_cache_bytes", "long") == 0)


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


def test_beams(llm, reference, exported):
    want = reference.text(reference.write(PROMPTS[0], 12, num_beams=4))
    reply = generate(llm, "tiny", text_input=PROMPTS[0], max_tokens=12, num_beams=4, num_return_sequences=2)
    assert reply.json["text_output"][0] == want and len(reply.json["text_output"]) == 2
    assert "num_beams" in generate(llm, "tiny", text_input="x", num_beams=2, stream=True).error
    size = (exported / "tiny" / "1" / "model.onnx").stat().st_size
    until(lambda: value(llm, "neso_generation_beam_weights_bytes", "tiny") >= size)  # freed a minute later


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


def said(text):
    return {"model": "tiny", "messages": [{"role": "user", "content": text}]}


def formed(schema):
    return {**said("x"), "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}


BAD_OPENAI = [
    ("chat/completions", said("word " * 2000), "tokens, and model 'tiny' has room for 512"),
    ("completions", {"model": "tiny", "prompt": "word " * 2000}, "has room for 512"),
    ("responses", {"model": "tiny", "input": "word " * 2000}, "has room for 512"),
    ("completions", {"model": "tiny", "prompt": "x", "n": 1000}, "'n'"),
    ("chat/completions", {**said("x"), "n": 1000}, "'n'"),
    ("completions", {"model": "tiny", "prompt": "a\0b"}, "NUL"),
    ("chat/completions", said("a\0b"), "NUL"),
    ("chat/completions", formed({"type": "no"}), "Invalid type"),
    ("chat/completions", formed({"$ref": "http://127.0.0.1:1/x"}), "only what lies in itself"),
    ("chat/completions", formed({"enum": ["x" * 200000, "y" * 200000]}), "the most is 262144"),
    (
        "chat/completions",
        {**said("x"), "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"},
        "tool_choice",
    ),
    ("embeddings", {"model": "tiny", "input": "x"}, "tiny"),
    ("completions", {"model": "no_weights", "prompt": "x"}, "no_weights"),
    ("chat/completions", {**said("x"), "model": "no_words"}, "no_words"),
]


def openai_error(llm, path, body):
    reply = llm.post(f"/v1/{path}", body if isinstance(body, bytes) else json.dumps(body))
    error = reply.json["error"]
    assert set(error) == {"message", "type", "param", "code"} and 400 <= reply.status < 500, reply
    return error["message"]


@pytest.mark.parametrize("path, body, error", BAD_OPENAI)
def test_bad_requests_in_openais_form(llm, path, body, error):
    assert error in openai_error(llm, path, body)


def test_bad_bytes_in_openais_form(llm):
    for path in ("completions", "chat/completions", "responses"):
        assert "UTF-8" in openai_error(llm, path, b'{"model": "tiny", "prompt": "a\xff b"}')


def test_schemas_and_tools_that_explode_in_openais_form(llm):
    """What leads back to itself, or grows, is answered or refused in the form of the route, and others are served on."""
    deep = {}
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}}
    cyclic = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    wide = {
        "type": "object",
        "properties": {f"p{i}": {"$ref": "#"} for i in range(200)},
        "required": [f"p{i}" for i in range(200)],
    }
    doubled = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 4} for i in range(30)}
    for schema in (deep, cyclic, wide, {"$defs": {**doubled, "d30": {"const": 1}}, "$ref": "#/$defs/d0"}):
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        for body in (
            formed(schema),
            {**said("x"), "tools": [tool]},
            {**said("x"), "tools": [tool], "tool_choice": "none"},
        ):
            reply = llm.post("/v1/chat/completions", json.dumps({**body, "max_tokens": 3}))
            assert reply.status == 200 or set(reply.json["error"]) == {"message", "type", "param", "code"}, reply
    assert llm.post("/v1/chat/completions", json.dumps({**said("x"), "max_tokens": 3})).status == 200


def test_clients_of_openai_that_vanish(llm, client):
    """In the midst of a stream, several choices at once: their places are free again."""
    for n in (1, 4):
        stream = client.completions.create(model="tiny", prompt="x", n=n, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
    until(lambda: value(llm, "neso_generation_cache_bytes", "tiny") == 0)
    until(lambda: value(llm, "neso_generation_running", "tiny") == value(llm, "neso_generation_waiting", "tiny") == 0)


def test_templates_that_loop(exported, tmp_path):
    """A chat template is a program of the model's: one that does not end is no end of the server, nor of what has no chat."""
    shutil.copytree(exported / "tiny" / "1", tmp_path / "loops" / "1")
    file = tmp_path / "loops" / "1" / "tokenizer_config.json"
    config = json.loads(file.read_text())
    loop = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    config["chat_template"] = (
        "{% if messages[0]['content'] == 'loop' %}" + loop + "{% endif %}{{ messages[0]['content'] }}"
    )
    file.write_text(json.dumps(config))
    with Server(tmp_path, "--openai=true", "--model-control-mode=explicit", "--load-model=loops") as s:
        ask = functools.partial(s.post, "/v1/chat/completions")
        assert ask(json.dumps({**said("x"), "model": "loops", "max_tokens": 3})).status == 200
        for text, error in (("loop", "did not end within 10s"), ("x", "still busy with an earlier chat")):
            reply = ask(json.dumps({**said(text), "model": "loops", "max_tokens": 3}))
            assert reply.status == 503 and error in reply.json["error"]["message"], reply
        assert s.post("/v1/completions", json.dumps({"model": "loops", "prompt": "x", "max_tokens": 3})).status == 200
        assert s.post("/v2/repository/models/loops/unload", "{}").status == 200


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


def address_space(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def test_a_cache_that_cannot_grow(tmp_path):
    """A text that there is no memory for waits for the others, or is refused where there are none: it ends nobody."""
    huge = Reference(export(tmp_path / "huge" / "1", "--context=1048576"))
    # Bytes of keys and values of the longest text: half of them, which are left below, are more than what
    # the process itself may want on the way (an arena of Go's heap takes 64 MiB of addresses).
    row = 1048576 * 512

    def wanted(prompt, n):
        return huge.text(huge.write(prompt, n, min_length=n + len(huge.tokenizer.encode(prompt))))

    def write(prompt, n):
        return generate(s, "huge", text_input=prompt, max_tokens=n, ignore_eos=True).json["text_output"]

    short, running = wanted(PROMPTS[1], 100), wanted(PROMPTS[0], 1500)
    body = json.dumps({"text_input": PROMPTS[0], "stream": True, "max_tokens": 1500, "ignore_eos": True})
    with Server(tmp_path) as s, concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(2):  # threads and heaps are then as large as they become
            assert list(pool.map(lambda _: write(PROMPTS[1], 100), range(8))) == [short] * 8
        [pid] = isolated(s.process.pid)
        for more, status in ((row // 2, 400), (row + row // 2, 200)):
            resource.prlimit(pid, resource.RLIMIT_AS, (address_space(pid) + more, resource.RLIM_INFINITY))
            connection = http.client.HTTPConnection(s.http, timeout=60)
            connection.request("POST", "/v2/models/huge/generate_stream", body)
            reply = connection.getresponse()
            lines = [reply.readline().decode()]
            stop = '{"stop": ["e"]}'
            long = pool.submit(generate, s, "huge", text_input="x", max_tokens=1048000, sampling_parameters=stop)
            lines += reply.read().decode().splitlines()
            connection.close()
            assert not [line for line in lines if "error" in line], long.result()
            text = "".join(json.loads(line[6:])["text_output"] for line in lines if line.startswith("data: "))
            assert text == running
            assert long.result().status == status and (status == 200 or "no memory" in long.result().error), (
                long.result()
            )
            assert write(PROMPTS[1], 100) == short
        assert isolated(s.process.pid) == [pid]


def test_metrics_count_every_route(llm, client):
    """Texts of generate, of a stream, of OpenAI's routes and of a plain infer over gRPC."""

    def numbers():
        names = ("prompt_tokens_total", "tokens_total", "first_token_seconds_count", "between_tokens_seconds_count")
        return [value(llm, f"neso_generation_{n}", "alone") or 0 for n in names]

    def counted(prompt, tokens, texts, between=None):
        nonlocal before
        now = numbers()
        assert now[:3] == [before[0] + prompt, before[1] + tokens, before[2] + texts], (before, now)
        assert between is None or now[3] == before[3] + between
        before = now

    before = numbers()
    one = generate(llm, "alone", text_input=PROMPTS[0], max_tokens=6).json
    counted(one["num_input_tokens"], 6, 1, 0)
    events = pieces(llm, "alone", {"text_input": PROMPTS[0], "max_tokens": 6})
    counted(one["num_input_tokens"], 6, 1, len([e for e in events if e["text_output"]]) - 1)
    client.completions.create(model="alone", prompt=PROMPTS[0], max_tokens=6)
    counted(one["num_input_tokens"], 6, 1)
    inputs = [grpcclient.InferInput("text_input", [1], "BYTES")]
    inputs[0].set_data_from_numpy(np.array([PROMPTS[0].encode()], dtype=object))
    done = concurrent.futures.Future()
    with grpcclient.InferenceServerClient(llm.grpc) as c:
        c.start_stream(lambda result, error: done.set_result(error))
        c.async_stream_infer("alone", inputs, parameters={"max_tokens": 6})
        assert done.result(60) is None
    counted(one["num_input_tokens"], 6, 1)
    generate(llm, "alone", text_input="x", top_p=7.0)
    counted(0, 0, 0)
    assert value(llm, "neso_generation_waiting", "alone") == value(llm, "neso_generation_running", "alone") == 0
    assert value(llm, "vllm:generation_tokens_total", "alone") >= 24


def test_crashes_end_no_server(llm):
    """The processes that the models run in are killed in the midst of answers: others follow them."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(generate, llm, "tiny", text_input="x", max_tokens=500, ignore_eos=True) for _ in range(8)]
        for pid in isolated(llm.process.pid):
            kill(pid, signal.SIGKILL)
        replies = [j.result() for j in jobs]
    assert all(r.status == 200 or r.status == 500 and "is not healthy" in r.error for r in replies), replies
    for model in ("tiny", "paged", "lora"):
        until(lambda m=model: generate(llm, m, text_input="x", max_tokens=5).status == 200)
    assert llm.process.poll() is None


def kill_while(llm, send):
    """What is answered to a request whose model is killed while it writes."""
    until(lambda: generate(llm, "tiny", text_input="x", max_tokens=5).status == 200)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(send)
        until(lambda: job.done() or value(llm, "neso_generation_cache_bytes", "tiny"))
        for pid in isolated(llm.process.pid):
            kill(pid, signal.SIGKILL)
        return job.result()


def test_a_crash_is_no_fault_of_the_request(llm):
    """It has the status that says so, in the form of each route."""

    def long(client):
        try:
            client.completions.create(model="tiny", prompt="x", max_tokens=500, extra_body={"ignore_eos": True})
        except openai.APIStatusError as e:
            return e

    def stream():
        inputs = [grpcclient.InferInput("text_input", [1], "BYTES")]
        inputs[0].set_data_from_numpy(np.array([b"x"], dtype=object))
        done = concurrent.futures.Future()
        with grpcclient.InferenceServerClient(llm.grpc) as c:
            c.start_stream(lambda result, error: done.done() or done.set_result(error))
            c.async_stream_infer("tiny", inputs, parameters={"ignore_eos": True})
            return done.result(60)

    with openai.OpenAI(base_url=f"http://{llm.http}/v1", api_key="none", max_retries=0) as client:
        for _ in range(5):  # one that was written before the signal says nothing
            if (e := kill_while(llm, lambda: long(client))) is not None:
                break
        assert (
            isinstance(e, openai.InternalServerError)
            and e.body["type"] == "server_error"
            and "not healthy" in e.message
        )
    for _ in range(5):
        if (error := kill_while(llm, stream)) is not None:
            break
    assert "not healthy" in str(error), error
    for _ in range(5):
        if (r := kill_while(llm, lambda: generate(llm, "tiny", text_input="x", ignore_eos=True))).status != 200:
            break
    assert r.status == 500 and "is not healthy" in r.error, r
    until(lambda: generate(llm, "tiny", text_input="x", max_tokens=5).status == 200)


def test_without_a_configuration(exported):
    """`neso serve DIRECTORY`, as the model builder has written it, in the server's process."""
    from server import BINARY

    out = subprocess.run(
        [BINARY, "config", "init", exported / "tiny" / "1", "--output=-"], capture_output=True, text=True, timeout=120
    )
    assert 'backend: "genai"' in out.stdout and "decoupled: true" in out.stdout, out
