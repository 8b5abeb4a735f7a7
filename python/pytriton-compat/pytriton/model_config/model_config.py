"""The names of pytriton.model_config.model_config, from neso.model_config.model_config."""

from neso.model_config.common import DynamicBatcher, ModelWarmup
from neso.model_config.model_config import (
    ModelConfig,
)

__all__ = [
    "DynamicBatcher",
    "ModelConfig",
    "ModelWarmup",
]
