"""What callables may return, and how it becomes exactly what the server expects."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import numpy as np

from neso_runtime.datatypes import element_bytes, masked

from ..model_config.datatypes import triton_type
from ..model_config.triton_model_config import TritonModelConfig
from .types import Request, Response

LOGGER = logging.getLogger("neso")

Array = np.ndarray[Any, Any]

# Kinds of arrays of text; T is that of numpy 2's StringDType.
_TEXT = "OSUT"
# How much of a wrong answer an error shows.
_SHOWN = 500


def _show(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class _Output:
    """One output of a model: its dtype and shape."""

    __slots__ = ("dtype", "fixed", "given", "name", "ndim", "served", "shape", "skip", "text")

    def __init__(self, name: str, dtype: Any, shape: tuple[int, ...], batching: bool) -> None:
        self.name = name
        # With the batch dimension, if there is one.
        self.served = (-1, *shape) if batching else shape
        self.ndim = len(self.served)
        self.skip = 1 if batching else 0
        # Whether any dimension is fixed.
        self.fixed = any(d != -1 for d in shape)
        self.given = dtype
        self.shape = shape
        self.text = triton_type(dtype) == "TYPE_STRING"
        self.dtype: np.dtype[Any] = np.dtype(object) if self.text else np.dtype(dtype)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape, of the right number of dimensions, may be served."""
        return all(e in (-1, n) for n, e in zip(shape, self.served))


