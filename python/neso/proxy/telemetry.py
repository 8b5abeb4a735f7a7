"""Spans of OpenTelemetry, for callables that trace themselves. Needs opentelemetry-api."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Optional

_tracer: Optional[Any] = None


def set_telemetry_tracer(tracer: Any) -> None:
    """Sets the tracer that spans of requests are made with."""
    global _tracer
    _tracer = tracer


def get_telemetry_tracer() -> Optional[Any]:
    """The tracer, None when there is none."""
    return _tracer


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
