"""The names of pytriton.client.warnings, from neso.client.warnings."""

from neso.client.warnings import (
    NotSupportedTimeoutWarning,
    PyTritonWarning,
)

__all__ = [
    "NotSupportedTimeoutWarning",
    "PyTritonWarning",
]
