"""The names of pytriton.model_config.triton_model_config, from neso.model_config.triton_model_config."""

from neso.model_config.common import DeviceKind, DynamicBatcher, ModelWarmup
from neso.model_config.triton_model_config import (
    ResponseCache,
    TensorSpec,
    TritonModelConfig,
)

__all__ = [
    "DeviceKind",
    "DynamicBatcher",
    "ModelWarmup",
    "ResponseCache",
    "TensorSpec",
    "TritonModelConfig",
]
