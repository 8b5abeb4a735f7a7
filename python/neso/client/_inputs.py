"""Arguments of an inference call, checked and in the form that tritonclient takes."""

from __future__ import annotations

import itertools
from typing import Any, Optional, Union

import numpy as np

from neso_runtime.datatypes import masked

from ..model_config.triton_model_config import TritonModelConfig
from .exceptions import (
    PyTritonClientInferenceServerError,
    PyTritonClientModelDoesntSupportBatchingError,
    PyTritonClientTimeoutError,
    PyTritonClientValueError,
)

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Values = dict[str, Union[str, int, bool]]


class Options:
    """What goes with a request beside its inputs.

    ``priority`` and ``timeout`` are those of the protocol: a level of the model's queue, microseconds in the queue.
    A model may have inputs of these names: an array given by such a name is an input.
    """

    __slots__ = ("headers", "parameters", "priority", "timeout")

    def __init__(self, parameters: Any, headers: Any, priority: Any, timeout: Any, named: dict[str, Any]) -> None:
        """Moves what is an input into ``named``. Raises PyTritonClientValueError."""
        if isinstance(priority, np.ndarray):
            named["priority"], priority = priority, None
        if isinstance(timeout, np.ndarray):
            named["timeout"], timeout = timeout, None
        verify_values(parameters)
        verify_values(headers)
        for name, value in (("priority", priority), ("timeout", timeout)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0):
                raise PyTritonClientValueError(f"The {name} must be a number from 0 up")
        self.parameters: Optional[Values] = parameters
        self.headers: Optional[dict[str, str]] = None if headers is None else {k: str(v) for k, v in headers.items()}
        self.priority = int(priority or 0)
        self.timeout = int(timeout) if timeout else None


class Call:
    """One inference: what it was given, checked, and how its arrays and answers are shaped."""

    __slots__ = ("_given", "_named", "options", "sample")

    def __init__(
        self,
        sample: bool,
        given: tuple[Any, ...],
        named: dict[str, Any],
        parameters: Any,
        headers: Any,
        priority: Any,
        timeout: Any,
    ) -> None:
        """Raises PyTritonClientValueError."""
        self.sample = sample
        self.options = Options(parameters, headers, priority, timeout, named)
        verify_inputs(given, named)
        self._given, self._named = given, named

    def arrays(self, config: TritonModelConfig) -> Arrays:
        """The inputs as the model takes them."""
        if not self.sample and not config.batching:
            raise PyTritonClientModelDoesntSupportBatchingError(
                f"Model {config.model_name} doesn't support batching - use infer_sample method instead"
            )
        arrays = named_inputs(config, self._given, self._named)
        if self.sample and config.batching:
            return {name: value[np.newaxis, ...] for name, value in arrays.items()}
        return arrays

    def answer(self, config: TritonModelConfig, arrays: Arrays) -> Arrays:
        """The outputs as the caller expects them."""
        if self.sample and config.batching:
            return {name: value[0] if value.ndim else value for name, value in arrays.items()}
        return arrays


def verify_values(parameters_or_headers: Any) -> None:
    """Raises PyTritonClientValueError unless it is None or a dictionary of plain values."""
    if parameters_or_headers is None:
        return
    if not isinstance(parameters_or_headers, dict):
        raise PyTritonClientValueError("Parameters and headers must be a dictionary")
    for key, value in parameters_or_headers.items():
        if not isinstance(key, str):
            raise PyTritonClientValueError("Parameter/header key must be a string")
        if not isinstance(value, (str, int, bool)):
            raise PyTritonClientValueError("Parameter/header value must be a string, integer or boolean")


