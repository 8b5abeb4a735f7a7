"""The names of pytriton.proxy.telemetry, from neso.proxy.telemetry."""

from neso.proxy.telemetry import (
    build_proxy_tracer_from_triton_config,
    end_span,
    get_span_dict,
    get_telemetry_tracer,
    parse_trace_config,
    raise_if_no_telemetry,
    set_telemetry_tracer,
    start_span_from_remote,
    start_span_from_span,
    traced_span,
)

__all__ = [
    "build_proxy_tracer_from_triton_config",
    "end_span",
    "get_span_dict",
    "get_telemetry_tracer",
    "parse_trace_config",
    "raise_if_no_telemetry",
    "set_telemetry_tracer",
    "start_span_from_remote",
    "start_span_from_span",
    "traced_span",
]
