"""Enumerations of the interface, with the numbers of ``tritonserver.h``."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class DataType(IntEnum):
    """The type of a tensor's elements."""

    INVALID = 0
    BOOL = 1
    UINT8 = 2
    UINT16 = 3
    UINT32 = 4
    UINT64 = 5
    INT8 = 6
    INT16 = 7
    INT32 = 8
    INT64 = 9
    FP16 = 10
    FP32 = 11
    FP64 = 12
    BYTES = 13
    BF16 = 14


class MemoryType(IntEnum):
    """Where memory lies."""

    CPU = 0
    CPU_PINNED = 1
    GPU = 2


class DLDeviceType(IntEnum):
    """Devices of DLPack that tensors may lie on."""

    kDLCPU = 1  # noqa: N815, the names of DLPack
    kDLCUDA = 2  # noqa: N815
    kDLCUDAHost = 3  # noqa: N815
    kDLCUDAManaged = 13  # noqa: N815


class ParameterType(IntEnum):
    """The type of a parameter's value."""

    STRING = 0
    INT = 1
    BOOL = 2
    DOUBLE = 3
    BYTES = 4


class InstanceGroupKind(IntEnum):
    """Where the instances of a model run."""

    AUTO = 0
    CPU = 1
    GPU = 2
    MODEL = 3


class LogFormat(IntEnum):
    """How lines of the log begin."""

    DEFAULT = 0
    ISO8601 = 1


class MetricFormat(IntEnum):
    """The format of the text of metrics."""

    PROMETHEUS = 0


class MetricKind(IntEnum):
    """What a metric counts."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


class ModelControlMode(IntEnum):
    """How the set of loaded models changes: not at all, when the repository does, or on demand."""

    NONE = 0
    POLL = 1
    EXPLICIT = 2


class RateLimitMode(IntEnum):
    """Whether instances share counted resources."""

    OFF = 0
    EXEC_COUNT = 1


class ModelBatchFlag(IntFlag):
    """Whether the first dimension of a model's tensors is that of the batch."""

    UNKNOWN = 1
    FIRST_DIM = 2


class ModelTxnPropertyFlag(IntFlag):
    """Whether a model answers a request once, or as often as it likes."""

    ONE_TO_ONE = 1
    DECOUPLED = 2


class RequestFlag(IntFlag):
    """Where a request stands in its sequence."""

    SEQUENCE_START = 1
    SEQUENCE_END = 2
