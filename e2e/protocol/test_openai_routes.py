"""OpenAI's routes with the openai packages as they are, and with what no package sends."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request

import openai
import pytest
from server import ROOT, Server

REPOSITORIES = [ROOT / "examples" / "openai", ROOT / "e2e" / "texts"]
PACKAGES = ROOT / ".tools" / "javascript" / "node_modules"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
def texts():
    with Server(REPOSITORIES, "--openai=true") as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture
def client(texts):
    with openai.OpenAI(base_url=f"http://{texts.http}/v1", api_key="none", max_retries=0) as c:
        yield c


def said(text):
    return [{"role": "user", "content": text}]


def post(s, path, body, headers=None):
    """The status and the text of a body that is sent as it stands."""
    connection = http.client.HTTPConnection(s.http, timeout=60)
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    connection.request("POST", f"/v1/{path}", data, headers or {})
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    return reply.status, json.loads(text), dict(reply.getheaders())


def metrics(s, name):
    page = urllib.request.urlopen(f"http://127.0.0.1:{s.metrics_port}/metrics", timeout=30).read().decode()
    return {m[1]: float(m[2]) for m in re.finditer(rf"^{re.escape(name)}(\{{.*?\}}) (\S+)$", page, re.MULTILINE)}


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_models(client):
    assert [m.id for m in client.models.list()] == ["letters", "parrot", "plain_text", "vllm_engine"]
    assert client.models.retrieve("parrot").owned_by == "neso"
    with pytest.raises(openai.NotFoundError) as e:
        client.models.retrieve("a/b")
    assert e.value.code == "model_not_found"


def test_chat(client):
    r = client.chat.completions.create(model="parrot", messages=said("one two three"), max_tokens=2)
    assert r.choices[0].message.content == "one two" and r.choices[0].finish_reason == "length"
    assert (r.usage.prompt_tokens, r.usage.completion_tokens, r.usage.total_tokens) == (3, 2, 5)
    r = client.chat.completions.create(model="parrot", messages=said("one STOP three"), stop="STOP", n=3, seed=1)
    assert [c.message.content for c in r.choices] == ["one"] * 3 and r.choices[2].index == 2
    assert r.choices[0].finish_reason == "stop" and r.usage.prompt_tokens == 3 and r.usage.completion_tokens == 3


def test_chat_stream(client):
    options = {"include_usage": True}
    chunks = list(
        client.chat.completions.create(
            model="parrot", messages=said("one zwölf 三"), stream=True, stream_options=options
        )
    )
    assert "".join(c.choices[0].delta.content or "" for c in chunks[:-1]) == "one zwölf 三"
    assert chunks[0].choices[0].delta.role == "assistant" and len({c.id for c in chunks}) == 1
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 3
    chunks = list(client.chat.completions.create(model="parrot", messages=said("a b"), stream=True, n=2))
    for i in range(2):
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices[0].index == i) == "a b"


def test_completions(client):
    r = client.completions.create(model="parrot", prompt=["one two", "three"], n=2)
    assert [c.text for c in r.choices] == ["one two", "one two", "three", "three"]
    assert r.usage.prompt_tokens == 3 and r.usage.completion_tokens == 6
    stream = client.completions.create(model="parrot", prompt="one two", stream=True)
    assert "".join(c.choices[0].text for c in stream) == "one two"


def test_tools(client):
    for stream in (False, True):
        r = client.chat.completions.create(
            model="parrot", messages=said("hi"), tools=[TOOL], tool_choice="required", stream=stream
        )
        if stream:
            calls = [c for chunk in r for c in chunk.choices[0].delta.tool_calls or []]
        else:
            calls = r.choices[0].message.tool_calls
            assert r.choices[0].finish_reason == "tool_calls" and r.choices[0].message.content is None
        assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == [("look", {"text": "hi"})]
    cyclic = {"type": "object", "properties": {"x": {"$ref": "#"}}, "$ref": "#"}
    tool = {"type": "function", "function": {"name": "look", "parameters": cyclic}}
    r = client.chat.completions.create(model="parrot", messages=said("hi <tool_ and on"), tools=[tool])
    assert r.choices[0].message.content == "hi <tool_ and on" and r.choices[0].message.tool_calls is None
    r = client.chat.completions.create(model="parrot", messages=said("hi <tool_ on [TOOL"), tools=[tool], stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in r) == "hi <tool_ on [TOOL"


def test_responses(client):
    r = client.responses.create(model="parrot", input="one two", instructions="be brief", max_output_tokens=1)
    assert r.output_text == "one" and r.status == "incomplete" and r.usage.total_tokens == 3
    events = list(client.responses.create(model="parrot", input=said("one two"), stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == "one two"
    assert events[0].type == "response.created" and events[-1].type == "response.completed"
    assert events[-1].response.output_text == "one two"
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    r = client.responses.create(model="parrot", input="hi", tools=[tool], tool_choice="required")
    assert [(c.type, c.name) for c in r.output] == [("function_call", "look")]
    history = [{"role": "user", "content": "hi"}, r.output[0].to_dict(),
               {"type": "function_call_output", "call_id": r.output[0].call_id, "output": "it is late"}]  # fmt: skip
    assert client.responses.create(model="parrot", input=history).output_text == "it is late"
    with pytest.raises(openai.BadRequestError, match="not kept"):
        client.responses.create(model="parrot", input="hi", previous_response_id="resp_1")


def test_one_call_of_a_tool(client):
    """Of two calls the first one counts, where no more than one is wanted."""
    two = "".join(f'<tool_call>{{"name": "look", "arguments": {{"n": {i}}}}}</tool_call>' for i in range(2))
    for several in (True, False, None):
        r = client.chat.completions.create(
            model="parrot", messages=said(two), tools=[TOOL], parallel_tool_calls=several
        )
        assert len(r.choices[0].message.tool_calls) == (1 if several is False else 2)
        tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
        stream = client.responses.create(
            model="parrot", input=two, tools=[tool], parallel_tool_calls=several, stream=True
        )
        calls = [e.item for e in stream if e.type == "response.output_item.done"]
        assert [c.arguments for c in calls] == ['{"n": 0}', '{"n": 1}'][: 1 if several is False else 2]


def test_hints_fail_no_model(client):
    """What a model need not know is no parameter of sampling: this one fails for each that it does not know."""
    client.chat.completions.create(
        model="vllm_engine", messages=said("x"), tools=[TOOL], parallel_tool_calls=False, reasoning_effort="low",
        verbosity="low", extra_body={"logit_bias": {}, "max_tool_calls": 1},
    )  # fmt: skip
    r = client.responses.create(
        model="vllm_engine", input="x", reasoning={"effort": "low"}, text={"verbosity": "low"}, parallel_tool_calls=True
    )
    assert r.reasoning.effort == "low" and r.text.verbosity == "low" and r.parallel_tool_calls
    # Where one is given twice, in the form of the route and in that of chats, it is one parameter.
    r = client.responses.create(
        model="plain_text", input="x", reasoning={"effort": "low"}, text={"verbosity": "low"},
        extra_body={"verbosity": "high", "reasoning_effort": "high"},
    )  # fmt: skip
    assert r.output_text.count("verbosity") == 1
    assert json.loads(r.output_text)["parameters"] == {"reasoning_effort": "low", "verbosity": "low"}
    r = client.chat.completions.create(model="plain_text", messages=said("x"), reasoning_effort="low")
    assert json.loads(r.choices[0].message.content)["parameters"] == {"reasoning_effort": "low"}


def test_log_probabilities_of_responses(client):
    wanted = {"model": "vllm_engine", "input": "x", "include": ["message.output_text.logprobs"]}
    assert client.responses.create(model="vllm_engine", input="x").output[0].content[0].logprobs == []
    r = client.responses.create(**wanted)
    tokens = r.output[0].content[0].logprobs
    assert "".join(t.token for t in tokens) == r.output_text and {t.logprob for t in tokens} == {-0.5}
    assert tokens[0].top_logprobs == [] and tokens[0].bytes == list(tokens[0].token.encode())
    events = list(client.responses.create(**wanted, top_logprobs=1, stream=True))
    pieces = [t.token for e in events if e.type == "response.output_text.delta" for t in e.logprobs]
    assert pieces == [t.token for t in tokens]
    last = events[-1].response.output[0].content[0].logprobs
    assert [t.token for t in last] == pieces and [c.logprob for c in last[0].top_logprobs] == [-0.25]
    chat = client.chat.completions.create(model="vllm_engine", messages=said("x"), logprobs=True)
    assert chat.choices[0].logprobs.content[0].top_logprobs == []  # clients go through it


def test_turns_of_responses(client):
    """Reasoning is no turn; what a model says and calls in one is one message."""
    look = {"type": "function_call", "name": "look", "arguments": "{}"}
    history = [
        {"role": "user", "content": "A"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "B"}]},
        {**look, "call_id": "1"},
        {**look, "call_id": "2"},
        {"type": "function_call_output", "call_id": "1", "output": "C"},
        {**look, "call_id": "3"},
    ]
    text = client.responses.create(model="vllm_engine", input=history).output_text
    turns = re.findall(r"<\|IM_START\|>(\w+)(.*?)(?=<\|IM_START|$)", text, re.DOTALL)
    assert [(role, text.count("<TOOL_CALL>")) for role, text in turns] == [
        ("USER", 0), ("ASSISTANT", 2), ("USER", 0), ("ASSISTANT", 1), ("ASSISTANT", 0),
    ]  # fmt: skip


def test_an_error_in_a_stream_of_responses(texts, client):
    with pytest.raises(openai.APIError, match="the engine failed"):
        list(client.responses.create(model="vllm_engine", input="one fail on", stream=True))
    connection = http.client.HTTPConnection(texts.http, timeout=60)
    connection.request(
        "POST", "/v1/responses", json.dumps({"model": "vllm_engine", "input": "one fail on", "stream": True})
    )
    name, data = connection.getresponse().read().decode().split("\n\n")[-2].split("\n")
    connection.close()
    event = json.loads(data.removeprefix("data: "))
    assert name == "event: error" and event["type"] == "error" and event["sequence_number"] > 1
    assert "the engine failed" in event["message"] and event["message"] == event["error"]["message"]


def test_half_a_character(texts, client):
    """Programs that cut texts between two units of UTF-16 send escapes of one; models with parsers of their own would fail."""
    for path, body in (
        ("chat/completions", r'{"model":"parrot","messages":[{"role":"user","content":"a\ud83e b\udd9c \ud83e\udd9c \\ud83e"}]}'),
        ("completions", r'{"model":"parrot","prompt":"a\ud83e b\udd9c \ud83e\udd9c \\ud83e"}'),
    ):  # fmt: skip
        status, reply, _ = post(texts, path, body)
        assert status == 200, reply
        choice = reply["choices"][0]
        text = choice["message"]["content"] if path.startswith("chat") else choice["text"]
        assert text == "a\ufffd b\ufffd 🦜 \\ud83e"


def test_embeddings(client):
    texts = [f"a{'b' * i}" for i in range(20)]  # more than a batch
    r = client.embeddings.create(model="letters", input=texts)  # base64, which the package asks for
    assert [d.index for d in r.data] == list(range(20)) and all(len(d.embedding) == 26 for d in r.data)
    assert r.data[1].embedding[:2] == pytest.approx([0.5**0.5] * 2)
    one = client.embeddings.create(model="letters", input="ab", encoding_format="float", dimensions=26).data[0]
    assert one.embedding == pytest.approx(r.data[1].embedding)
    for wrong in ({"dimensions": 7}, {"model": "parrot"}):
        with pytest.raises(openai.BadRequestError):
            client.embeddings.create(**{"model": "letters", "input": "a", **wrong})


def test_vllms_tensors(client):
    """A model as vLLM's backend for Triton has them: senders, cumulative outputs, logprobs."""
    r = client.completions.create(
        model="vllm_engine", prompt="one two", temperature=0, seed=5, logprobs=1, extra_body={"top_k": 3}
    )
    assert r.choices[0].text == "ONE TWO" and r.choices[0].finish_reason == "length"
    assert r.choices[0].logprobs.tokens == ["ONE", " TWO"] and r.choices[0].logprobs.top_logprobs[0] == {"?": -0.25}
    assert (r.usage.prompt_tokens, r.usage.completion_tokens) == (2, 2)
    r = client.chat.completions.create(model="vllm_engine", messages=said("one"), logprobs=True, top_logprobs=2)
    assert r.choices[0].message.content == "<|IM_START|>USER ONE<|IM_END|> <|IM_START|>ASSISTANT"
    assert [t.logprob for t in r.choices[0].logprobs.content[0].top_logprobs] == [-0.25, -0.5]
    with pytest.raises(openai.BadRequestError, match="gives no log probabilities"):
        client.chat.completions.create(model="parrot", messages=said("one"), logprobs=True)
    with pytest.raises(openai.InternalServerError, match="unexpected keyword argument"):
        client.completions.create(model="vllm_engine", prompt="x", extra_body={"unheard_of": 1})
    with pytest.raises(openai.APIStatusError, match="the engine failed"):
        client.completions.create(model="vllm_engine", prompt="fail")
    stream = client.completions.create(model="vllm_engine", prompt="one fail", stream=True)
    with pytest.raises(openai.APIError, match="the engine failed"):
        list(stream)


