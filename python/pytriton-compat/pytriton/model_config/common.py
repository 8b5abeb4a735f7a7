"""The names of pytriton.model_config.common, from neso.model_config.common."""

from neso.exceptions import PyTritonBadParameterError
from neso.model_config.common import (
    DeviceKind,
    DynamicBatcher,
    ModelWarmup,
    QueuePolicy,
    TimeoutAction,
    WarmupInput,
    generate_warmup_data,
    generate_warmup_requests,
)

__all__ = [
    "DeviceKind",
    "DynamicBatcher",
    "ModelWarmup",
    "PyTritonBadParameterError",
    "QueuePolicy",
    "TimeoutAction",
    "WarmupInput",
    "generate_warmup_data",
    "generate_warmup_requests",
]
