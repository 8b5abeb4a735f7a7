"""Spans of OpenTelemetry for the requests that callables get. Needs the extra ``neso[telemetry]``.

A tracer that ``set_telemetry_tracer`` was given, or that ``bind`` makes of its ``trace_config``, gives every request a
span, ``request.span``. Its parent is the server's span of the request, when the server traces it to a collector
(``trace_config`` with ``level=TIMESTAMPS``); else that of the client, when the header ``traceparent`` is forwarded
(``http_header_forward_pattern``, ``grpc_header_forward_pattern``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

LOGGER = logging.getLogger("neso")

SPAN_NAME = "proxy_inference_callable"
BATCH_SPAN_NAME = "pytriton-batch-decorator-span"
# What a parent comes in.
PARENT = "traceparent"
# Beside it: the vendors' part of a trace.
CARRIED = (PARENT, "tracestate")

_tracer: Optional[Any] = None


def set_telemetry_tracer(tracer: Any) -> None:
    """Sets the tracer that spans of requests are made with. Raises ValueError when there is one already."""
    global _tracer
    if _tracer is not None:
        raise ValueError("Telemetry tracer is already set")
    _tracer = tracer


def get_telemetry_tracer() -> Optional[Any]:
    """The tracer, None when there is none."""
    return _tracer


def raise_if_no_telemetry() -> None:
    """Raises ImportError unless OpenTelemetry is installed."""
    if importlib.util.find_spec("opentelemetry") is None:
        raise ImportError("OpenTelemetry is not installed. Please install it using 'pip install neso[telemetry]'.")


def parse_trace_config(trace_config_list: Sequence[str]) -> tuple[str, Any]:
    """The URL of the collector and the resource in ``trace_config``. Raises ValueError.

    Of its entries ``mode=opentelemetry`` and ``opentelemetry,url=...`` must be there, and
    ``opentelemetry,resource=key=value`` may be.
    """
    from opentelemetry.sdk.resources import Resource

    if not any("mode=opentelemetry" in entry for entry in trace_config_list):
        raise ValueError("Only opentelemetry mode is supported")
    url = None
    attributes: dict[str, Any] = {}
    for entry in trace_config_list:
        _, found, value = entry.partition("opentelemetry,url=")
        if found:
            url = url or value
        elif entry.startswith("opentelemetry,resource="):
            for part in entry.split("=", 1)[1].split(","):
                key, _, text = part.partition("=")
                attributes[key] = text
    if url is None:
        raise ValueError("opentelemetry,url is required")
    return url, Resource(attributes=attributes)


def build_proxy_tracer_from_triton_config(trace_config: Sequence[str]) -> Any:
    """A tracer that sends its spans to the collector of ``trace_config`` by OTLP over HTTP.

    Where the program has no tracer provider yet it gets this one: then spans of ``opentelemetry.trace.get_tracer`` go
    the same way.
    """
    raise_if_no_telemetry()
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    url, resource = parse_trace_config(trace_config)
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):  # nobody has set one
        trace.set_tracer_provider(provider)
    return provider.get_tracer("neso")


def get_span_dict(span: Any) -> dict[str, str]:
    """A span as headers, for whoever makes a child of it elsewhere."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers, trace.set_span_in_context(span))
    return headers


def start_span_from_remote(span_dict: Mapping[str, Any], name: str) -> Optional[Any]:
    """A new span below the one in these headers, None without a tracer. The caller ends it."""
    if _tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return _tracer.start_span(name, context=TraceContextTextMapPropagator().extract(dict(span_dict)))


def start_span_from_span(span: Any, name: str) -> Any:
    """A new span below another one. The caller ends it."""
    from opentelemetry import trace

    if _tracer is None:
        return trace.INVALID_SPAN
    return _tracer.start_span(name, context=trace.set_span_in_context(span))


def end_span(span: Any, error: Optional[BaseException] = None) -> None:
    """Ends a span, with the status of ``error``; nothing for None."""
    if span is None:
        return
    from opentelemetry.trace import Status, StatusCode

    if error is None:
        span.set_status(Status(StatusCode.OK))
    else:
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


def start_request_spans(requests: Iterable[Any]) -> None:
    """Gives requests their spans."""
    for request in requests:
        request.span = start_span_from_remote(_carrier(request), SPAN_NAME)


def _carrier(request: Any) -> dict[str, str]:
    """The headers that name the span above a request: the server's, or those that were forwarded."""
    given = getattr(request, "trace_context", "")
    # A trace that goes into a file has no headers, and a mark of the server's instead.
    source = json.loads(given) if given[:1] == "{" else request.parameters or {}
    # Forwarded headers have the client's spelling.
    source = {key.lower(): value for key, value in source.items()}
    return {key: source[key] for key in CARRIED if isinstance(source.get(key), str)}


class BatchSpans:
    """The spans of a call under ``@batch``: one for each request that has a span, below it.

    In the call the first of them is the current one, and names the others as links.
    """

    def __init__(self, requests: Iterable[Any]) -> None:
        """Starts them; there are none without a tracer."""
        self._spans: list[Any] = []
        if _tracer is None:
            return
        from opentelemetry import trace

        above = [s for s in (getattr(request, "span", None) for request in requests) if s is not None]
        for span in reversed(above):
            links = [trace.Link(s.get_span_context()) for s in self._spans] if span is above[0] else []
            context = trace.set_span_in_context(span)
            self._spans.append(_tracer.start_span(BATCH_SPAN_NAME, context=context, links=links))

    def current(self) -> contextlib.AbstractContextManager[Any]:
        """Makes the first one the current span of OpenTelemetry in the block."""
        if not self._spans:
            return contextlib.nullcontext()
        from opentelemetry import trace

        current: contextlib.AbstractContextManager[Any] = trace.use_span(
            self._spans[-1], end_on_exit=False, record_exception=False, set_status_on_exception=False
        )
        return current

    def end(self, error: Optional[BaseException] = None) -> None:
        """Ends them. A stream that nobody reads on is closed: that is no failure."""
        spans, self._spans = self._spans, []
        for span in spans:
            end_span(span, None if isinstance(error, GeneratorExit) else error)


def end_request_spans(requests: Iterable[Any], error: Optional[BaseException] = None) -> None:
    """Ends the spans of requests."""
    for request in requests:
        end_span(request.span, error)


@contextlib.contextmanager
def traced_span(request: Any, span_name: str, **kwargs: Any) -> Iterator[None]:
    """A child span of a request's span; nothing without a tracer or span."""
    span = getattr(request, "span", None)
    if _tracer is None or span is None:
        yield
        return
    from opentelemetry import trace

    with _tracer.start_as_current_span(span_name, context=trace.set_span_in_context(span), **kwargs):
        yield