def test_any_model_of_texts(client):
    """Tensors of other names, one answer, parameters of the request, a prompt of a known form."""
    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "U"}]}]
    for stream in (False, True):
        r = client.chat.completions.create(
            model="plain_text",
            messages=messages,
            temperature=0.5,
            stop=["ö"],
            stream=stream,
            response_format={"type": "json_object"},
        )
        text = "".join(c.choices[0].delta.content or "" for c in r) if stream else r.choices[0].message.content
        assert json.loads(text) == {
            "prompt": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>"
            "\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
            "parameters": {"temperature": 0.5, "stop": '["ö"]', "response_format": '{"type":"json_object"}'},
        }
        if not stream:
            assert r.usage is None  # the model has counted nothing
    with pytest.raises(openai.BadRequestError, match="takes no tools"):
        client.chat.completions.create(model="plain_text", messages=said("x"), tools=[TOOL])


def aborted(client):
    return int(client.completions.create(model="vllm_engine", prompt="aborted").choices[0].text)


def test_strings_to_stop_at(texts, client):
    """A model that knows nothing of them, in one piece and in pieces whose borders lie within one."""
    for stream in (False, True):
        one = client.chat.completions.create(
            model="plain_text", messages=said("x"), stop=["nobody", "_of_"], stream=stream
        )
        two = client.completions.create(model="parrot", prompt="one two three four", stop="e t", stream=stream, n=2)
        if stream:
            chunks = list(one)
            text, why = "".join(c.choices[0].delta.content or "" for c in chunks), chunks[-1].choices[0].finish_reason
            chunks = [c.choices[0] for c in two]
            texts_of = ["".join(c.text for c in chunks if c.index == i) for i in range(2)]
            reasons = [c.finish_reason for c in chunks if c.finish_reason]
        else:
            text, why = one.choices[0].message.content, one.choices[0].finish_reason
            texts_of, reasons = [c.text for c in two.choices], [c.finish_reason for c in two.choices]
        assert (text, why) == ('{"prompt": "<|begin', "stop") and (texts_of, reasons) == (["on"] * 2, ["stop"] * 2)
    shown = client.completions.create(
        model="parrot", prompt="one two", stop="e t", extra_body={"include_stop_str_in_output": True}
    )
    assert shown.choices[0].text == "one t"
    before = aborted(client)
    endless = client.completions.create(model="vllm_engine", prompt="endless", stop="LESS", stream=True)
    assert "".join(c.choices[0].text for c in endless) == "END"
    until(lambda: aborted(client) == before + 1)  # the engine is told to end


