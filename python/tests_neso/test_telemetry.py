"""Spans of OpenTelemetry: a tracer gives each request one, below the client's."""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from conftest import config

from neso import ModelClient, ModelConfig, Request, Tensor, Triton, batch
from neso.proxy import telemetry

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is in scripts/requirements-tests.txt")

X = [Tensor((-1,), np.float32, "x")]
Y = [Tensor((-1,), np.float32, "y")]
ONE = np.ones(1, np.float32)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch):
    """The spans that ended, with a tracer that keeps them."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", None)
    telemetry.set_telemetry_tracer(provider.get_tracer("test"))
    return exporter.get_finished_spans


def function(requests):
    for request in requests:
        with request.traced_span("inside"):
            pass
    return [{"y": 2 * r["x"]} for r in requests]


async def coroutine(requests):
    await asyncio.sleep(0)
    return function(requests)


def generator(requests):
    yield function(requests)


async def async_generator(requests):
    yield function(requests)


@pytest.mark.parametrize("form", [function, coroutine, generator, async_generator], ids=lambda f: f.__name__)
@pytest.mark.parametrize("scheme, header", [("http", "traceparent"), ("http", "TraceParent"), ("grpc", "traceparent")])
def test_requests_have_spans(spans, form, scheme, header):
    patterns = {"http_header_forward_pattern": "traceparent", "grpc_header_forward_pattern": "traceparent"}
    with Triton(config=config(**patterns)) as triton:
        triton.bind("m", form, X, Y)
        with ModelClient(triton.url if scheme == "http" else triton.grpc_url, "m") as client:
            client.infer_sample(ONE, headers={header: PARENT})
    inner, outer = spans()
    assert (inner.name, outer.name) == ("inside", "proxy_inference_callable")
    assert f"{outer.context.trace_id:032x}" == TRACE
    assert f"{outer.parent.span_id:016x}" == PARENT.split("-")[2]
    assert inner.parent.span_id == outer.context.span_id
    assert outer.status.is_ok


@pytest.mark.parametrize("form", [function, coroutine], ids=lambda f: f.__name__)
def test_the_servers_span_is_above(spans, form):
    """A server that traces to a collector is between the client and the callable."""
    exported = queue.Queue()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

            request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for scope in request.resource_spans[0].scope_spans:
                for span in scope.spans:
                    exported.put(span)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        entries = [
            "mode=opentelemetry",
            f"opentelemetry,url=http://127.0.0.1:{server.server_port}/v1/traces",
            "opentelemetry,bsp_schedule_delay=50",
            "level=TIMESTAMPS",
            "rate=1",
        ]
        with Triton(config=config(trace_config=entries)) as triton:
            triton.bind("m", form, X, Y)
            with ModelClient(triton.url, "m") as client:
                client.infer_sample(ONE, headers={"traceparent": PARENT})
                servers = {span.name: span for span in (exported.get(timeout=60) for _ in range(3))}
        server.shutdown()
    _, outer = spans()
    assert set(servers) == {"InferRequest", "m", "compute"}
    assert servers["m"].trace_id.hex() == TRACE and servers["InferRequest"].parent_span_id.hex() == PARENT.split("-")[2]
    assert f"{outer.context.trace_id:032x}" == TRACE
    assert outer.parent.span_id == int(servers["m"].span_id.hex(), 16)


def test_a_servers_mark_is_no_parent(spans, tmp_path):
    """A trace that goes into Triton's file has no W3C context."""
    entries = ["mode=triton", f"triton,file={tmp_path / 't.json'}", "level=TIMESTAMPS", "rate=1"]
    with Triton(config=config(trace_config=entries)) as triton:
        triton.bind("m", function, X, Y)
        with ModelClient(triton.url, "m") as client:
            client.infer_sample(ONE)
    assert spans()[1].parent is None
    assert '"model_name":"m"' in (tmp_path / "t.json").read_text()


def in_a_batch(form):
    """A callable under @batch that makes a span by OpenTelemetry's own means."""

    def double(x):
        from opentelemetry import trace

        with telemetry.get_telemetry_tracer().start_as_current_span("mine"):
            assert trace.get_current_span().get_span_context().is_valid
            return {"y": 2 * x}

    async def later(x):
        await asyncio.sleep(0)
        return double(x)

    def steps(x):
        yield double(x)

    async def later_steps(x):
        yield double(x)

    return batch({"function": double, "coroutine": later, "generator": steps, "async_generator": later_steps}[form])


@pytest.mark.parametrize("form", ["function", "coroutine", "generator", "async_generator"])
def test_a_span_of_a_batch_is_below_its_request(spans, form):
    with Triton(config=config(http_header_forward_pattern="traceparent")) as triton:
        triton.bind("m", in_a_batch(form), X, Y, config=ModelConfig(max_batch_size=8))
        with ModelClient(triton.url, "m") as client:
            assert client.infer_sample(ONE, headers={"traceparent": PARENT})["y"].tolist() == [2.0]
    mine, batched, outer = spans()
    assert [s.name for s in (mine, batched, outer)] == [
        "mine",
        "pytriton-batch-decorator-span",
        "proxy_inference_callable",
    ]
    assert mine.parent.span_id == batched.context.span_id
    assert batched.parent.span_id == outer.context.span_id
    assert {f"{s.context.trace_id:032x}" for s in (mine, batched, outer)} == {TRACE}
    assert batched.status.is_ok


