"""The names of pytriton.proxy.telemetry, from neso.proxy.telemetry."""

from neso.proxy.telemetry import (
    get_telemetry_tracer,
    set_telemetry_tracer,
    traced_span,
)

__all__ = [
    "get_telemetry_tracer",
    "set_telemetry_tracer",
    "traced_span",
]