def test_a_client_that_goes_away(texts, client):
    before = aborted(client)
    stream = client.completions.create(model="vllm_engine", prompt="endless", stream=True)
    next(iter(stream))
    assert metrics(texts, "vllm:num_requests_running")['{model_name="vllm_engine"}'] == 1
    stream.close()
    until(lambda: metrics(texts, "vllm:num_requests_running")['{model_name="vllm_engine"}'] == 0)
    assert aborted(client) == before + 1


DEEP = "[" * 5000 + "]" * 5000
HOSTILE = [
    ("chat/completions", b"\xff", "not valid UTF-8"),
    ("chat/completions", b'{"model":"parrot","messages":"\xc3"}', "not valid UTF-8"),
    ("chat/completions", "", "no JSON object"),
    ("chat/completions", "null", "expected an object"),
    ("chat/completions", "[" * 100_000, "no JSON object"),
    ("chat/completions", {"messages": said("x")}, "must give 'model'"),
    ("chat/completions", {"model": "parrot"}, "must give 'messages'"),
    ("chat/completions", {"model": "parrot", "messages": []}, "0 messages"),
    ("chat/completions", {"model": "parrot", "messages": said("x") * 10_001}, "10001 messages"),
    ("chat/completions", {"model": "parrot", "messages": [{"role": "king", "content": "x"}]}, "role is 'king'"),
    ("chat/completions", {"model": "parrot", "messages": [{"role": "user", "content": 7}]}, "content is 7"),
    ("chat/completions", {"model": "parrot", "messages": [{"role": "user"}]}, "content is missing"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "n": 1000}, "'n' is 1000, expected 1 to 16"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "n": 1.5}, "'n' is 1.5, expected an integer"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "temperature": 1e400}, "is 1e400, expected a number"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "temperature": 3}, "'temperature' is 3"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "stop": ["x"] * 17}, "17 strings"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "stop": ["x", ""]}, "a string of 0 bytes"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "max_tokens": 0}, "'max_tokens' is 0"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "tools": [{"type": "x"}]}, "tools[0].type"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "tools": [TOOL] * 129}, "129 tools"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "tool_choice": "required"}, "needs 'tools'"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "response_format": {"type": "x"}}, "response_format.type"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "functions": [1]}, "use 'tools'"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), **{f"m{i}": 1 for i in range(65)}}, "65 members"),
    ("chat/completions", {"model": "letters", "messages": said("x")}, "not for chats"),
    ("chat/completions", {"model": "vllm_engine", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "text only"),
    ("completions", {"model": "parrot", "prompt": [1, 2]}, "tokens in their place"),
    ("completions", {"model": "parrot", "prompt": ["x"] * 33, "n": 2}, "66 choices"),
    ("completions", {"model": "parrot", "prompt": "x", "echo": True}, "'echo' is not supported"),
    ("embeddings", {"model": "letters", "input": []}, "0 texts"),
    ("embeddings", {"model": "letters", "input": ["x"] * 2049}, "2049 texts"),
    ("responses", {"model": "parrot", "input": [{"type": "image"}]}, "type is 'image'"),
    ("responses", {"model": "parrot", "input": "x", "n": 2}, "one text"),
    ("chat/completions", {"model": "parrot", "messages": [{"role": "user", "content": [None]}]}, "messages[0].content[0].type is missing"),
    ("chat/completions", {"model": "parrot", "messages": [{"role": "user", "content": [{"type": "text", "text": None}]}]},
     "messages[0].content[0].text is missing"),
    ("chat/completions", '{"model":"parrot","messages":[{"role":"user","content":"x","more":' + DEEP + "}]}", "5003 deep"),
    ("chat/completions", '{"model":"parrot","messages":[{"role":"user","content":"x"}],"top_k":' + DEEP + "}", "5001 deep"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "text_input": "y"}, "'text_input' is no member"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "sampling_parameters": "{}"}, "'sampling_parameters' is no member"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "parallel_tool_calls": 1}, "'parallel_tool_calls' is 1"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "logit_bias": {"7": 101}}, "'logit_bias' has 101 for token '7'"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "logit_bias": [1]}, "'logit_bias' is [1]"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "reasoning_effort": 1}, "'reasoning_effort' is 1"),
    ("chat/completions", {"model": "parrot", "messages": said("x"), "moderation": {"model": "x"}}, "'moderation' is not supported"),
    ("completions", {"model": "parrot", "prompt": ["x", None]}, "prompt[1] is null"),
    ("embeddings", {"model": "letters", "input": [None]}, "input[0] is null"),
    ("embeddings", {"model": "letters", "input": "x", "TEXT": "y"}, "'TEXT' is no member"),
    ("responses", {"model": "parrot", "instructions": "x", "input": [{"role": "king", "content": "x"}]}, "input[0].role is 'king'"),
    ("responses", {"model": "parrot", "input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "a part of type 'input_image'"),
    ("responses", {"model": "parrot", "input": [{"role": "user"}]}, "input[0].content is missing"),
    ("responses", {"model": "parrot", "input": [{"type": "function_call", "arguments": "{}"}]}, "input[0].name is missing"),
    ("responses", {"model": "parrot", "input": [{"type": "function_call_output", "output": {}}]}, "input[0].output is {}"),
    ("responses", {"model": "parrot", "input": "x", "metadata": {"a": 1}}, "'metadata' is"),
    ("responses", {"model": "parrot", "input": "x", "include": "x"}, "'include' is"),
    ("responses", {"model": "parrot", "input": "x", "reasoning": {"effort": 7}}, "'reasoning_effort' is 7"),
    ("responses", {"model": "parrot", "input": "x", "text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema' is"),
    ("responses", {"model": "parrot", "input": "x", "top_logprobs": 1}, "gives no log probabilities"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "error"), HOSTILE, ids=range(len(HOSTILE)))
def test_bad_input(texts, path, body, error):
    data = json.dumps(body).replace("Infinity", "1e400") if isinstance(body, dict) else body
    status, reply, _ = post(texts, path, data)
    assert status == 400 and error in reply["error"]["message"], reply
    assert reply["error"]["type"] == "invalid_request_error" and set(reply["error"]) == {
        "message",
        "type",
        "param",
        "code",
    }


def test_errors_have_the_form(texts):
    assert post(texts, "chat/completions", {"model": "nobody", "messages": said("x")})[:2] == (
        404,
        {"error": {"message": "The model 'nobody' does not exist or is not offered by this API", "type": "invalid_request_error",
                   "param": "model", "code": "model_not_found"}},
    )  # fmt: skip
    assert post(texts, "nothing", {})[0] == 404 and post(texts, "models", {})[0] == 405
    for path in ("nothing", "models"):
        assert set(post(texts, path, {})[1]["error"]) == {"message", "type", "param", "code"}


def test_a_prompt_too_long():
    with Server(REPOSITORIES, "--openai=true", "--http-max-input-size=100000") as s:
        status, reply, _ = post(s, "completions", {"model": "parrot", "prompt": "x" * 200_000})
        assert status == 400 and "exceeds the maximum allowed input size" in reply["error"]["message"]
        assert post(s, "completions", {"model": "parrot", "prompt": "x"})[0] == 200


def test_off_until_asked_for(server):
    reply = post(server, "chat/completions", {"model": "words", "messages": said("x")})
    assert reply[:2] == (404, {"error": "Not Found"})


def test_keys_and_tokens(tmp_path):
    """Keys come as Bearer; a key that has used its tokens waits, the other one does not."""
    keys = tmp_path / "keys.json"
    entries = [
        {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "models": ["parrot"], **more}
        for name, more in (("poor", {"tokens_per_minute": 5}), ("rich", {}))
    ]
    keys.write_text(json.dumps({"keys": entries}))
    with Server(REPOSITORIES, "--openai=true", f"--auth-file={keys}") as s:

        def client(key):
            return openai.OpenAI(base_url=f"http://{s.http}/v1", api_key=key, max_retries=0)

        with pytest.raises(openai.AuthenticationError) as e:
            client("nobody").models.list()
        assert e.value.code == "invalid_api_key"
        assert [m.id for m in client("poor").models.list()] == ["parrot"]
        with pytest.raises(openai.PermissionDeniedError):
            client("rich").embeddings.create(model="letters", input="x")
        with pytest.raises(openai.PermissionDeniedError):
            client("rich").models.retrieve("letters")
        chat = {"model": "parrot", "messages": said("one two three")}
        client("poor").chat.completions.create(**chat)
        with pytest.raises(openai.RateLimitError, match="5 tokens per minute") as e:
            client("poor").chat.completions.create(**chat)
        assert e.value.code == "rate_limit_exceeded" and int(e.value.response.headers["retry-after"]) >= 1
        client("rich").chat.completions.create(**chat)


def test_metrics():
    with Server(REPOSITORIES, "--openai=true") as s:
        assert metrics(s, "vllm:num_requests_waiting") == {}
        for _ in range(2):
            post(s, "chat/completions", {"model": "parrot", "messages": said("one two three")})
        own, theirs = '{model="parrot",version="1"}', '{model_name="parrot"}'
        for name in ("prompt_tokens_total", "tokens_total"):
            assert metrics(s, f"neso_generation_{name}") == {own: 6}
        for name in ("prompt_tokens_total", "generation_tokens_total"):
            assert metrics(s, f"vllm:{name}") == {theirs: 6}
        for name in ("waiting", "running"):
            assert metrics(s, f"neso_generation_{name}") == {own: 0} and metrics(s, f"vllm:num_requests_{name}") == {
                theirs: 0
            }
        for name in ("neso_generation_first_token_seconds", "vllm:time_to_first_token_seconds"):
            assert list(metrics(s, f"{name}_count").values()) == [2]
        for name in ("neso_generation_between_tokens_seconds", "vllm:inter_token_latency_seconds"):
            assert list(metrics(s, f"{name}_count").values()) == [4]


def test_the_program_of_the_page(texts):
    blocks = dict(
        re.findall(r"```(python|console)\n(.*?)```", (ROOT / "docs" / "use" / "openai.md").read_text(), re.DOTALL)
    )
    program = blocks["python"].replace("localhost:8000", texts.http)
    r = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    assert r.stdout == blocks["console"].split("$ python client.py\n")[1]


@pytest.mark.parametrize("route", ["chat/completions", "completions"])
def test_perf_measures_the_routes(texts, tmp_path, route):
    content = {"messages": said("one two three")} if route.startswith("chat") else {"prompt": "one two three"}
    (tmp_path / "data.json").write_text(
        json.dumps({"data": [{"payload": [{"model": "parrot", "stream": True, **content}]}]})
    )
    command = [ROOT / "bin" / "neso", "perf", "-m", "parrot", "--service-kind", "openai", "--endpoint", f"v1/{route}", "-u", texts.http,
               "--input-data", tmp_path / "data.json", "--request-count", "10", "--profile-export-file", tmp_path / "e.json"]  # fmt: skip
    r = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert r.returncode == 0 and "Request count: 10\n" in r.stdout, r
    [experiment] = json.loads((tmp_path / "e.json").read_text())["experiments"]
    events = {len(q["response_timestamps"]) for q in experiment["requests"]}
    assert events == {6 if route.startswith("chat") else 5}, experiment["requests"][0]


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js")
@pytest.mark.skipif(
    not (PACKAGES / "openai").exists(), reason="the npm package openai is not installed: scripts/setup.sh does that"
)
def test_the_package_of_javascript(texts, tmp_path):
    (tmp_path / "node_modules").symlink_to(PACKAGES.resolve())
    (tmp_path / "client.mjs").write_text(
        """
import OpenAI from 'openai';
const client = new OpenAI({ baseURL: process.argv[2], apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'user', content: 'one two three' }];
const chat = await client.chat.completions.create({ model: 'parrot', messages });
console.log(chat.choices[0].message.content, chat.usage.total_tokens);
const parts = [];
for await (const c of await client.chat.completions.create({ model: 'parrot', messages, stream: true })) {
  parts.push(c.choices[0].delta.content ?? '');
}
console.log(parts.join('|'));
console.log((await client.responses.create({ model: 'parrot', input: 'one two' })).output_text);
console.log((await client.embeddings.create({ model: 'letters', input: 'ab' })).data[0].embedding.length);
try { await client.chat.completions.create({ model: 'nobody', messages }); } catch (e) { console.log(e.status, e.code); }
"""
    )
    r = subprocess.run(
        ["node", "client.mjs", f"http://{texts.http}/v1"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert r.returncode == 0, r.stderr
    assert r.stdout.splitlines() == ["one two three 6", "|one| two| three|", "one two", "26", "404 model_not_found"]
