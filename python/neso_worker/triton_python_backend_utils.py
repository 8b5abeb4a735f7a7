"""The module that a model.py imports: every name of it, in one place."""

from __future__ import annotations

import json
import struct
from typing import Any, Optional

import numpy as np

from neso_runtime.asked import without_server
from neso_runtime.bls import ResponseIterator
from neso_runtime.datatypes import (
    TRITON_STRING_TO_NUMPY,
    deserialize_bytes_tensor,
    numpy_to_triton_type,
    serialize_byte_tensor,
    triton_string_to_numpy,
    triton_to_numpy_type,
)
from neso_runtime.errors import TritonError, TritonModelException
from neso_runtime.request import InferenceRequest, InferenceTrace, MemoryType, PreferredMemory
from neso_runtime.response import InferenceResponse
from neso_runtime.tensor import Tensor

from .local import local as _local
from .logger import Logger
from .modelconfig import ModelConfig
from .sender import InferenceResponseSender
from .serverapi import Metric, MetricFamily, is_model_ready, load_model, unload_model

without_server(_local)

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU
TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU

_model_dir = ""


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Optional[Tensor]:
    """The input of that name, or None."""
    for tensor in inference_request._inputs:
        if tensor._name == name:
            return tensor
    return None


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Optional[Tensor]:
    """The output of that name, or None."""
    for tensor in inference_response._outputs:
        if tensor._name == name:
            return tensor
    return None


def _config_by_name(model_config: dict[str, Any], kind: str, name: str) -> Optional[dict[str, Any]]:
    if kind in model_config:  # so that what is no dictionary is an error, or has none, as in Triton
        for properties in model_config[kind] or ():
            if properties.get("name") == name:
                return properties
    return None


def get_input_config_by_name(model_config: dict[str, Any], name: str) -> Optional[dict[str, Any]]:
    """The configuration of an input, or None."""
    return _config_by_name(model_config, "input", name)


def get_output_config_by_name(model_config: dict[str, Any], name: str) -> Optional[dict[str, Any]]:
    """The configuration of an output, or None."""
    return _config_by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config: dict[str, Any]) -> bool:
    """Whether the model may send any number of responses to a request."""
    if "model_transaction_policy" not in model_config:
        return False
    return bool((model_config["model_transaction_policy"] or {}).get("decoupled", False))


def get_model_dir() -> str:
    """The directory of the model's version."""
    return _model_dir


# json, np and struct are here since models that import * of this module use them.
__all__ = [
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "InferenceTrace",
    "Logger",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "ModelConfig",
    "PreferredMemory",
    "ResponseIterator",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_model_dir",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "is_model_ready",
    "json",
    "load_model",
    "np",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "struct",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "unload_model",
    "using_decoupled_model_transaction_policy",
]
