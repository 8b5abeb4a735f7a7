"""Attacks over gRPC: what a client declares, compresses, does not read, resets, or says too often."""

from __future__ import annotations

import contextlib
import gzip
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LIMIT
from harness import MiB, connect, offer
from tritonclient.grpc import service_pb2

FP32 = "identity_any_fp32"
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
ENHANCE_YOUR_CALM = 0xB
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW = 4


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def setting(number: int, value: int) -> bytes:
    return frame(SETTINGS, payload=struct.pack(">HI", number, value))


def window(stream: int, n: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", n))


def text(s: bytes) -> bytes:
    """A string of HPACK, as it is."""
    n = len(s)
    if n < 127:
        return bytes([n]) + s
    size, n = b"\x7f", n - 127
    while n >= 128:
        size, n = size + bytes([n % 128 + 128]), n // 128
    return size + bytes([n]) + s


def block(path: str, *fields: tuple[str, str], kept: bool = False) -> bytes:
    """The headers of a call; with kept the path is entered into the table of the connection."""
    b = b"\x83\x86" + (b"\x44" if kept else b"\x04") + text(path.encode()) + b"\x0f\x10" + text(b"application/grpc")
    return b + b"".join(b"\x00" + text(k.encode()) + text(v.encode()) for k, v in fields)


def call(stream: int, message: bytes = b"", path: str = INFER, *fields: tuple[str, str], compressed=False) -> bytes:
    """A whole unary call."""
    body = bytes([compressed]) + struct.pack(">I", len(message)) + message
    head = frame(HEADERS, END_HEADERS, stream, block(path, *fields))
    return head + frame(DATA, END_STREAM, stream, body)


def request(n: int, model: str = FP32) -> bytes:
    """A message that infers with n bytes."""
    q = service_pb2.ModelInferRequest(model_name=model)
    q.inputs.add(name="INPUT0", datatype="FP32", shape=[1, n // 4])
    q.raw_input_contents.append(bytes(n))
    return q.SerializeToString()


@contextlib.contextmanager
def clients(server, n: int, *frames: bytes, **options):
    """n connections that have shaken hands."""
    with contextlib.ExitStack() as stack:
        cs = [stack.enter_context(contextlib.closing(connect(server, server.grpc_port, **options))) for _ in range(n)]
        for c in cs:
            assert offer(c, PREFACE + frame(SETTINGS) + b"".join(frames))
        yield cs


def heard(c, most: float = 30) -> bytes:
    """All that the server says until it ends the connection."""
    c.settimeout(most)
    got = b""
    with contextlib.suppress(OSError):
        while part := c.recv(65536):
            got += part
    return got


def frames(data: bytes):
    """The kind, stream and payload of each whole frame, and what is behind it."""
    data = memoryview(data)
    while len(data) >= 9 and len(data) - 9 >= (n := int.from_bytes(data[:3])):
        kind, stream, payload, data = data[3], int.from_bytes(data[5:9]), data[9 : 9 + n], data[9 + n :]
        yield kind, stream, payload, data


def feed(c, stop, messages) -> None:
    """One stream of messages, sent as the server makes room for them."""
    if not offer(c, frame(HEADERS, END_HEADERS, 1, block(STREAM))):
        return
    c.settimeout(0.2)
    room, got = {0: 65535, 1: 65535}, b""
    for message in messages:
        data = b"\0" + struct.pack(">I", len(message)) + message
        while data and not stop.is_set():
            if n := min(16384, len(data), *room.values()):
                if not offer(c, frame(DATA, 0, 1, data[:n])):
                    return
                data, room = data[n:], {k: v - n for k, v in room.items()}
                continue
            with contextlib.suppress(TimeoutError):
                if not (part := c.recv(65536)):
                    return
                got += part
            for kind, stream, payload, rest in frames(got):
                if kind == WINDOW_UPDATE:
                    room[stream] += int.from_bytes(payload)
                elif kind == SETTINGS:
                    for i in range(0, len(payload), 6):
                        if int.from_bytes(payload[i : i + 2]) == INITIAL_WINDOW:
                            room[1] += int.from_bytes(payload[i + 2 : i + 6]) - 65535
                got = bytes(rest)


def pour(c, data: bytes, stop) -> bool:
    """Sends what the server takes, without waiting for long."""
    c.settimeout(0.2)
    for i in range(0, len(data), 16384):
        if stop.is_set() or not offer(c, data[i : i + 16384]):
            return False
    return True


def test_answers_without_a_handler(hostile_grpc):
    """Calls of an unknown method with a long path out of the table: nobody reads the answers."""
    calls = frame(HEADERS, END_HEADERS | END_STREAM, 1, block("/" + "n" * 3900 + "/m", kept=True))
    again = b"\x83\x86\xbe\x0f\x10" + text(b"application/grpc")
    calls += b"".join(frame(HEADERS, END_HEADERS | END_STREAM, 3 + 2 * i, again) for i in range(60_000))

    def attack(server, stop):
        with clients(server, 1, receive_buffer=4096) as cs:
            for c in cs:
                pour(c, calls, stop)
            stop.wait()

    hostile_grpc.withstand(attack, memory=100 * MiB)


@pytest.mark.parametrize("path", [INFER, STREAM])
def test_declared_messages(hostile_grpc, path):
    """Messages of 100 MB each of which the prefix comes."""
    calls = b"".join(
        frame(HEADERS, END_HEADERS, 1 + 2 * i, block(path))
        + frame(DATA, 0, 1 + 2 * i, b"\0" + struct.pack(">I", 100 * MiB))
        for i in range(50)
    )

    def attack(server, stop):
        with clients(server, 10, calls):
            stop.wait()

    hostile_grpc.withstand(attack, memory=64 * MiB)


def test_frames_that_stop(hostile_grpc):
    """Frames of 1 MB of which the first bytes come."""
    calls = frame(HEADERS, END_HEADERS, 1, block(INFER)) + frame(DATA, 0, 1, bytes(MiB))[:9]
    calls += b"\0" + struct.pack(">I", MiB - 5)

    def attack(server, stop):
        with clients(server, 300, calls):
            stop.wait()

    hostile_grpc.withstand(attack, memory=100 * MiB)


@pytest.mark.parametrize("model", [FP32, "no such model"])
def test_bombs(hostile_grpc, model):
    """60 KB each that become 60 MB."""
    bomb = gzip.compress(request(60 * MiB, model), 9)

    def attack(server, stop):
        stream = 1
        with clients(server, 8, window(0, 1 << 30), setting(INITIAL_WINDOW, 1 << 20)) as cs:
            while not stop.is_set() and stream < 200:
                for c in cs:
                    pour(c, call(stream, bomb, INFER, ("grpc-encoding", "gzip"), compressed=True), stop)
                stream += 2
            stop.wait()

    # Of a model that is not there the server may hold what came, 48 MB, and Go's garbage of it. Were they inflated first, eight at a time
    # would take 480 MiB.
    hostile_grpc.withstand(attack, memory=4 * LIMIT if model == FP32 else 96 * MiB)


@pytest.mark.parametrize("path", [INFER, STREAM])
def test_answers_not_taken(hostile_grpc, path):
    """Windows of nothing: answers of half a megabyte wait, each of a call of its own, or those of a connection on one stream."""
    message = request(MiB // 2)

    def attack(server, stop):
        with clients(server, 10, setting(INITIAL_WINDOW, 0)) as cs:
            for c in cs:
                if path == STREAM:
                    feed(c, stop, [message] * 200)
                    continue
                for i in range(100):
                    if not pour(c, call(1 + 2 * i, message), stop):
                        break
            stop.wait()

    # The pages of answers and inputs, and Go's garbage of them.
    hostile_grpc.withstand(attack, memory=4 * LIMIT, seconds=4)


def test_errors_not_taken(hostile_grpc):
    """Windows of nothing, and requests on streams that are errors: their ids, which answers repeat, are 800 MB."""

    def messages():
        for i in range(1000):
            yield service_pb2.ModelInferRequest(model_name="no such model", id=f"{i:0200000}").SerializeToString()

    def attack(server, stop):
        def one(c):
            feed(c, stop, messages())

        with clients(server, 4, setting(INITIAL_WINDOW, 0)) as cs, ThreadPoolExecutor(4) as pool:
            list(pool.map(one, cs))
            stop.wait()

    # The page of answers, and Go's garbage of it.
    hostile_grpc.withstand(attack, memory=3 * LIMIT, seconds=4)


def test_waiting_senders(hostile_grpc):
    """15,000 calls whose answers wait, and updates of the connection's window, byte by byte."""
    message = request(8)

    def attack(server, stop):
        with clients(server, 1, setting(INITIAL_WINDOW, 0)) as (c,):
            pour(c, b"".join(call(1 + 2 * i, message) for i in range(15_000)), stop)
            while not stop.wait(0.01) and pour(c, window(0, 1) * 100, stop):
                pass

    hostile_grpc.withstand(attack, memory=400 * MiB, goroutines=16_000, seconds=3)


def reset(i: int) -> bytes:
    return call(1 + 2 * i, request(8)) + frame(RESET, 0, 1 + 2 * i, struct.pack(">I", 8))


FLOODS = {
    "SETTINGS": lambda i: setting(INITIAL_WINDOW, 65535 + i % 2),
    "PING": lambda i: frame(PING, payload=bytes(8)),
    "PRIORITY": lambda i: frame(PRIORITY, 0, 1, bytes(5)),
    "WINDOW_UPDATE": lambda i: window(0, 1),
    "RST_STREAM": reset,
    "made to reset": lambda i: call(1 + 2 * i, request(8)) + window(1 + 2 * i, 0),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_floods(hostile_grpc, kind):
    """Frames that move nothing: the server ends the connection, and says why."""
    flood = b"".join(FLOODS[kind](i) for i in range(40_000))
    said = []

    def attack(server, stop):
        with clients(server, 2) as cs:
            for c in cs:
                pour(c, flood, stop)
                said.append(heard(c, 5))

    hostile_grpc.withstand(attack, memory=100 * MiB)
    why = [int.from_bytes(p[4:8]) for got in said for kind, _, p, _ in frames(got) if kind == GOAWAY]
    assert ENHANCE_YOUR_CALM in why, (why, said[-1][-200:])