class TritonResultsValidator:
    """Checks the answers of one model's callables and brings them to the model's datatypes.

    Without ``strict`` unknown outputs are dropped, numbers converted, and missing outputs and other shapes passed on;
    scripts for PyTriton may rely on that. The log says each once. With it all of these are errors, as are wrong
    numbers of rows.
    """

    def __init__(self, model_config: TritonModelConfig, strict: bool) -> None:
        """``model_config`` names the outputs."""
        self._model = model_config.model_name
        self._strict = strict
        self._batching = model_config.batching
        # What was warned of: a kind of fault and the name of an output.
        self._warned: set[tuple[str, str]] = set()
        self._outputs = {
            s.name: _Output(s.name, s.dtype, tuple(s.shape), model_config.batching) for s in model_config.outputs or ()
        }

    def _warn(self, kind: str, name: str, fault: str) -> None:
        """Says once what is wrong with an output: who relies on it sees no error, as on PyTriton."""
        if (kind, name) not in self._warned:
            self._warned.add((kind, name))
            LOGGER.warning("The callable of model `%s` %s; strict=True makes this an error.", self._model, fault)

    def _warn_unknown(self, name: str) -> None:
        known = ", ".join(f"`{n}`" for n in self._outputs)
        self._warn("unknown", name, f"returns `{name}`, which is none of its outputs ({known}) and is dropped")

    def _warn_shape(self, output: _Output, shape: tuple[int, ...]) -> None:
        self._warn("shape", output.name, f"returns `{output.name}` with the shape {shape}, not {output.served}")

    def _warn_missing(self, checked: dict[str, Array], request: Optional[Request]) -> None:
        if any(kind == "unknown" for kind, _ in self._warned):  # mistyped: that has been said
            return
        for name in self._wanted(request):
            if name not in checked:
                self._warn("missing", name, f"does not return `{name}`: answers go without it")

    def _wanted(self, request: Optional[Request]) -> Iterable[str]:
        """Names of the outputs that an answer must have."""
        wanted = request.requested_output_names if request is not None else None
        return self._outputs if wanted is None else wanted

    def validate_responses(self, requests: Sequence[Request], responses: Any) -> list[dict[str, Array]]:
        """The checked answers to ``requests``. Raises ValueError."""
        if responses.__class__ is not list and not isinstance(responses, list):
            hint = " A callable of named arrays needs the decorator @batch." if isinstance(responses, dict) else ""
            raise ValueError(
                f"Outputs returned by `{self._model}` model callable must be list of response dicts with numpy arrays. "
                f"Got outputs={_show(responses)} instead.{hint}"
            )
        if len(responses) != len(requests):
            raise ValueError(
                f"Number of outputs returned by `{self._model}` inference callable ({len(responses)}) does not match "
                f"number of requests ({len(requests)}) received from Triton."
            )
        return [self.validate(response, request) for request, response in zip(requests, responses)]

    def validate(
        self, response: Any, request: Optional[Request] = None, rows: Optional[int] = None
    ) -> dict[str, Array]:
        """One checked answer, to a request or to a batch of ``rows``. Raises ValueError."""
        if response.__class__ is not dict:
            if isinstance(response, Response):
                response = response.data
            if not isinstance(response, dict):
                raise ValueError(
                    f"Outputs returned by `{self._model}` model callable must be list of response dicts with numpy "
                    f"arrays. Got response={_show(response)} instead."
                )
        checked: dict[str, Array] = {}
        for name, value in response.items():
            output = self._outputs.get(name)
            if output is not None and value.__class__ is np.ndarray and value.dtype == output.dtype and not output.text:
                checked[name] = value
            else:
                self._validate_value(checked, response, name, output, value)
        if not self._strict:
            for name, value in checked.items():  # for every batch: the cheapest question first
                output = self._outputs[name]
                shape = value.shape
                if len(shape) != output.ndim or (
                    output.fixed and shape[output.skip :] != output.shape and not output.takes(shape)
                ):
                    self._warn_shape(output, shape)
            if len(checked) != len(self._outputs):
                self._warn_missing(checked, request)
        else:
            if request is not None:
                rows = next((len(v) for v in request.values()), None)
            self._validate_strict(checked, rows if self._batching else None, request)
        return checked

    def _validate_value(
        self, checked: dict[str, Array], response: dict[Any, Any], name: Any, output: Optional[_Output], value: Any
    ) -> None:
        model = self._model
        if not isinstance(name, str):
            raise ValueError(
                f"Not all keys returned by `{model}` model callable are string. Got keys={_show(list(response))}."
            )
        if not isinstance(value, np.ndarray):
            raise ValueError(
                f"Not all values returned by `{model}` model callable are numpy arrays. "
                f"Got `{name}` of type {type(value)}."
            )
        fault = masked(f"Output `{name}` of model `{model}`", value)
        if fault:
            raise ValueError(fault)
        kind = value.dtype.kind
        if kind not in "biufOSUT" and value.dtype.name != "bfloat16":
            raise ValueError(
                "Only bool, numeric, string, unicode and object arrays are supported by Triton (dtype.kind: biufOSU). "
                f"Returned `{name}` for model `{model}` has `{kind}` dtype.kind."
            )
        if kind == "O":
            _check_objects(model, name, value)
        if output is None:
            if self._strict:
                raise ValueError(f"Returned output `{name}` is not defined in model config for model `{model}`.")
            self._warn_unknown(name)
            return
        fits = kind in _TEXT if output.text else value.dtype.newbyteorder("=") == output.dtype
        if self._strict and not fits:
            raise ValueError(
                f"Returned output `{name}` for model `{model}` has invalid type. "
                f"Returned: {value.dtype} ({kind}). Expected: {output.given}."
            )
        checked[name] = _to_bytes(value) if output.text else self._convert(value, output)

    def _convert(self, value: Array, output: _Output) -> Array:
        if value.dtype == output.dtype:
            return value
        try:
            return value.astype(output.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Returned output `{output.name}` for model `{self._model}` cannot be converted from {value.dtype} to "
                f"{output.dtype}: {error}"
            ) from None

    def _validate_strict(self, checked: dict[str, Array], rows: Optional[int], request: Optional[Request]) -> None:
        for name in self._wanted(request):
            if name not in checked:
                raise ValueError(f"Output `{name}` is missing in what the callable of model `{self._model}` returned.")
        for name, value in checked.items():
            expected = self._outputs[name].shape
            shape = value.shape[1:] if self._batching else value.shape
            prefix = f"Returned output `{name}` for model `{self._model}` has invalid shapes"
            if len(shape) != len(expected) or (self._batching and not value.ndim):
                raise ValueError(f"{prefix}. Returned: {shape}. Expected: {expected}.")
            if any(e not in (-1, n) for n, e in zip(shape, expected)):
                raise ValueError(f"{prefix} at one or more positions. Returned: {shape}. Expected: {expected}.")
            if rows is not None and len(value) != rows:
                raise ValueError(f"{prefix}: {len(value)} rows for a batch of {rows}.")


def _check_objects(model: str, name: str, value: Array) -> None:
    """Refuses an array of objects that does not begin with bytes.

    The others are made bytes as they are: scripts for PyTriton, which looks at the first too, may rely on it.
    """
    if not value.size:
        return
    item = value.item(0)
    if isinstance(item, str):
        raise ValueError(
            "Use string/byte-string instead of object for passing string in NumPy array from model "
            f"`{model}`. The output `{name}` holds {type(item)}."
        )
    if not isinstance(item, (bytes, bytearray, memoryview)):
        raise ValueError(
            "Only bytes as objects dtype are supported by PyTriton. "
            f"Returned `{name}` from `{model}` has `{type(item)}` type."
        )


def _to_bytes(value: Array) -> Array:
    """An array for BYTES: elements of bytes."""
    kind = value.dtype.kind
    if kind == "O":
        items = value.ravel().tolist()
        if all(item.__class__ is bytes for item in items):
            return value
        out = np.empty(value.shape, dtype=object)
        out.reshape(-1)[:] = [element_bytes(item) for item in items]
        return out
    if kind in "UT":
        out = np.empty(value.shape, dtype=object)
        out.reshape(-1)[:] = [element_bytes(text) for text in value.ravel().tolist()]
        return out
    return value.astype("S").astype(object) if kind != "S" else value.astype(object)
