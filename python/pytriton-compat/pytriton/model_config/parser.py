"""The names of pytriton.model_config.parser, from neso.model_config.parser."""

from neso.model_config.parser import (
    ModelConfigParser,
)

__all__ = [
    "ModelConfigParser",
]
