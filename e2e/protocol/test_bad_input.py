"""What a careless or hostile client may send. Each time the server answers clearly, stays up, and others are served."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import zlib

import numpy as np
import pytest
import tritonclient.grpc as tgrpc
from forms import FORMS
from server import MODELS, Server
from tritonclient.grpc import service_pb2, service_pb2_grpc

FP32 = "identity_any_fp32"
GOOD = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}


@pytest.fixture(autouse=True)
def still_serves(server):
    yield
    r = server.infer(FP32, GOOD)
    assert r.status == 200 and r.json["outputs"][0]["data"] == [1.0, 2.0], r
    r = server.infer("python_any_fp32", GOOD)
    assert r.status == 200, r


def tensor(**kw):
    return {"inputs": [{**GOOD["inputs"][0], **kw}]}


BODIES = {
    "empty": (b"", 400, ""),
    "not JSON": (b"hello", 400, "failed to parse the request JSON buffer"),
    "cut off": (b'{"inputs":[{"name":"INPUT0"', 400, "failed to parse the request JSON buffer"),
    "array": (b"[]", 400, ""),
    "deep": (b"[" * 200_000, 400, ""),
    "deep data": (
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,1],"data":'
        + b"[" * 101
        + b"1"
        + b"]" * 101
        + b"}]}",
        400,
        "nesting",
    ),
    "no inputs": (b"{}", 400, "inputs"),
    "inputs of another type": (b'{"inputs":5}', 400, ""),
    "no shape": (json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "data": [1]}]}).encode(), 400, "shape"),
    "no data": (
        json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1]}]}).encode(),
        400,
        "must set only one of the following fields",
    ),
    "negative shape": (json.dumps(tensor(shape=[-1, 2])).encode(), 400, "shape"),
    "shape too large for the data": (json.dumps(tensor(shape=[2**40, 1])).encode(), 400, ""),
    "overflowing shape": (json.dumps(tensor(shape=[2**62, 2**62])).encode(), 400, ""),
    "wrapping shape": (json.dumps(tensor(shape=[6148914691236517206, 3])).encode(), 400, ""),
    "shape of floats": (json.dumps(tensor(shape=[1.5, 2])).encode(), 400, "shape"),
    "too few elements": (json.dumps(tensor(data=[1])).encode(), 400, "hape does not match"),
    "too many elements": (json.dumps(tensor(data=[1, 2, 3])).encode(), 400, "Shape does not match"),
    "strings for numbers": (json.dumps(tensor(data=["a", "b"])).encode(), 400, ""),
    "unknown datatype": (json.dumps(tensor(datatype="FP7")).encode(), 400, "invalid datatype for input INPUT0"),
    "duplicate input": (json.dumps({"inputs": GOOD["inputs"] * 2}).encode(), 400, "already exists"),
    "reserved parameter": (json.dumps({**GOOD, "parameters": {"triton_x": 1}}).encode(), 400, "reserved"),
    "trailing garbage": (json.dumps(GOOD).encode() + b"x", 400, ""),
    "bad UTF-8": (b'{"inputs":[{"name":"\xff\xfe"}]}', 400, ""),
    "lone surrogate": (b'{"id":"\\ud800","inputs":[]}', 400, ""),
}


@pytest.mark.parametrize("case", BODIES)
def test_json_bodies(server, case):
    body, status, text = BODIES[case]
    r = server.infer(FP32, body)
    assert r.status == status and text in r.error, r


HEADERS = {
    "not a number": {"Inference-Header-Content-Length": "x"},
    "longer than the body": {"Inference-Header-Content-Length": "999999"},
    "negative": {"Inference-Header-Content-Length": "-1"},
    "beyond int32": {"Inference-Header-Content-Length": "99999999999"},
    "cuts the JSON": {"Inference-Header-Content-Length": "10"},
    "unknown compression": {"Content-Encoding": "br"},
    "not compressed": {"Content-Encoding": "gzip"},
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers(server, case):
    r = server.infer(FP32, GOOD, HEADERS[case])
    assert r.status == (501 if case == "unknown compression" else 400) and r.error, r


def binary(head: dict, tail: bytes):
    text = json.dumps(head).encode()
    return text + tail, {"Inference-Header-Content-Length": str(len(text))}


def test_binary_sizes(server):
    def ask(size, tail, shape=(1, 2)):
        head = {
            "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": size}}]
        }
        return server.infer(FP32, *binary(head, tail))

    assert ask(8, b"\0" * 8).status == 200
    assert "expecting 4 additional bytes" in ask(8, b"\0" * 4).error
    assert "unexpected additional input data" in ask(8, b"\0" * 12).error
    for size in (4, 12, 0):
        r = ask(size, b"\0" * size)
        assert r.status == 400 and "expected 8" in r.error.lower(), r
    for size in (-1, 2**63, 2**31, "8", 1.5):
        assert ask(size, b"\0" * 8).status == 400
    assert ask(2**40, b"\0" * 8, (2**38, 1)).status == 400


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<I", 5) + b"ab",
        struct.pack("<I", 2**32 - 1),
        b"\x01\0",
        struct.pack("<I", 1) + b"a",
        struct.pack("<I", 0) * 3,
    ],
    ids=["short element", "huge length", "cut length", "one element of two", "three elements of two"],
)
def test_bytes_elements(server, data):
    head = {
        "inputs": [
            {"name": "INPUT0", "datatype": "BYTES", "shape": [1, 2], "parameters": {"binary_data_size": len(data)}}
        ]
    }
    r = server.infer("identity_any_bytes", *binary(head, data))
    assert r.status == 400 and r.error, r
    request = service_pb2.ModelInferRequest(model_name="python_any_bytes", raw_input_contents=[data])
    request.inputs.add(name="INPUT0", datatype="BYTES", shape=[1, 2])
    with tgrpc.grpc.insecure_channel(server.grpc) as channel, pytest.raises(tgrpc.grpc.RpcError) as e:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=120)
    assert e.value.code() == tgrpc.grpc.StatusCode.INVALID_ARGUMENT, e.value


def test_decompression_bombs(tmp_path):
    with Server(MODELS, "--http-max-input-size=1000000", "--model-control-mode=explicit", f"--load-model={FP32}") as s:
        for encoding, body in (
            ("gzip", gzip.compress(b" " * 50_000_000)),
            ("deflate", zlib.compress(b" " * 50_000_000)),
        ):
            r = s.infer(FP32, body, {"Content-Encoding": encoding})
            assert (
                r.status == 400
                and "Decompressed data size exceeds the maximum allowed value of 1000000 bytes" in r.error
            ), r
        r = s.infer(FP32, b" " * 1_000_001)
        assert r.status == 400 and "exceeds the maximum allowed" in r.error, r
        for encoding, compress in (("gzip", gzip.compress), ("deflate", zlib.compress)):
            assert s.infer(FP32, compress(json.dumps(GOOD).encode()), {"Content-Encoding": encoding}).status == 200
            assert s.infer(FP32, compress(json.dumps(GOOD).encode())[:-9], {"Content-Encoding": encoding}).status == 400


def raw(server, data: bytes, half_close=False, timeout=120) -> bytes:
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=timeout) as c:
        c.sendall(data)
        if half_close:
            c.shutdown(socket.SHUT_WR)
        got = b""
        while chunk := c.recv(65536):
            got += chunk
        return got


@pytest.mark.parametrize("endpoint", ["infer", "generate"])
def test_ids_that_are_no_text(server, endpoint):
    """An id of invalid UTF-8 is given back as text, or nobody could parse the answer."""
    bodies = {
        "infer": b'{"id":"a\xff\xc3","inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,1],"data":[1]}]}',
        "generate": b'{"id":"a\xff\xc3","INPUT0":1}',
    }
    r = server.post(f"/v2/models/identity_any_fp32/{endpoint}", bodies[endpoint])
    assert r.status == 200, r
    assert json.loads(r.body.decode("utf-8"))["id"] == "a\ufffd", r


def test_half_closed_in_the_body(server):
    got = raw(
        server,
        b"POST /v2/models/" + FP32.encode() + b"/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
        half_close=True,
    )
    assert got == b"" or b" 400 " in got.split(b"\r\n")[0], got


def test_half_closed_after_the_request(server):
    body = json.dumps(GOOD).encode()
    head = b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (
        FP32.encode(),
        len(body),
    )
    got = raw(server, head + body)
    assert b" 200 " in got.split(b"\r\n")[0], got


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 1000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"G" * 200_000,
    ],
    ids=["zeros", "version", "negative length", "endless line"],
)
def test_what_is_not_http(server, data):
    try:
        got = raw(server, data, half_close=True)
    except OSError:  # the server has closed the connection before all was sent
        return
    assert b" 200 " not in got.split(b"\r\n")[0]


def test_pipelined_behind_an_error(server):
    got = raw(
        server,
        b"GET /nope HTTP/1.1\r\nHost: x\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
    assert got.count(b"HTTP/1.1 404") == 1 and got.count(b"HTTP/1.1 200") == 1, got


def test_slow_clients_are_cut_off(tmp_path):
    with Server(
        MODELS,
        "--http-header-timeout-secs=1",
        "--http-read-timeout-secs=2",
        "--model-control-mode=explicit",
        f"--load-model={FP32}",
    ) as s:
        assert b" 200 " not in raw(s, b"POST /v2/models/x/infer HTTP/1.1\r\nHost")  # returns since the server closes
        got = raw(
            s, b"POST /v2/models/" + FP32.encode() + b"/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
        )
        assert b" 200 " not in got, got


def test_grpc_garbage(server):
    with tgrpc.grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        for body in (b"\xff" * 50, b"\x0a\xff\xff\xff\xff\x0f", b"\x3a\x05ab", b""):
            with pytest.raises(tgrpc.grpc.RpcError) as e:
                call(body, timeout=120)
            assert e.value.code() in (
                tgrpc.grpc.StatusCode.INTERNAL,
                tgrpc.grpc.StatusCode.INVALID_ARGUMENT,
                tgrpc.grpc.StatusCode.NOT_FOUND,
            ), e.value


@pytest.mark.parametrize("shape", [[2**62, 2**62], [-1, 2], [2**40, 1], [6148914691236517206, 3]], ids=str)
def test_grpc_shapes(server, shape):
    request = service_pb2.ModelInferRequest(model_name="python_any_fp32", raw_input_contents=[b"\0" * 8])
    request.inputs.add(name="INPUT0", datatype="FP32", shape=shape)
    with tgrpc.grpc.insecure_channel(server.grpc) as channel, pytest.raises(tgrpc.grpc.RpcError) as e:
        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=120)
    assert e.value.code() == tgrpc.grpc.StatusCode.INVALID_ARGUMENT, e.value


def test_bad_requests_beside_good_ones(server):
    """A fault of one client never shows in the answers of another."""
    stop, problems = threading.Event(), []

    def vandal(seed):
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            body = bytearray(json.dumps(GOOD).encode())
            for _ in range(3):
                body[rng.integers(len(body))] = rng.integers(256)
            try:
                server.infer(FP32, bytes(body))
            except OSError:
                pass

    vandals = [threading.Thread(target=vandal, args=(i,)) for i in range(2)]
    for v in vandals:
        v.start()
    for i in range(150):
        x = np.full((1, 3), i, np.float32)
        for name in ("json", "binary", "grpc"):
            got = FORMS[name](server, FP32, {"INPUT0": x})["OUTPUT0"]
            if not np.array_equal(got, x):
                problems.append((name, i, got))
    stop.set()
    for v in vandals:
        v.join()
    assert not problems


@pytest.mark.parametrize(("method", "path"), [("GET", "/"), ("POST", f"/v2/models/{FP32}/infer"), ("PUT", "/v2")])
def test_http_on_the_port_of_grpc(server, method, path):
    r = server.request(method, path, GOOD if method == "POST" else None, port=server.grpc_port)
    assert r.status == 400 and "this is the gRPC port" in r.error, r
    assert f"HTTP is served at port {server.http_port}" in r.error, r


def test_http2_on_the_port_of_http(server):
    """As gRPC and curl --http2-prior-knowledge begin: with words, and empty settings."""
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=60) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        answer = s.makefile("rb").read().decode()
    assert answer.startswith("HTTP/1.1 400 ") and "this is the HTTP port" in answer, answer
    assert f"gRPC is served at port {server.grpc_port}" in answer
    with tgrpc.InferenceServerClient(server.http) as client, pytest.raises(Exception, match="UNAVAILABLE"):
        client.is_server_live(client_timeout=60)
