"""The names of pytriton.model_config.tensor, from neso.model_config.tensor."""

from neso.model_config.tensor import (
    Tensor,
)

__all__ = [
    "Tensor",
]
