"""The server in this process, with the interface of Triton's package ``tritonserver``.

``from neso import inprocess as tritonserver``, then ``tritonserver.Server(model_repository="models").start()``. It
needs ``libtritonserver.so``: see docs/use/inprocess.md.
"""

from __future__ import annotations

from .._version import __version__
from ._enums import (
    DataType,
    DLDeviceType,
    InstanceGroupKind,
    LogFormat,
    MemoryType,
    MetricFormat,
    MetricKind,
    ModelBatchFlag,
    ModelControlMode,
    ModelTxnPropertyFlag,
    ParameterType,
    RateLimitMode,
    RequestFlag,
)
from ._errors import (
    AlreadyExistsError,
    CancelledError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from ._iterators import AsyncResponseIterator, ResponseIterator
from ._memory import DeviceOrMemoryType, MemoryBuffer
from ._metrics import Metric, MetricFamily
from ._model import Model, ModelDictionary
from ._options import ModelLoadDeviceLimit, Options, RateLimiterResource
from ._request import InferenceRequest
from ._response import InferenceResponse
from ._server import Server
from ._tensor import Tensor

__all__ = [
    "AlreadyExistsError",
    "AsyncResponseIterator",
    "CancelledError",
    "DLDeviceType",
    "DataType",
    "DeviceOrMemoryType",
    "InferenceRequest",
    "InferenceResponse",
    "InstanceGroupKind",
    "InternalError",
    "InvalidArgumentError",
    "LogFormat",
    "MemoryBuffer",
    "MemoryType",
    "Metric",
    "MetricFamily",
    "MetricFormat",
    "MetricKind",
    "Model",
    "ModelBatchFlag",
    "ModelControlMode",
    "ModelDictionary",
    "ModelLoadDeviceLimit",
    "ModelTxnPropertyFlag",
    "NotFoundError",
    "Options",
    "ParameterType",
    "RateLimitMode",
    "RateLimiterResource",
    "RequestFlag",
    "ResponseIterator",
    "Server",
    "Tensor",
    "TritonError",
    "UnavailableError",
    "UnknownError",
    "UnsupportedError",
    "__version__",
]
