"""The names of pytriton.proxy.validators, from neso.proxy.validators."""

from neso.proxy.validators import (
    TritonResultsValidator,
)

__all__ = [
    "TritonResultsValidator",
]
