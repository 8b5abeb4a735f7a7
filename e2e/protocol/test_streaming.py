"""Decoupled models over generate, generate_stream and the gRPC stream: what they send, and what may go wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import signal
import socket
import textwrap
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from repository import until
from server import Server, descendants
from tritonclient.grpc import service_pb2, service_pb2_grpc

HEAD = """
import asyncio, os, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
cancelled, sent, kept = [], {}, []

def text(s):
    return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", np.array([s.encode()], np.object_))])

def ops(request):
    return [op.decode() for op in pb_utils.get_input_tensor_by_name(request, "OPS").as_numpy().flatten()]
"""

# Does what the strings in OPS say.
SCRIPT = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.run(request.get_response_sender(), ops(request), request)

    def run(self, sender, todo, request):
        for op in todo:
            name, _, value = op.partition(":")
            if name == "text":
                sender.send(text(value))
            elif name == "last":
                sender.send(text(value), FINAL)
            elif name == "zeros":
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("ZEROS", np.zeros(int(value), np.float32))]))
            elif name == "empty":
                sender.send(pb_utils.InferenceResponse([]))
            elif name == "error":
                sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(value)))
            elif name == "raise":
                raise ValueError(value)
            elif name == "final":
                sender.send(flags=FINAL)
            elif name == "pid":
                sender.send(text(str(os.getpid())))
            elif name == "wait":
                while not request.is_cancelled():
                    time.sleep(0.001)
                cancelled.append(value)
            elif name == "cancelled":
                sender.send(text(",".join(cancelled)))
            elif name == "try":
                try:
                    sender.send(text("more"))
                except pb_utils.TritonModelException as error:
                    cancelled.append(str(error))
"""

# Sends COUNT responses of SIZE floats from a thread of its own, or tells how many it has sent.
THREADS = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            op, *rest = ops(request)
            sender = request.get_response_sender()
            if op == "sent":
                sender.send(text(str(sent.get(rest[0], 0))), FINAL)
            elif op == "pid":
                sender.send(text(str(os.getpid())), FINAL)
            elif op == "cancelled":
                sender.send(text(",".join(cancelled)), FINAL)
            else:
                threading.Thread(target=self.talk, args=(sender, rest[0], int(rest[1]), int(rest[2]))).start()

    def talk(self, sender, name, count, size):
        for n in range(count):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("ZEROS", np.full(size, n, np.float32))]))
            sent[name] = n + 1
            if sender.is_cancelled():
                cancelled.append(name)
                break
        sender.send(flags=FINAL)
"""

GENERATOR = """
class TritonPythonModel:
    def execute(self, requests):
        for op in ops(requests[0]):
            if op.startswith("raise:"):
                raise ValueError(op[6:])
            if op == "forever":
                try:
                    while True:
                        yield text("again")
                finally:
                    cancelled.append("closed")
            if op == "cancelled":
                op = ",".join(cancelled)
            yield {"none": [None], "wrong": 5}[op] if op in ("none", "wrong") else text(op)
"""
ASYNC = GENERATOR.replace("def execute", "async def execute").replace(
    'yield text("again")', 'await asyncio.sleep(0)\n                        yield text("again")'
)
COROUTINE = """
class TritonPythonModel:
    async def execute(self, requests):
        sender = requests[0].get_response_sender()
        for op in ops(requests[0]):
            if op.startswith("raise:"):
                raise ValueError(op[6:])
            await asyncio.sleep(0)
            await sender.send_async(text(op))
        sender.send(flags=FINAL)
"""
ONCE = """
class TritonPythonModel:
    def execute(self, requests):
        yield [text("+".join(ops(request))) for request in requests]
        if ops(requests[0])[0] == "twice":
            yield []
