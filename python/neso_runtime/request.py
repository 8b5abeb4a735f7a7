"""InferenceRequest as a model makes it, to call another model."""

from __future__ import annotations

import enum
from operator import index
from typing import Any, Optional, Union

from .asked import asked
from .errors import TritonModelException, as_flag, as_text
from .response import parameters_json
from .tensor import Tensor


class MemoryType(enum.IntEnum):
    """Kinds of memory, numbered as in Triton's Python backend, which is not as in its C interface."""

    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


class _Required:
    """The default of an argument that has none, behind others that have one."""

    def __repr__(self) -> str:
        return "required"


_REQUIRED: Any = _Required()


class PreferredMemory:
    """Where a model would like the outputs of a call; a hint."""

    __slots__ = ("_device", "_memory")

    def __init__(self, preferred_memory_type: MemoryType, preferred_device_id: int = 0) -> None:
        if not isinstance(preferred_memory_type, MemoryType):
            raise TypeError(
                "preferred_memory_type must be TRITONSERVER_MEMORY_CPU or TRITONSERVER_MEMORY_GPU, "
                f"found {preferred_memory_type!r}"
            )
        self._memory = preferred_memory_type
        self._device = index(preferred_device_id)


class InferenceTrace:
    """The place of a request in a trace."""

    __slots__ = ("_context",)

    def __init__(self, context: str = "") -> None:
        self._context = as_text("context", context)

    def get_context(self) -> Optional[str]:
        """The propagation context as JSON, or None when the request is not traced."""
        # What begins so is the server's own mark, by which it knows the trace of a request that is sent with it. A
        # program that has the server in its process may have said something behind it.
        if self._context[:1] != "#":
            return self._context or None
        return self._context.partition(" ")[2] or None


def _empty(what: str, request_id: str, model_name: str) -> TritonModelException:
    return TritonModelException(
        f"{what} for request with id '{request_id}' and model name '{model_name}' should not be empty."
    )


def _whole(what: str, value: Any, below: int) -> int:
    """A number from 0 on, as it fits into the request."""
    number = value if type(value) is int else index(value)
    if not 0 <= number < below:
        raise TypeError(f"{what} must be from 0 to {below - 1}, found {number}")
    return number


class InferenceRequest:
    """A request for another model; those that a model receives are of a subclass.

    ``inputs``, ``requested_output_names`` and ``model_name`` must be given, as in Triton.
    No names of outputs ask for all of them.
    """

    __slots__ = (
        "_correlation", "_flags", "_id", "_inputs", "_model", "_outputs", "_parameters", "_preferred", "_priority",
        "_timeout", "_trace", "_version",
    )  # fmt: skip

    def __init__(
        self,
        request_id: str = "",
        correlation_id: Union[int, str] = 0,
        inputs: Any = _REQUIRED,
        requested_output_names: Any = _REQUIRED,
        model_name: str = _REQUIRED,
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: Optional[PreferredMemory] = None,
        trace: Optional[InferenceTrace] = None,
        parameters: Optional[dict[str, Any]] = None,
        priority: int = 0,
    ) -> None:
        if inputs is _REQUIRED or requested_output_names is _REQUIRED or model_name is _REQUIRED:
            given = {"inputs": inputs, "requested_output_names": requested_output_names, "model_name": model_name}
            missing = [name for name, value in given.items() if value is _REQUIRED]
            raise TypeError(f"InferenceRequest needs {', '.join(missing)}")
        if isinstance(requested_output_names, str):
            raise TypeError("requested_output_names must be a list of str, found a str")
        model_name, request_id = as_text("model_name", model_name), as_text("request_id", request_id)
        self._inputs = list(inputs)
        for tensor in self._inputs:
            if type(tensor) is not Tensor and not isinstance(tensor, Tensor):
                if tensor is None:
                    raise _empty("Input tensor", request_id, model_name)
                raise TypeError(f"inputs must be a list of Tensor, found type '{type(tensor)}'")
        self._outputs = list(requested_output_names)
        for i, name in enumerate(self._outputs):
            if type(name) is not str:
                name = self._outputs[i] = as_text("each of requested_output_names", name)
            if not name:
                raise _empty("Requested output name", request_id, model_name)
        if not isinstance(correlation_id, str):
            if correlation_id is None:
                raise TypeError("correlation_id must be an int or a str, found None")
            if not isinstance(correlation_id, int):
                raise TritonModelException("Correlation ID must be integer or string")
            correlation_id = _whole("correlation_id", correlation_id, 1 << 64)
        if trace is not None and not isinstance(trace, InferenceTrace):
            raise TypeError(f"trace must be an InferenceTrace, found type '{type(trace)}'")
        if preferred_memory is not None and not isinstance(preferred_memory, PreferredMemory):
            raise TypeError(f"preferred_memory must be a PreferredMemory, found type '{type(preferred_memory)}'")
        self._id = request_id
        self._correlation = correlation_id
        self._model = model_name
        self._version = index(model_version)
        if not -1 << 63 <= self._version < 1 << 63:
            raise TypeError(f"model_version is out of range: {model_version}")
        self._flags = _whole("flags", flags, 1 << 32)
        self._timeout = _whole("timeout", timeout, 1 << 64)
        self._priority = _whole("priority", priority, 1 << 64)
        self._preferred = preferred_memory
        self._trace = trace
        self._parameters = parameters_json(parameters) if parameters is not None else ""

    def inputs(self) -> list[Tensor]:
        """The inputs."""
        return self._inputs

    def request_id(self) -> str:
        """The request id, an empty text for none."""
        return self._id

    def correlation_id(self) -> Union[int, str]:
        """The sequence's number or text, 0 for none."""
        return self._correlation

    def flags(self) -> int:
        """The sequence flags."""
        return self._flags

    def set_flags(self, flags: int) -> None:
        """Sets the sequence flags."""
        self._flags = _whole("flags", flags, 1 << 32)

    def timeout(self) -> int:
        """The timeout in microseconds, 0 for none."""
        return self._timeout

    def priority(self) -> int:
        """The level in the queue of the model, 0 for the model's default; here and not in Triton."""
        return self._priority

    def parameters(self) -> str:
        """The parameters as JSON, "{}" for none."""
        return self._parameters or "{}"

    def trace(self) -> InferenceTrace:
        """The request's place in a trace."""
        if self._trace is None:
            self._trace = InferenceTrace()
        return self._trace

    def requested_output_names(self) -> set[str]:
        """The names of the outputs that are wanted."""
        return set(self._outputs)

    def is_cancelled(self) -> bool:
        """Whether the client gave the request up."""
        return False

    def get_response_sender(self) -> Any:
        """The sender of responses; only a received request has one."""
        raise TritonModelException("Only a request that a model received has a response sender.")

    def set_release_flags(self, flags: int) -> None:
        """Says how a received request ends when execute returns."""
        raise TritonModelException("Only a request that a model received can be released.")

    def exec(self, decoupled: bool = False) -> Any:
        """Runs the request; returns the response, or an iterator over the responses of a decoupled model.

        Failures are responses too.
        """
        return asked().bls.exec(self, as_flag("decoupled", decoupled))

    def async_exec(self, decoupled: bool = False) -> Any:
        """A future of what exec returns, for the event loop that runs; the request is on its way at once."""
        return asked().bls.async_exec(self, as_flag("decoupled", decoupled))
