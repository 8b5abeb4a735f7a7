"""The names of pytriton.decorators, from neso.decorators."""

from neso._context import CONTEXT
from neso._context import inject as _inject_triton_context
from neso.constants import TRITON_CONTEXT_FIELD_NAME
from neso.decorators import (
    ConstantPadder,
    InferenceRequest,
    InferenceRequests,
    InferenceResult,
    InferenceResults,
    InputNames,
    ModelConfigDict,
    TritonContext,
    batch,
    convert_output,
    fill_optionals,
    first_value,
    get_inference_request_batch_size,
    get_model_config,
    get_triton_context,
    group_by_keys,
    group_by_values,
    pad_batch,
    sample,
    triton_context,
)
from neso.exceptions import PyTritonBadParameterError, PyTritonRuntimeError, PyTritonValidationError
from neso.model_config.triton_model_config import TritonModelConfig
from neso.proxy.telemetry import start_span_from_span

from ._private import WrappedWithWrapper as _WrappedWithWrapper
from ._private import get_wrapt_stack as _get_wrapt_stack

_SPECIAL_KEYS = [CONTEXT]

__all__ = [
    "TRITON_CONTEXT_FIELD_NAME",
    "_SPECIAL_KEYS",
    "ConstantPadder",
    "InferenceRequest",
    "InferenceRequests",
    "InferenceResult",
    "InferenceResults",
    "InputNames",
    "ModelConfigDict",
    "PyTritonBadParameterError",
    "PyTritonRuntimeError",
    "PyTritonValidationError",
    "TritonContext",
    "TritonModelConfig",
    "_WrappedWithWrapper",
    "_get_wrapt_stack",
    "_inject_triton_context",
    "batch",
    "convert_output",
    "fill_optionals",
    "first_value",
    "get_inference_request_batch_size",
    "get_model_config",
    "get_triton_context",
    "group_by_keys",
    "group_by_values",
    "pad_batch",
    "sample",
    "start_span_from_span",
    "triton_context",
]