"""


def model(repository, name, source, *, decoupled=True, more=""):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(HEAD + source)
    (repository / name / "config.pbtxt").write_text(
        textwrap.dedent(f"""
            backend: "python"
            input {{ name: "OPS" data_type: TYPE_STRING dims: [ -1 ] }}
            output [ {{ name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }}, {{ name: "ZEROS" data_type: TYPE_FP32 dims: [ -1 ] }} ]
            model_transaction_policy {{ decoupled: {str(decoupled).lower()} }}
            {more}""")
    )


@pytest.fixture(scope="module")
def streams(tmp_path_factory):
    repository = tmp_path_factory.mktemp("streams")
    for name, source in {
        "script": SCRIPT, "threads": THREADS, "generator": GENERATOR, "async": ASYNC, "coroutine": COROUTINE,
    }.items():  # fmt: skip
        model(repository, name, source)
    model(repository, "once", ONCE, decoupled=False)
    model(repository, "once_async", ONCE.replace("def", "async def"), decoupled=False)
    with Server(repository) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


def generate(s, name, *ops, **more):
    return s.post(f"/v2/models/{name}/generate", {"OPS": list(ops), **more})


def events_of(body: bytes):
    assert body == b"" or body.endswith(b"\n\n"), body
    return [json.loads(e.removeprefix(b"data: ")) for e in body.split(b"\n\n")[:-1]]


def short(event):
    """The one value in an event."""
    return event.get("error", event.get("TEXT", event.get("ZEROS", "")))


class Stream:
    """A generate_stream that is read event by event, or not at all."""

    def __init__(self, s, name, *ops, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(120)
        self.socket.connect(("127.0.0.1", s.http_port))
        body = json.dumps({"OPS": [str(op) for op in ops]}).encode()
        head = f"POST /v2/models/{name}/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self.socket.sendall(head.encode() + body)

    def open(self):
        self.response = http.client.HTTPResponse(self.socket)
        self.response.begin()
        return self

    def event(self):
        line = self.response.readline()
        assert line.startswith(b"data: ") and self.response.readline() == b"\n", line
        return json.loads(line[6:])

    def close(self):
        if hasattr(self, "response"):
            self.response.close()  # it holds the socket as well
        self.socket.close()


def over_http(s, name, ops):
    r = s.post(f"/v2/models/{name}/generate_stream", {"OPS": list(ops)})
    assert r.headers["content-type"] == "text/event-stream; charset=utf-8", r
    return [short(e) for e in events_of(r.body)]


def over_grpc(s, name, ops):
    """The same answers over the gRPC stream, which ends with an empty final response."""
    answers, found = queue.Queue(), []
    tensor = grpcclient.InferInput("OPS", [len(ops)], "BYTES")
    tensor.set_data_from_numpy(np.array([op.encode() for op in ops], np.object_))
    with grpcclient.InferenceServerClient(s.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(name, [tensor], enable_empty_final_response=True)
        while True:
            result, error = answers.get(timeout=60)
            if error is not None:
                found.append(error.message())
                if found[-1].startswith("Failed to process") or "without a final" in found[-1]:
                    return found  # that is the last word
                continue
            outputs = [o.name for o in result.get_response().outputs]
            final = result.get_response().parameters["triton_final_response"].bool_param
            if not outputs and final:
                return found
            values = [result.as_numpy(o) for o in outputs]
            value = "" if not values else values[0].tolist()
            if isinstance(value, list):
                value = [v.decode() if isinstance(v, bytes) else v for v in value]
                value = value[0] if len(value) == 1 else value
            found.append(value)
            if final:
                return found


RAISED = "Failed to process the request(s) for model '{}_0', message: ValueError: oops"
CASES = [
    ("script", ("final",), []),
    ("script", ("text:a", "final"), ["a"]),
    ("script", ("last:a",), ["a"]),
    ("script", ("text:a", "zeros:2", "empty", "zeros:0", "final"), ["a", [0.0, 0.0], "", []]),
    ("script", ("text:a", "error:e", "text:b", "final"), ["a", "e", "b"]),
    ("script", ("error:e", "final"), ["e"]),
    ("script", ("text:a", "raise:oops"), ["a", RAISED]),
    ("script", ("raise:oops",), [RAISED]),
    ("script", (), ["The model dropped the response sender of the request without a final response."]),
    ("script", ("text:a",), ["a"]),
    ("generator", ("a", "none", "b"), ["a", "b"]),
    ("generator", (), []),
    ("generator", ("a", "raise:oops"), ["a", RAISED]),
    ("async", ("a", "none", "b"), ["a", "b"]),
    ("async", ("a", "raise:oops"), ["a", RAISED]),
    ("coroutine", ("a", "b"), ["a", "b"]),
    ("coroutine", ("a", "raise:oops"), ["a", RAISED]),
]


@pytest.mark.parametrize("over", [over_http, over_grpc])
@pytest.mark.parametrize(("name", "todo", "want"), CASES, ids=[f"{n}-{'-'.join(o)}" for n, o, _ in CASES])
def test_responses(streams, over, name, todo, want):
    got = over(streams, name, todo)
    assert len(got) == len(want), got
    for g, w in zip(got, want):
        if w is RAISED:
            assert g.startswith(RAISED.format(name)) and "model.py" in g
        else:
            assert g == w
    assert over(streams, name, ("final" if name == "script" else "x",)) is not None  # it goes on


@pytest.mark.parametrize("name", ["generator", "async"])
def test_wrong_yield(streams, name):
    got = over_http(streams, name, ("a", "wrong"))
    assert got[0] == "a" and "must yield a list with an InferenceResponse or None for each of its 1 requests" in got[1]


@pytest.mark.parametrize("name", ["once", "once_async"])
def test_yield_of_a_model_that_is_not_decoupled(streams, name):
    r = generate(streams, name, "a", "b")
    assert r.json == {"TEXT": "a+b", "model_name": name, "model_version": "1"}
    r = generate(streams, name, "twice")
    assert r.status == 400 and "must yield once, it did so more than once" in r.error


def test_generate(streams):
    r = generate(streams, "script", "text:a", "final", id="me", extra=1.5)
    assert r.status == 200 and r.json == {"TEXT": "a", "id": "me", "model_name": "script", "model_version": "1"}
    for ops in (("final",), ("text:a", "text:b", "final"), ("text:a", "error:e", "final")):
        r = generate(streams, "script", *ops)
        assert r.status == 400 and r.error.startswith("generate expects model to produce exactly 1 response"), r
    r = generate(streams, "script", "error:e", "final")
    assert (r.status, r.error) == (400, "e")
    # A second response is enough; the model is told to stop.
    r = generate(streams, "script", "text:a", "text:b", "wait:generate", "final")
    assert r.status == 400
    assert "generate" in generate(streams, "script", "cancelled", "final").json["TEXT"].split(",")


def test_status_is_that_of_the_first_response(streams):
    for ops, status in ((("error:e", "text:a", "final"), 400), (("text:a", "error:e", "final"), 200)):
        r = streams.post("/v2/models/script/generate_stream", {"OPS": ops})
        assert r.status == status and len(events_of(r.body)) == 2


def test_events_come_as_they_are_sent(streams):
    stream = Stream(streams, "script", "text:a", "wait:early", "final").open()
    assert short(stream.event()) == "a"  # the model still runs
    stream.close()
    assert until(lambda: "early" in generate(streams, "script", "cancelled", "final").json.get("TEXT", "").split(","))


def test_after_the_final_flag(streams):
    assert over_http(streams, "script", ("text:a", "final", "try")) == ["a"]
    told = generate(streams, "script", "cancelled", "final").json["TEXT"]
    assert "Unable to send response. Response sender has been closed." in told


def test_connection_is_kept(streams):
    connection = http.client.HTTPConnection("127.0.0.1", streams.http_port, timeout=60)
    sockets = set()
    for ops in (["text:a", "final"], ["error:e", "final"], ["final"]):
        connection.request("POST", "/v2/models/script/generate_stream", json.dumps({"OPS": ops}))
        sockets.add(connection.sock)
        connection.getresponse().read()
    assert len(sockets) == 1
    connection.close()


@pytest.mark.parametrize("name", ["generator", "async"])
def test_generator_is_closed_when_the_client_goes(streams, name):
    stream = Stream(streams, name, "forever").open()
    assert short(stream.event()) == "again"
    stream.close()
    assert until(lambda: over_http(streams, name, ("cancelled",)) == ["closed"])


# Slow clients.

COUNT, SIZE = 1500, 16384  # some 100 MB of tensors


def rss(pid: int) -> int:
    """Bytes; 0 of a process that ends at this moment, such as the one that compiles the worker's files."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) << 10
    return 0


