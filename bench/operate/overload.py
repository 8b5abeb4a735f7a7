"""Overload: ten times the requests that a model can execute, and what becomes of those that are accepted.

    python bench/operate/overload.py

The model takes 20 ms and has two instances, so that it executes 100 requests a second whatever the machine; its queue holds four. Requests
come at random moments (Poisson) at the rate of the capacity, then at ten times that, whether or not earlier ones have been answered. What
the server cannot take is refused at once: 503 with Retry-After over HTTP, UNAVAILABLE with grpc-retry-pushback-ms
over gRPC. The exit status
is 0 when at ten times the capacity the p99 of accepted requests is within three times that at capacity, the executed rate is kept, each
request is answered, and the server's memory stays.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "e2e"), str(ROOT / "bench")]
import grpc.aio  # noqa: E402
import numpy as np  # noqa: E402
import procstat  # noqa: E402
from server import Server  # noqa: E402
from tritonclient.grpc import service_pb2  # noqa: E402

CAPACITY = 100  # requests a second: two instances, 20 ms each
FACTOR = 10
WITHIN = 3.0  # the p99 at FACTOR, as a multiple of that at capacity
MEMORY_MIB = 8  # that the server may gain in the second half of the overload: connections and pools fill in the first
CONFIG = """backend: "sleep"
max_batch_size: 1
input { name: "X" data_type: TYPE_FP32 dims: [ 16 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 16 ] }
parameters { key: "sleep_ms" value { string_value: "20" } }
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { default_queue_policy { max_queue_size: 4 } }
"""


class Outcome:
    def __init__(self):
        self.latencies = []
        self.answers = Counter()
        self.without_hint = 0
        self.late = 0.0  # the most that the generator was behind

    def p(self, q):
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] * 1000


class Http:
    """Requests over kept connections, as many as are needed."""

    def __init__(self, server):
        self.port = server.http_port
        body = json.dumps(
            {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 16], "data": [1.0] * 16}]}
        ).encode()
        self.request = b"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        self.free = []

    async def ask(self):
        """(accepted, the refusal says when to come again)"""
        reader, writer = self.free.pop() if self.free else await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(self.request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        self.free.append((reader, writer))
        status = int(head[9:12])
        if status not in (200, 503):
            raise RuntimeError(head.decode())
        return status == 200, b"retry-after:" in head

    async def close(self):
        for _, writer in self.free:
            writer.close()


class Grpc:
    """Requests over one channel."""

    def __init__(self, server):
        self.channel = grpc.aio.insecure_channel(server.grpc)
        self.call = self.channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=lambda b: b,
            response_deserializer=lambda b: b,
        )
        q = service_pb2.ModelInferRequest(model_name="m")
        x = q.inputs.add(name="X", datatype="FP32")
        x.shape.extend([1, 16])
        q.raw_input_contents.append(np.ones(16, np.float32).tobytes())
        self.request = q.SerializeToString()

    async def ask(self):
        try:
            await self.call(self.request)
        except grpc.aio.AioRpcError as e:
            if e.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            return False, "grpc-retry-pushback-ms" in dict(e.trailing_metadata())
        return True, True

    async def close(self):
        await self.channel.close()


async def offer(client, rate, seconds):
    """Requests at random moments, rate a second; each is waited for."""
    out, tasks = Outcome(), set()

    async def one():
        begin = time.perf_counter()
        try:
            accepted, hint = await asyncio.wait_for(client.ask(), 120)
        except Exception as e:
            out.answers["lost: " + repr(e)[:100]] += 1
            return
        out.answers["accepted" if accepted else "refused"] += 1
        if accepted:
            out.latencies.append(time.perf_counter() - begin)
        elif not hint:
            out.without_hint += 1

    at = begin = time.perf_counter()
    while at < begin + seconds:
        at += random.expovariate(rate)
        wait = at - time.perf_counter()
        if wait > 0.001:
            await asyncio.sleep(wait)
        out.late = max(out.late, -wait)
        task = asyncio.ensure_future(one())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return out


async def measure(server, client, seconds):
    await offer(client, CAPACITY, 2)  # connections and pools
    before = procstat.rss_bytes(server.process.pid)
    calm = await offer(client, CAPACITY, seconds)
    first = await offer(client, FACTOR * CAPACITY, seconds / 2)
    middle = procstat.rss_bytes(server.process.pid)
    second = await offer(client, FACTOR * CAPACITY, seconds / 2)
    after = procstat.rss_bytes(server.process.pid)
    await client.close()
    second.latencies += first.latencies
    second.answers += first.answers
    second.without_hint += first.without_hint
    second.late = max(first.late, second.late)
    return calm, second, (before, middle, after)


def report(name, calm, storm, memory, seconds):
    before, middle, after = (m / 2**20 for m in memory)
    faults = []
    for label, out in ((f"{name}, at capacity", calm), (f"{name}, {FACTOR} times", storm)):
        accepted, refused = out.answers["accepted"], out.answers["refused"]
        print(
            f"{label:22} accepted {accepted / seconds:6.1f}/s  refused {refused / seconds:6.1f}/s"
            f"  p50 {out.p(0.5):6.1f} ms  p99 {out.p(0.99):6.1f} ms  generator at most {out.late * 1000:.0f} ms late"
        )
        faults += [f"{label}: {n} requests {what}" for what, n in out.answers.items() if what.startswith("lost")]
        if out.without_hint:
            faults.append(f"{label}: {out.without_hint} refusals do not say when to come again")
    ratio = storm.p(0.99) / calm.p(0.99)
    print(f"{name}: p99 ratio {ratio:.2f}; memory {before:.1f} MiB before, {middle:.1f} half-way, {after:.1f} after")
    if ratio > WITHIN:
        faults.append(f"{name}: the p99 of accepted requests is {ratio:.2f} times that at capacity")
    if storm.answers["accepted"] < 0.9 * CAPACITY * seconds:
        faults.append(f"{name}: only {storm.answers['accepted'] / seconds:.1f} requests/s were executed")
    if after - middle > MEMORY_MIB:
        faults.append(f"{name}: memory grew by {after - middle:.1f} MiB")
    return faults


def run(seconds):
    faults = []
    with tempfile.TemporaryDirectory(prefix="neso-overload-") as top:
        (Path(top) / "models" / "m" / "1").mkdir(parents=True)
        (Path(top) / "models" / "m" / "config.pbtxt").write_text(CONFIG)
        for name, form in (("HTTP", Http), ("gRPC", Grpc)):
            with Server(Path(top) / "models", log=Path(top) / "log") as server:

                async def go(server=server, form=form):
                    return await measure(server, form(server), seconds)

                calm, storm, memory = asyncio.run(go())
                faults += report(name, calm, storm, memory, seconds)
    for text in faults:
        print("FAULT", text)
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of each rate; default 20")
    sys.exit(run(parser.parse_args().seconds))
