"""neso perf against servers of OpenAI's protocol, good ones and others."""

from __future__ import annotations

import json
import signal

import openai_server as openai
import pytest
from test_perf import begin, perf


def data(tmp_path, **fields):
    """Two requests of a chat."""
    requests = [
        {"payload": [{"model": "m", "messages": [{"role": "user", "content": text}], **fields}]}
        for text in ("hi", "hö")
    ]
    (tmp_path / "data.json").write_text(json.dumps({"data": requests}))
    return tmp_path / "data.json"


def arguments(server, file, endpoint="v1/chat/completions"):
    return ("-m", "m", "--service-kind", "openai", "--endpoint", endpoint, "-u", server.address, "--input-data", file)


def exported(path):
    [experiment] = json.loads(path.read_text())["experiments"]
    return experiment["requests"]


def test_chat(tmp_path):
    """Requests go out as they were written, with headers, in turn; answers are in the export."""
    with openai.serving() as server:
        r = perf(
            *arguments(server, data(tmp_path)), "--request-count", 10, "--concurrency-range", 2, "-H", "Authorization: Bearer x",
            "--profile-export-file", tmp_path / "e.json",
        )  # fmt: skip
    assert r.returncode == 0 and "Request count: 10\n" in r.stdout, r
    paths, bodies, headers = zip(*server.requests, strict=True)
    assert set(paths) == {"/v1/chat/completions"} and len(bodies) == 10
    assert sum(b["messages"][0]["content"] == "hö" for b in bodies) == 5
    assert all(h["Authorization"] == "Bearer x" and h["Content-Type"] == "application/json" for h in headers)
    for request in exported(tmp_path / "e.json"):
        [answer] = request["response_outputs"]
        assert json.loads(answer["response"])["object"] == "chat.completion"
        assert (
            json.loads(request["request_inputs"]["payload"])["model"] == "m"
            and len(request["response_timestamps"]) == 1
        )


def test_schedule(tmp_path):
    """A schedule is for this protocol, too."""
    with openai.serving() as server:
        file = tmp_path / "s.json"
        entries = [
            {"payload": [{"model": "m", "messages": [{"role": "user", "content": str(t)}]}], "timestamp": t}
            for t in (90, 0)
        ]
        file.write_text(json.dumps({"data": entries}))
        r = perf(*arguments(server, file), "--fixed-schedule", "--profile-export-file", tmp_path / "e.json")
        assert r.returncode == 0 and "Request count: 2\n" in r.stdout, r
    [experiment] = json.loads((tmp_path / "e.json").read_text())["experiments"]
    first, second = sorted(experiment["requests"], key=lambda x: x["timestamp"])
    assert '"0"' in first["request_inputs"]["payload"]
    assert second["timestamp"] - experiment["window_boundaries"][0] >= 90e6


def test_completions(tmp_path):
    file = tmp_path / "data.json"
    file.write_text('{"data": [{"payload": [{"model": "m", "prompt": "hi"}]}]}')
    with openai.serving() as server:
        r = perf(*arguments(server, file, "/v1/completions"), "--request-rate-range", 20, "--request-count", 20)
    assert r.returncode == 0 and "Request count: 20\n" in r.stdout, r
    assert {path for path, _, _ in server.requests} == {"/v1/completions"}


def test_stream(tmp_path):
    """Each event has its time and stands alone in the export, the end of the stream too."""
    with openai.serving() as server:
        r = perf(
            *arguments(server, data(tmp_path, stream=True)),
            "--request-count",
            6,
            "--profile-export-file",
            tmp_path / "e.json",
        )
    assert r.returncode == 0 and "Request count: 6\n" in r.stdout, r
    for request in exported(tmp_path / "e.json"):
        times, events = request["response_timestamps"], [o["response"] for o in request["response_outputs"]]
        assert len(times) == 4 and times == sorted(times) and times[0] > request["timestamp"]
        assert events[-1] == "data: [DONE]\n\n"
        words = [json.loads(e.removeprefix("data:"))["choices"][0]["delta"]["content"] for e in events[:-1]]
        assert words == ["one", " two", " three"]


def test_split_events(tmp_path):
    with openai.serving("split") as server:
        r = perf(
            *arguments(server, data(tmp_path, stream=True)),
            "--request-count",
            3,
            "--profile-export-file",
            tmp_path / "e.json",
        )
    assert r.returncode == 0, r
    for request in exported(tmp_path / "e.json"):
        assert [o["response"] for o in request["response_outputs"]] == [
            'data: {"a":1}\n\n', "data: {}\n\n", "data: {}\n\n", "data: [DONE]\n\n",
        ]  # fmt: skip


@pytest.mark.parametrize(
    "behaviour, text",
    [
        ("error", "Failed: 5 requests: HTTP 429: "),
        ("error_in_stream", 'Failed: 5 requests: error in the stream: {"message": "out of memory"}'),
        ("cut", "Failed: 5 requests: connection closed by the server"),
        ("bad_chunk", "Failed: 5 requests: malformed answer: a chunk of the size"),
        ("no_length", "Failed: 5 requests: malformed answer: an answer without a length"),
    ],
)
def test_faults(tmp_path, behaviour, text):
    """A request that is not answered well is counted by its cause, whatever has come of it."""
    with openai.serving(behaviour) as server:
        r = perf(*arguments(server, data(tmp_path, stream=True)), "--request-count", 5)
    assert r.returncode == 99 and text in r.stdout and "\x1b" not in r.stdout + r.stderr, r


def test_long_line(tmp_path):
    """An event of two gigabytes ends at a bound."""
    with openai.serving("long_line") as server:
        r = perf(*arguments(server, data(tmp_path, stream=True)), "--request-count", 1)
    assert r.returncode == 99 and "an event of more than 16777216 bytes" in r.stdout + r.stderr, r


@pytest.mark.parametrize("behaviour", ["endless", "silent"])
def test_interrupted(tmp_path, behaviour):
    """A request without an end is given up by Ctrl-C."""
    with openai.serving(behaviour) as server:
        p = begin(*arguments(server, data(tmp_path, stream=True)), until="Request concurrency: 1\n")
        while not server.requests:  # the first one is under way
            assert p.poll() is None
            server.stopping.wait(0.01)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
    assert p.returncode == 130 and "interrupted" in err, (out, err)


def test_no_data(tmp_path):
    file = tmp_path / "data.json"
    for text, want in (
        ('{"data": []}', "holds no request"),
        ('{"data": [{}]}', "data[0] has no 'payload'"),
        ("{", "failed to read the input data"),
    ):
        file.write_text(text)
        with openai.serving() as server:
            r = perf(*arguments(server, file))
        assert r.returncode == 99 and want in r.stderr, r