def total_rss(s) -> int:
    return sum(rss(p) for p in (s.process.pid, *descendants(s.process.pid)))


def number_sent(s, key):
    return int(generate(s, "threads", "sent", key).json["TEXT"])


def stands_still(s, key):
    """Waits until the model has begun and has stopped sending: the count is the same over many other requests."""
    same, last = 0, 0
    end = time.monotonic() + 120
    while same < 100 and time.monotonic() < end:
        now = number_sent(s, key)
        same, last = (same + 1, last) if now == last > 0 else (0, now)
    return last


def test_slow_client_over_http(streams):
    before = total_rss(streams)
    stream = Stream(streams, "threads", "talk", "http", COUNT, SIZE, receive_buffer=1 << 16)
    stalled = stands_still(streams, "http")  # by requests to the same model, which go on
    assert 0 < stalled < COUNT // 2
    assert total_rss(streams) - before < 64 << 20
    stream.open()
    for n in range(COUNT):
        event = stream.event()
        assert event["ZEROS"][0] == n and len(event["ZEROS"]) == SIZE
    assert stream.response.readline() == b""
    stream.close()
    assert number_sent(streams, "http") == COUNT


def test_slow_client_over_grpc(streams):
    before = total_rss(streams)
    request = service_pb2.ModelInferRequest(model_name="threads")
    request.inputs.add(name="OPS", datatype="BYTES", shape=[4])
    values = [v.encode() for v in ("talk", "grpc", str(COUNT), str(SIZE))]
    request.raw_input_contents.append(b"".join(len(v).to_bytes(4, "little") + v for v in values))
    with grpc.insecure_channel(streams.grpc, options=[("grpc.http2.bdp_probe", 0)]) as channel:
        more = queue.Queue()
        more.put(request)
        call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(more.get, None))
        stalled = stands_still(streams, "grpc")
        assert 0 < stalled < COUNT // 2
        assert total_rss(streams) - before < 64 << 20
        for n in range(COUNT):
            answer = next(call)
            assert np.frombuffer(answer.infer_response.raw_output_contents[0], np.float32)[0] == n
        more.put(None)
        assert list(call) == []
    assert number_sent(streams, "grpc") == COUNT


