"""Named values for the library: parameters of a load, names of models, labels of metrics."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Mapping
from typing import Any

from . import _library
from ._enums import ParameterType
from ._errors import InvalidArgumentError


@contextlib.contextmanager
def parameters(values: Mapping[str, Any]) -> Iterator[tuple[Any, int]]:
    """An array of parameters and its length, for the calls within the block.

    Values are of type str, int, bool, float or bytes; bytes are not copied. Raises InvalidArgumentError for others.
    """
    made: list[int] = []
    held: list[Any] = []
    try:
        for name, value in values.items():
            parameter = _parameter(_library.text(name, "The name of a parameter"), value, held)
            if not parameter:
                raise InvalidArgumentError(f"Parameter {name!r} was refused")
            made.append(parameter)
        yield (ctypes.c_void_p * max(len(made), 1))(*made), len(made)
    finally:
        for parameter in made:
            _library.value("ParameterDelete", parameter)


def _parameter(name: bytes, value: Any, held: list[Any]) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = ctypes.create_string_buffer(bytes(value), max(len(value), 1))
        held.append(data)
        return _library.value("ParameterBytesNew", name, ctypes.addressof(data), len(value))
    if isinstance(value, str):
        text = ctypes.create_string_buffer(_library.text(value, "The value of a parameter"))
        return _library.value("ParameterNew", name, ParameterType.STRING, ctypes.addressof(text))
    pointed: Any
    if isinstance(value, bool):
        kind, pointed = ParameterType.BOOL, ctypes.c_bool(value)
    elif isinstance(value, int):
        number = _library.number(value, "The value of a parameter", 64, signed=True)
        kind, pointed = ParameterType.INT, ctypes.c_int64(number)
    elif isinstance(value, float):
        kind, pointed = ParameterType.DOUBLE, ctypes.c_double(value)
    else:
        raise InvalidArgumentError(f"A parameter cannot be a {type(value).__name__}: {value!r}")
    return _library.value("ParameterNew", name, kind, ctypes.addressof(pointed))
