"""The names of pytriton.model_config.generator, from neso.model_config.generator."""

from neso.model_config.generator import (
    ModelConfigGenerator,
)

__all__ = [
    "ModelConfigGenerator",
]