@pytest.mark.parametrize("key", ["gone", "gone_early"])
def test_vanished_client(streams, key):
    stream = Stream(streams, "threads", "talk", key, COUNT, SIZE, receive_buffer=1 << 16)
    if key == "gone":
        stands_still(streams, key)
    else:  # of a client that is gone before the model runs the model does not hear
        assert until(lambda: number_sent(streams, key) > 0)
    stream.close()
    assert until(lambda: key in generate(streams, "threads", "cancelled").json["TEXT"].split(","))
    assert number_sent(streams, key) < COUNT


def test_many_slow_clients(streams):
    clients = [Stream(streams, "threads", "talk", f"many{n}", COUNT, SIZE, receive_buffer=1 << 16) for n in range(20)]
    for n in range(20):
        assert 0 < stands_still(streams, f"many{n}") < COUNT // 2
    assert generate(streams, "once", "a").status == 200
    for stream in clients:
        stream.close()
    wanted = {f"many{n}" for n in range(20)}
    assert until(lambda: wanted <= set(generate(streams, "threads", "cancelled").json["TEXT"].split(",")))


# Dying workers.


def test_worker_killed_amid_streams(tmp_path):
    model(tmp_path, "script", SCRIPT)
    with Server(tmp_path) as s:
        stream = Stream(s, "script", "pid", "wait:kill", "final").open()
        pid = int(short(stream.event()))
        os.kill(pid, signal.SIGKILL)
        assert "SIGKILL" in short(stream.event())
        assert stream.response.readline() == b""
        stream.close()
        assert until(lambda: generate(s, "script", "text:a", "final").status == 200)
        assert int(generate(s, "script", "pid", "final").json["TEXT"]) != pid


