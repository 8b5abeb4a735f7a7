"""Attacks over HTTP: what a client declares, sends slowly, compresses, writes as JSON or does not read."""

from __future__ import annotations

import gzip
import http.client
import json
import select
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import LIMIT
from harness import MiB, answer, connect, connections, head, offer
from repository import until

FP32 = "identity_any_fp32"
INFER = f"/v2/models/{FP32}/infer"


def binary(n: int, model: str = FP32) -> tuple[bytes, list[str]]:
    """The JSON of a request with a binary tensor of n bytes, which is given back in binary, and the fields of its head."""
    text = json.dumps(
        {
            "inputs": [
                {
                    "name": "INPUT0",
                    "datatype": "FP32",
                    "shape": [1, n // 4],
                    "parameters": {"binary_data_size": n},
                }
            ],
            "outputs": [{"name": "OUTPUT0", "parameters": {"binary_data": True}}],
        }
    ).encode()
    return text, [f"Inference-Header-Content-Length: {len(text)}", f"Content-Length: {len(text) + n}"]


def at_once(n, one, stop=None):
    """Runs one(i) for n attackers at a time; with stop, those that have come through begin again until it is set."""

    def again(i):
        one(i)
        while stop is not None and not stop.is_set():
            one(i)

    with ThreadPoolExecutor(n) as pool:
        list(pool.map(again, range(n)))


def post(server, path, body, **headers) -> tuple[int, bytes]:
    """One request on its own connection; status 0 when the server has ended it."""
    c = http.client.HTTPConnection(server.http, timeout=30)
    try:
        c.request("POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        r = c.getresponse()
        return r.status, r.read()
    except OSError:
        return 0, b""
    finally:
        c.close()


@pytest.mark.parametrize("model", [FP32, "python_any_fp32"])
def test_declared_lengths(hostile, model):
    """3 GB are declared and 2 MiB of each hundred MB sent: what is held is what has come, whoever has the memory."""
    text, fields = binary(100 * MiB, model)

    def attack(server, stop):
        with connections(server, 30) as cs:
            for c in cs:
                assert offer(c, head(f"/v2/models/{model}/infer", *fields) + text + bytes(2 * MiB))
            stop.wait()

    # A model in a worker keeps the places it has had, which have descriptors.
    hostile.withstand(attack, memory=200 * MiB, left=40)


def test_lengths_that_never_fit(target):
    text, fields = binary(6_300_000_000)
    with connections(target, 1) as (c,):
        assert offer(c, head(INFER, *fields) + text + bytes(2 * MiB))
        got = answer(c)
    assert got.startswith(b"HTTP/1.1 503") and b"--max-queued-bytes" in got and b"Retry-After: 1" in got, got[:500]


def test_heads_alone(hostile):
    """A head that declares is free for the client, and for the server."""
    text, fields = binary(MiB)

    def attack(server, stop):
        with connections(server, 500) as cs:
            for i, c in enumerate(cs):
                offer(c, head(INFER, *fields) + (text if i % 2 else b""))
            stop.wait()

    hostile.withstand(attack, memory=64 * MiB)


def test_slow_heads_and_bodies(hostile):
    """Slowloris: parts of heads, and bodies that come byte by byte."""
    text, fields = binary(MiB)
    small, few = binary(60_000)

    def attack(server, stop):
        with connections(server, 300) as cs:
            for i, c in enumerate(cs):
                offer(c, [head(INFER)[:-2], head(INFER, *fields) + text, head(INFER, *few) + small][i % 3])
            while not stop.wait(0.05):
                for i, c in enumerate(cs):
                    offer(c, b"X-A: b\r\n" if i % 3 == 0 else b"a")

    hostile.withstand(attack, memory=64 * MiB)


def test_who_stands_still_gives_way(target):
    """Nine tenths of the memory are taken by bodies that have ceased to come: a client that needs it has it soon."""
    n = 38 * MiB
    text, fields = binary(40 * MiB)
    large = head(INFER, *fields) + text
    with connections(target, 3) as cs:
        for c in cs:
            assert offer(c, large + bytes(n))

        def served():
            status, _ = post(
                target,
                INFER,
                text + bytes(40 * MiB),
                Inference_Header_Content_Length=str(len(text)),
            )
            assert status in (200, 503), status
            return status == 200

        assert until(served)
        told, _, _ = select.select(cs, [], [], 60)  # of those that have not been cut off nothing comes
        ended = [answer(c) for c in told]
    assert any(b"503" in e and b"too slowly" in e for e in ended), [e[:200] for e in ended]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("path", [INFER, "/v2/repository/models/x/load"])
def test_bombs(hostile, encoding, path):
    """60 MB each out of 60 KB, twenty at a time."""
    plain = b" " * 60_000_000
    bomb = gzip.compress(plain, 9) if encoding == "gzip" else zlib.compress(plain, 9)

    def attack(server, stop):
        def one(_):
            status, text = post(server, path, bomb, Content_Encoding=encoding)
            assert status in (0, 400, 503), (status, text)

        at_once(20, one, stop)

    hostile.withstand(attack, memory=LIMIT + 96 * MiB)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_bombs_for_nobody(hostile, encoding):
    """There is no such model: nothing is inflated."""
    plain = b" " * 60_000_000
    bomb = gzip.compress(plain, 9) if encoding == "gzip" else zlib.compress(plain, 9)

    def attack(server, stop):
        def one(_):
            status, text = post(server, "/v2/models/unknown/infer", bomb, Content_Encoding=encoding)
            assert status == 404, (status, text)
            stop.wait(0.01)

        at_once(8, one, stop)

    hostile.withstand(attack, memory=24 * MiB)


def json_bombs():
    """Texts of a few MB that would become several times larger."""
    fp64 = '{"inputs":[{"name":"INPUT0","datatype":"FP64","shape":[1,%d],"data":[%s]}]}'
    yield "numbers", "identity_any_fp64", fp64 % (4_000_000, "0," * 3_999_999 + "0")
    yield (
        "dimensions",
        FP32,
        '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[%s],"data":[]}]}' % ("1," * 4_000_000 + "1"),
    )
    one = '{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}'
    yield "inputs", FP32, '{"inputs":[' + ",".join([one] * 130_000) + "]}"
    strings = '{"inputs":[{"name":"INPUT0","datatype":"BYTES","shape":[1,%d],"data":[%s]}]}'
    yield "strings", "identity_any_bytes", strings % (2_600_000, ",".join(['""'] * 2_600_000))
    yield "parameters", FP32, '{"inputs":[],"parameters":{' + ",".join(f'"{i}":1' for i in range(700_000)) + "}}"
    yield "nesting", FP32, '{"a":' + "[" * 8_000_000


BOMBS = {name: (model, text.encode(), b"") for name, model, text in json_bombs()}
# The JSON is as much work with the bytes of another input behind it.
BOMBS["numbers before a tail"] = (
    "identity_any_fp64",
    BOMBS["numbers"][1][:-2]
    + b',{"name":"X","datatype":"FP64","shape":[1,131072],"parameters":{"binary_data_size":1048576}}]}',
    bytes(MiB),
)


@pytest.mark.parametrize("name", BOMBS)
def test_json_bombs(hostile, name):
    model, text, tail = BOMBS[name]
    headers = {"Inference_Header_Content_Length": str(len(text))} if tail else {}

    def attack(server, stop):
        def one(_):
            status, reply = post(server, f"/v2/models/{model}/infer", text + tail, **headers)
            assert status in (0, 200, 400, 503), (status, reply[:500])

        at_once(6, one, stop)

    # Twice what is counted, and what the collector had not come to: at most 110 MiB of it was seen, beside other tests.
    hostile.withstand(attack, memory=2 * LIMIT + 128 * MiB)


def test_unread_answers(hostile):
    """480 MiB of answers that nobody reads: the ledger's share of them is kept, the others are refused."""
    n = 8 * MiB
    text, fields = binary(n)
    whole = head(INFER, *fields) + text + bytes(n)

    def attack(server, stop):
        with connections(server, 60, receive_buffer=4096) as cs:
            for c in cs:
                if stop.is_set():
                    return
                offer(c, whole)
            stop.wait()

    hostile.withstand(attack, memory=2 * LIMIT + 64 * MiB, seconds=2)


def test_small_unread_answers(hostile):
    """Requests sent one after the other whose answers nobody reads: a socket takes some, and then nothing is held."""
    text, fields = binary(16 << 10)
    whole = head(INFER, *fields) + text + bytes(16 << 10)

    def attack(server, stop):
        with connections(server, 20, receive_buffer=4096) as cs:
            for c in cs:
                c.settimeout(0.05)
                for _ in range(1000):
                    if stop.is_set() or not offer(c, whole):
                        break
            stop.wait()

    hostile.withstand(attack, memory=64 * MiB)


def test_unread_events(hostile):
    """Events of generate_stream that nobody reads."""
    text = json.dumps({"INPUT0": "a" * (20 << 20)}).encode()
    whole = head("/v2/models/identity_any_bytes/generate_stream", f"Content-Length: {len(text)}") + text

    def attack(server, stop):
        with connections(server, 16, receive_buffer=4096) as cs:
            for c in cs:
                if stop.is_set():
                    return
                offer(c, whole)
            stop.wait()

    hostile.withstand(attack, memory=3 * LIMIT, seconds=2)


def test_endless_chunks(hostile):
    """Bodies of unknown length: 320 MiB are offered."""
    chunk = b"%x\r\n" % MiB + b" " * MiB + b"\r\n"

    def attack(server, stop):
        def one(_):
            c = connect(server)
            with c:
                offer(c, head(INFER, "Transfer-Encoding: chunked"))
                for _ in range(8):
                    if stop.is_set() or not offer(c, chunk):
                        return
                stop.wait()

        at_once(40, one)

    hostile.withstand(attack, memory=LIMIT + 96 * MiB, seconds=3)


def test_many_connections(hostile):
    def attack(server, stop):
        with connections(server, 800) as cs:
            for i, c in enumerate(cs):
                offer(c, [b"", b"P", head(INFER, "Content-Length: 10")][i % 3])
            stop.wait()

    hostile.withstand(attack, memory=64 * MiB, goroutines=3000)


def test_answers_are_cut_off_for_others(target):
    """An answer that stands still gives way to those of other clients, which then come whole."""
    n = 60 * MiB
    text, fields = binary(n)
    whole = head(INFER, *fields) + text + bytes(n)
    with connections(target, 2, receive_buffer=4096) as cs:
        for c in cs:
            assert offer(c, whole)
        x = np.arange(n // 4, dtype=np.float32).tobytes()

        def served():
            status, got = post(target, INFER, text + x, Inference_Header_Content_Length=str(len(text)))
            assert status in (200, 503), (status, got[:300])
            return status == 200 and got.endswith(x)

        assert until(served)


def test_polite_uploads_take_their_time(target):
    """A slow body is no attack: a tenth of a second between its parts, and it is served."""
    text, fields = binary(2 * MiB)
    with connections(target, 1) as (c,):
        assert offer(c, head(INFER, *fields) + text)
        for _ in range(8):
            time.sleep(0.1)  # the client, not the test, is slow
            assert offer(c, bytes(256 << 10))
        c.settimeout(30)
        assert c.recv(15) == b"HTTP/1.1 200 OK"
