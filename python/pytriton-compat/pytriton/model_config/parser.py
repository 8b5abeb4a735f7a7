"""The names of pytriton.model_config.parser, from neso.model_config.parser."""

from neso.exceptions import PyTritonModelConfigError
from neso.model_config.common import DeviceKind, DynamicBatcher, ModelWarmup, QueuePolicy, TimeoutAction, WarmupInput
from neso.model_config.parser import (
    ModelConfigParser,
)
from neso.model_config.triton_model_config import ResponseCache, TensorSpec, TritonModelConfig

__all__ = [
    "DeviceKind",
    "DynamicBatcher",
    "ModelConfigParser",
    "ModelWarmup",
    "PyTritonModelConfigError",
    "QueuePolicy",
    "ResponseCache",
    "TensorSpec",
    "TimeoutAction",
    "TritonModelConfig",
    "WarmupInput",
]