def test_worker_killed_amid_grpc_streams(tmp_path):
    """The request that was open has its error; the stream goes on with the model's next process."""
    model(tmp_path, "script", SCRIPT)
    with Server(tmp_path) as s, grpcclient.InferenceServerClient(s.grpc) as client:
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))

        def send(request_id, *ops):
            tensor = grpcclient.InferInput("OPS", [len(ops)], "BYTES")
            tensor.set_data_from_numpy(np.array([op.encode() for op in ops], np.object_))
            client.async_stream_infer("script", [tensor], request_id=request_id)

        send("one", "pid", "wait:kill", "final")
        result, error = answers.get(timeout=60)
        assert error is None
        pid = int(result.as_numpy("TEXT")[0])
        os.kill(pid, signal.SIGKILL)
        result, error = answers.get(timeout=60)
        assert result is None and "SIGKILL" in error.message()
        assert until(lambda: s.get("/v2/models/script/ready").status == 200)
        send("again", "pid", "final")
        result, error = answers.get(timeout=60)
        assert error is None and int(result.as_numpy("TEXT")[0]) != pid


def test_worker_killed_while_its_client_does_not_read(tmp_path):
    model(tmp_path, "threads", THREADS)
    with Server(tmp_path) as s:
        stream = Stream(s, "threads", "talk", "x", COUNT, SIZE, receive_buffer=1 << 16)
        stands_still(s, "x")
        pid = int(generate(s, "threads", "pid").json["TEXT"])
        os.kill(pid, signal.SIGKILL)
        assert until(lambda: generate(s, "threads", "sent", "x").status == 200 and number_sent(s, "x") == 0)
        stream.open()
        found = [short(stream.event())]
        while not isinstance(found[-1], str):
            found.append(short(stream.event()))
        assert "SIGKILL" in found[-1]
        stream.close()


# Passes on what another model streams, to a client that may not read.
RELAY = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.relay, args=(request, request.get_response_sender())).start()

    def relay(self, request, sender):
        call = pb_utils.InferenceRequest(
            model_name="threads", requested_output_names=["TEXT", "ZEROS"], inputs=request.inputs()
        )
        for response in call.exec(decoupled=True):
            if response.output_tensors():
                sender.send(response)
        sender.send(flags=FINAL)
"""


def test_slow_client_of_a_model_that_calls_another(tmp_path):
    model(tmp_path, "threads", THREADS)
    model(tmp_path, "relay", RELAY)
    with Server(tmp_path) as s:
        number_sent(s, "x")
        before = total_rss(s)
        stream = Stream(s, "relay", "talk", "x", COUNT, SIZE, receive_buffer=1 << 16)
        assert 0 < stands_still(s, "x") < COUNT // 2
        assert generate(s, "relay", "sent", "x").status == 200
        assert total_rss(s) - before < 64 << 20
        stream.open()
        for n in range(COUNT):
            assert stream.event()["ZEROS"][0] == n
        assert stream.response.readline() == b""  # both models have ended, and counted what they sent
        stream.close()
        assert number_sent(s, "x") == COUNT


def test_vanished_client_over_grpc(streams):
    tensor = grpcclient.InferInput("OPS", [2], "BYTES")
    tensor.set_data_from_numpy(np.array([b"text:a", b"wait:grpc"], np.object_))
    answers = queue.Queue()
    with grpcclient.InferenceServerClient(streams.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("script", [tensor])
        assert answers.get(timeout=60)[1] is None
        client.stop_stream(cancel_requests=True)
    assert until(lambda: "grpc" in generate(streams, "script", "cancelled", "final").json.get("TEXT", "").split(","))
