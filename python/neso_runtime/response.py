"""InferenceResponse: output tensors, or an error, and parameters."""

from __future__ import annotations

import json
from typing import Any, Optional

from .errors import TritonError, TritonModelException
from .tensor import Tensor


class InferenceResponse:
    """What a model answers to one request. With an error, outputs are ignored."""

    __slots__ = ("_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: Any = (),
        error: Optional[TritonError] = None,
        parameters: Optional[dict[str, Any]] = None,
    ) -> None:
        outputs = list(output_tensors)  # the model may go on using its list
        for tensor in outputs:
            if type(tensor) is not Tensor and not isinstance(tensor, Tensor):
                if tensor is None:
                    raise TritonModelException("Output tensor for inference response should not be empty.")
                raise TypeError(f"output_tensors must be a list of Tensor, found type '{type(tensor)}'")
        self._outputs = outputs
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(f"error must be a TritonError, found type '{type(error)}'")
        self._error = error
        self._parameters = parameters_json(parameters) if parameters is not None else ""

    def output_tensors(self) -> list[Tensor]:
        """The outputs."""
        return self._outputs

    def has_error(self) -> bool:
        """Whether this is an error."""
        return self._error is not None

    def error(self) -> Optional[TritonError]:
        """The error, or None."""
        return self._error

    def parameters(self) -> str:
        """The parameters as JSON."""
        return self._parameters


def parameters_json(parameters: Any) -> str:
    """Checks parameters and returns them as JSON, an empty text for none."""
    if not isinstance(parameters, dict):
        raise TritonModelException(f"Expect parameters to be a dict, got {type(parameters)}")
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException(f"Expect parameters keys to have type str, found type {type(key)}")
        if not isinstance(value, (bool, int, str)):
            raise TritonModelException(f"Expect parameters values to have type bool/int/str, found type {type(value)}")
    return json.dumps(parameters) if parameters else ""
