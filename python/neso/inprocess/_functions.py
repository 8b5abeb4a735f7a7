"""The functions of ``tritonserver.h`` and ``neso.h`` that are called, with the types of their parameters."""

from __future__ import annotations

import ctypes
from typing import Any

# One letter for each parameter. A pointer is that of an object, or the place for a result.
_LETTERS: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "s": ctypes.c_char_p,
    "b": ctypes.c_bool,
    "i": ctypes.c_int,
    "I": ctypes.c_uint32,
    "l": ctypes.c_int64,
    "L": ctypes.c_uint64,
    "z": ctypes.c_size_t,
    "d": ctypes.c_double,
}

# Functions that give an error, null for none; without TRITONSERVER_ before their names.
_GIVE_ERRORS = {
    "ApiVersion": "pp",
    "InferenceRequestAddInput": "psipL",
    "InferenceRequestAppendInputData": "pspzil",
    "InferenceRequestCancel": "p",
    "InferenceRequestDelete": "p",
    "InferenceRequestNew": "ppsl",
    "InferenceRequestSetBoolParameter": "psb",
    "InferenceRequestSetCorrelationId": "pL",
    "InferenceRequestSetCorrelationIdString": "ps",
    "InferenceRequestSetDoubleParameter": "psd",
    "InferenceRequestSetFlags": "pI",
    "InferenceRequestSetId": "ps",
    "InferenceRequestSetIntParameter": "psl",
    "InferenceRequestSetPriorityUInt64": "pL",
    "InferenceRequestSetReleaseCallback": "ppp",
    "InferenceRequestSetResponseCallback": "ppppp",
    "InferenceRequestSetStringParameter": "pss",
    "InferenceRequestSetTimeoutMicroseconds": "pL",
    "InferenceResponseDelete": "p",
    "InferenceResponseId": "pp",
    "InferenceResponseModel": "ppp",
    "InferenceResponseOutput": "pIppppppppp",
    "InferenceResponseOutputCount": "pp",
    "InferenceResponseParameter": "pIppp",
    "InferenceResponseParameterCount": "pp",
    "MessageDelete": "p",
    "MessageSerializeToJson": "ppp",
    "MetricArgsDelete": "p",
    "MetricArgsNew": "p",
    "MetricArgsSetHistogram": "ppL",
    "MetricDelete": "p",
    "MetricFamilyDelete": "p",
    "MetricFamilyNew": "piss",
    "MetricIncrement": "pd",
    "MetricNew": "pppL",
    "MetricNewWithArgs": "pppLp",
    "MetricObserve": "pd",
    "MetricSet": "pd",
    "MetricValue": "pp",
    "MetricsDelete": "p",
    "MetricsFormatted": "pipp",
    "ResponseAllocatorNew": "pppp",
    "ServerDelete": "p",
    "ServerInferAsync": "ppp",
    "ServerIsLive": "pp",
    "ServerIsReady": "pp",
    "ServerLoadModel": "ps",
    "ServerLoadModelWithParameters": "pspL",
    "ServerMetadata": "pp",
    "ServerMetrics": "pp",
    "ServerModelBatchProperties": "pslpp",
    "ServerModelConfig": "pslIp",
    "ServerModelIndex": "pIp",
    "ServerModelIsReady": "pslp",
    "ServerModelMetadata": "pslp",
    "ServerModelStatistics": "pslp",
    "ServerModelTransactionProperties": "pslpp",
    "ServerNew": "pp",
    "ServerOptionsAddRateLimiterResource": "pszi",
    "ServerOptionsDelete": "p",
    "ServerOptionsNew": "p",
    "ServerOptionsSetBackendConfig": "psss",
    "ServerOptionsSetBackendDirectory": "ps",
    "ServerOptionsSetBufferManagerThreadCount": "pI",
    "ServerOptionsSetCacheConfig": "pss",
    "ServerOptionsSetCacheDirectory": "ps",
    "ServerOptionsSetCpuMetrics": "pb",
    "ServerOptionsSetCudaMemoryPoolByteSize": "piL",
    "ServerOptionsSetEnablePeerAccess": "pb",
    "ServerOptionsSetExitOnError": "pb",
    "ServerOptionsSetExitTimeout": "pI",
    "ServerOptionsSetGpuMetrics": "pb",
    "ServerOptionsSetHostPolicy": "psss",
    "ServerOptionsSetLogError": "pb",
    "ServerOptionsSetLogFile": "ps",
    "ServerOptionsSetLogFormat": "pi",
    "ServerOptionsSetLogInfo": "pb",
    "ServerOptionsSetLogVerbose": "pi",
    "ServerOptionsSetLogWarn": "pb",
    "ServerOptionsSetMetrics": "pb",
    "ServerOptionsSetMetricsConfig": "psss",
    "ServerOptionsSetMetricsInterval": "pL",
    "ServerOptionsSetMinSupportedComputeCapability": "pd",
    "ServerOptionsSetModelControlMode": "pi",
    "ServerOptionsSetModelLoadDeviceLimit": "piid",
    "ServerOptionsSetModelLoadRetryCount": "pI",
    "ServerOptionsSetModelLoadThreadCount": "pI",
    "ServerOptionsSetModelNamespacing": "pb",
    "ServerOptionsSetModelRepositoryPath": "ps",
    "ServerOptionsSetPinnedMemoryPoolByteSize": "pL",
    "ServerOptionsSetRateLimiterMode": "pi",
    "ServerOptionsSetRepoAgentDirectory": "ps",
    "ServerOptionsSetServerId": "ps",
    "ServerOptionsSetStartupModel": "ps",
    "ServerOptionsSetStrictModelConfig": "pb",
    "ServerOptionsSetStrictReadiness": "pb",
    "ServerPollModelRepository": "p",
    "ServerRegisterModelRepository": "pspI",
    "ServerStop": "p",
    "ServerUnloadModel": "ps",
    "ServerUnloadModelAndDependents": "ps",
    "ServerUnregisterModelRepository": "ps",
}

# Those of ``neso.h``, which give errors too; without NESO_ before their names.
_OURS = {
    "ServerModelRollout": "psp",
    "ServerSetModelRollout": "pss",
}

# Functions that give something else.
_GIVE_VALUES: dict[str, tuple[str, Any]] = {
    "ErrorCode": ("p", ctypes.c_int),
    "ErrorDelete": ("p", None),
    "ErrorMessage": ("p", ctypes.c_char_p),
    "ErrorNew": ("is", ctypes.c_void_p),
    "InferenceResponseError": ("p", ctypes.c_void_p),
    "ParameterBytesNew": ("spL", ctypes.c_void_p),
    "ParameterDelete": ("p", None),
    "ParameterNew": ("sip", ctypes.c_void_p),
}


def of(library: ctypes.CDLL) -> dict[str, Any]:
    """The functions of a library by their names. Raises AttributeError for one that it has not."""
    found: dict[str, Any] = {}
    for name, (letters, result) in {
        **{name: (letters, ctypes.c_void_p) for name, letters in {**_GIVE_ERRORS, **_OURS}.items()},
        **_GIVE_VALUES,
    }.items():
        function = library[f"{'NESO' if name in _OURS else 'TRITONSERVER'}_{name}"]
        function.argtypes = [_LETTERS[letter] for letter in letters]
        function.restype = result
        found[name] = function
    return found
