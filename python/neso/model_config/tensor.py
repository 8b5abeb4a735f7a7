"""Tensor: an input or output of a bound model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

# Python's own types, as numpy understands them.
_PYTHON_TYPES = {bool: np.bool_, int: np.int64, float: np.float64, str: bytes}


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Shape (without the batch dimension, -1 for any size), dtype and name of an input or output.

    The dtype is a numpy type or dtype, ``bytes``, ``object`` or ``str`` (all three: BYTES), ``bool``, ``int`` or
    ``float``.
    Without a name it is called ``INPUT_<n>`` or ``OUTPUT_<n>``, counted from 1.
    """

    shape: Sequence[int]
    dtype: Any
    name: Optional[str] = None
    optional: Optional[bool] = False

    def __post_init__(self) -> None:
        """Reduces a dtype to its type."""
        if isinstance(self.dtype, np.dtype):
            object.__setattr__(self, "dtype", self.dtype.type)
        elif isinstance(self.dtype, type) and self.dtype in _PYTHON_TYPES:
            object.__setattr__(self, "dtype", _PYTHON_TYPES[self.dtype])