def test_requests_of_a_batch_have_a_span_each(spans):
    """The batch is one call: what it does belongs to the first request, which names the others."""
    requests = [Request({"x": np.ones((rows, 1), np.float32)}) for rows in (1, 2, 3)]
    telemetry.start_request_spans(requests)
    answers = in_a_batch("function")(requests)
    telemetry.end_request_spans(requests)
    assert [len(answer["y"]) for answer in answers] == [1, 2, 3]
    by_name = {}
    for span in spans():
        by_name.setdefault(span.name, []).append(span)
    batched = {s.parent.span_id: s for s in by_name["pytriton-batch-decorator-span"]}
    above = [request.span.context.span_id for request in requests]
    assert sorted(batched) == sorted(above)
    first = batched[above[0]]
    assert by_name["mine"][0].parent.span_id == first.context.span_id
    assert {link.context.span_id for link in first.links} == {batched[i].context.span_id for i in above[1:]}


def test_a_batch_that_fails_is_marked(spans):
    @batch
    def fail(x):
        raise ValueError("no")

    with Triton(config=config()) as triton:
        triton.bind("m", fail, X, Y)
        with ModelClient(triton.url, "m") as client, pytest.raises(Exception, match="ValueError: no"):
            client.infer_sample(ONE)
    assert [(s.name, s.status.description) for s in spans()] == [
        ("pytriton-batch-decorator-span", "no"),
        ("proxy_inference_callable", "no"),
    ]


def test_what_fails_is_marked(spans):
    def fail(requests):
        raise ValueError("no")

    with Triton(config=config()) as triton:
        triton.bind("m", fail, X, Y)
        with ModelClient(triton.url, "m") as client, pytest.raises(Exception, match="ValueError: no"):
            client.infer_sample(ONE)
    (span,) = spans()
    assert not span.status.is_ok
    assert span.status.description == "no"


def test_helpers(spans):
    with pytest.raises(ValueError, match="already set"):
        telemetry.set_telemetry_tracer(object())
    first = telemetry.start_span_from_remote({"traceparent": PARENT}, "first")
    second = telemetry.start_span_from_span(first, "second")
    assert telemetry.get_span_dict(second)["traceparent"].split("-")[1] == TRACE
    telemetry.end_span(second, RuntimeError("why"))
    telemetry.end_span(first)
    assert [s.name for s in spans()] == ["second", "first"]


def test_trace_config_is_parsed():
    url, resource = telemetry.parse_trace_config(
        ["mode=opentelemetry", "opentelemetry,url=http://h/v1/traces", "opentelemetry,resource=service.name=s,a=b"]
    )
    assert url == "http://h/v1/traces"
    assert (resource.attributes["service.name"], resource.attributes["a"]) == ("s", "b")
    with pytest.raises(ValueError, match="Only opentelemetry mode"):
        telemetry.parse_trace_config(["mode=triton"])
    with pytest.raises(ValueError, match="url is required"):
        telemetry.parse_trace_config(["mode=opentelemetry"])


PROGRAM = """
import numpy as np
from neso import ModelClient, Tensor, Triton, TritonConfig
from opentelemetry import trace
mine = trace.get_tracer("mine")
def infer(requests):
    for request in requests:
        with trace.use_span(request.span, end_on_exit=False), mine.start_as_current_span("own_part"):
            pass
    return [{{"y": r["x"]}} for r in requests]
entries = ["mode=opentelemetry", "opentelemetry,url={url}", "opentelemetry,resource=service.name=asked"]
ends = {{"http_address": "127.0.0.1", "grpc_address": "127.0.0.1", "metrics_address": "127.0.0.1"}}
config = TritonConfig(http_port=0, grpc_port=0, metrics_port=0, **ends{more})
with Triton(config=config) as triton:
    triton.bind("m", infer, [Tensor((-1,), np.float32, "x")],
                [Tensor((-1,), np.float32, "y")]{bind})
    with ModelClient(triton.url, "m") as client:
        client.infer_sample(np.ones(1, np.float32))
    print(triton._models["m", 1].server_config["parameters"]["trace-config"]["string_value"])
"""


@pytest.mark.parametrize("where", ["bind", "TritonConfig"])
def test_a_collector_gets_the_spans(where):
    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = PROGRAM.format(
            url=f"http://127.0.0.1:{server.server_port}/v1/traces",
            more=", trace_config=entries" if where == "TritonConfig" else "",
            bind=", trace_config=entries" if where == "bind" else "",
        )
        said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
        server.shutdown()
    assert said.returncode == 0, said.stderr
    import base64

    assert json.loads(base64.b64decode(said.stdout))[0] == "mode=opentelemetry"
    assert b"proxy_inference_callable" in b"".join(got)
    assert b"own_part" in b"".join(got)  # of a tracer that the module has made before
    assert b"asked" in b"".join(got)