def verify_inputs(inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raises PyTritonClientValueError unless inputs are given one way."""
    if not inputs and not named:
        raise PyTritonClientValueError("Provide input data")
    if inputs and named:
        raise PyTritonClientValueError("Use either positional either keyword method arguments convention")


def named_inputs(config: TritonModelConfig, inputs: tuple[Any, ...], named: dict[str, Any]) -> Arrays:
    """The inputs by name, as arrays."""
    if inputs:
        names = [spec.name for spec in config.inputs or ()]
        if len(inputs) > len(names):
            raise PyTritonClientValueError(
                f"Model {config.model_name} has {len(names)} inputs, {len(inputs)} were given"
            )
        named = dict(zip(names, inputs))
    for name, value in named.items():
        if value is None:
            raise PyTritonClientValueError(f"The input '{name}' is None: leave out an optional input that is not there")
        fault = masked(f"Input '{name}'", value)
        if fault:
            raise PyTritonClientValueError(fault)
    return {name: value if isinstance(value, np.ndarray) else np.array(value) for name, value in named.items()}


def infer_inputs(lib: Any, arrays: Arrays) -> list[Any]:
    """InferInput objects. Raises RuntimeError for text that is no bytes."""
    from tritonclient.utils import np_to_triton_dtype

    out = []
    for name, value in arrays.items():
        if value.dtype.kind in "UT":
            raise RuntimeError(
                f"Unicode inputs are not supported. Encode numpy array for '{name}' input "
                "(ex. with np.char.encode(array, 'utf-8'))."
            )
        if value.dtype.kind == "O" and value.size and not isinstance(value.item(0), bytes):
            raise RuntimeError(
                f"Numpy array for '{name}' input with dtype=object should contain encoded strings "
                f"(ex. with np.char.encode(array.astype(str), 'utf-8')). Element type: {type(value.item(0))}"
            )
        datatype = np_to_triton_dtype(value.dtype.newbyteorder("=") if value.dtype.kind in "iuf" else value.dtype)
        if datatype is None:
            raise PyTritonClientValueError(f"The dtype {value.dtype} of the input '{name}' is not supported")
        if value.dtype.kind in "iuf" and not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        tensor = lib.InferInput(name, value.shape, datatype)
        tensor.set_data_from_numpy(value)
        out.append(tensor)
    return out


def timed_out(timeout_s: float, reason: str) -> PyTritonClientTimeoutError:
    """The error of an inference that took too long."""
    return PyTritonClientTimeoutError(
        f"Timeout occurred during inference request. Timeout: {timeout_s} s. Message: {reason}"
    )


def requested_outputs(lib: Any, config: TritonModelConfig) -> list[Any]:
    """InferRequestedOutput objects of all outputs."""
    return [lib.InferRequestedOutput(spec.name) for spec in config.outputs or ()]


def result_arrays(result: Any, grpc: bool) -> Arrays:
    """The outputs of an answer, those that it has."""
    response = result.get_response()
    outputs = (o.name for o in response.outputs) if grpc else (o["name"] for o in response.get("outputs", ()))
    return {name: result.as_numpy(name) for name in outputs}


def translate(error: BaseException, timeout_s: float) -> Exception:
    """The error of this package for what tritonclient raised."""
    message = error.message() if callable(getattr(error, "message", None)) else str(error)  # type: ignore[attr-defined]
    status = error.status() if callable(getattr(error, "status", None)) else None  # type: ignore[attr-defined]
    from tritonclient.utils import InferenceServerException

    # Whatever is no answer of the server says that it could not be reached.
    late = not isinstance(error, InferenceServerException) or (
        status is not None
        and ("DEADLINE_EXCEEDED" in str(status) or ("UNAVAILABLE" in str(status) and _no_connection(str(message))))
    )
    if late or message in ("Deadline Exceeded", "timed out"):
        return timed_out(timeout_s, str(message))
    return PyTritonClientInferenceServerError(f"Error occurred during inference request. Message: {message}")


def _no_connection(message: str) -> bool:
    lowered = message.lower()
    return any(word in lowered for word in ("connect", "socket closed", "goaway", "dns", "name resolution"))


class RequestIds:
    """Numbers requests."""

    def __init__(self) -> None:
        """Begins with 0."""
        self._numbers = itertools.count()

    def next(self) -> str:
        """The next one."""
        return str(next(self._numbers))
