"""The names of pytriton.model_config.generator, from neso.model_config.generator."""

from neso.exceptions import PyTritonBadParameterError
from neso.model_config.common import DynamicBatcher
from neso.model_config.generator import (
    ModelConfigGenerator,
)
from neso.model_config.triton_model_config import TensorSpec, TritonModelConfig

__all__ = [
    "DynamicBatcher",
    "ModelConfigGenerator",
    "PyTritonBadParameterError",
    "TensorSpec",
    "TritonModelConfig",
]
