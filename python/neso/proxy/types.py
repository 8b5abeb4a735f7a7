"""Request and Response: what a callable gets and may return."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, Optional, Union

import numpy as np

Array = np.ndarray[Any, Any]


@dataclasses.dataclass
class Request:
    """One request: a mapping of input names to arrays, and what came with it."""

    data: dict[str, Array]
    # Parameters of the client and forwarded headers.
    parameters: Optional[dict[str, Union[str, int, bool]]] = None
    span: Optional[Any] = None
    requested_output_names: Optional[list[str]] = None

    def __getitem__(self, input_name: str) -> Array:
        """The array of an input."""
        return self.data[input_name]

    def __setitem__(self, input_name: str, value: Array) -> None:
        """Replaces an input."""
        self.data[input_name] = value

    def __delitem__(self, input_name: str) -> None:
        """Drops an input."""
        del self.data[input_name]

    def __contains__(self, input_name: object) -> bool:
        """Whether the request has this input."""
        return input_name in self.data

    def __len__(self) -> int:
        """How many inputs it has."""
        return len(self.data)

    def __iter__(self) -> Iterator[str]:
        """Names of inputs."""
        return iter(self.data)

    def get(self, input_name: str, default: Any = None) -> Any:
        """The array of an input, or ``default``."""
        return self.data.get(input_name, default)

    def keys(self) -> KeysView[str]:
        """Names of inputs."""
        return self.data.keys()

    def values(self) -> ValuesView[Array]:
        """Arrays of inputs."""
        return self.data.values()

    def items(self) -> ItemsView[str, Array]:
        """Names and arrays of inputs."""
        return self.data.items()

    @contextlib.contextmanager
    def traced_span(self, span_name: str) -> Iterator[None]:
        """A part of the request's trace, when it is traced."""
        if self.span is None:
            yield
            return
        from .telemetry import traced_span

        with traced_span(self, span_name):
            yield


@dataclasses.dataclass
class Response:
    """One response: a mapping of output names to arrays."""

    data: dict[str, Array]

    def __getitem__(self, output_name: str) -> Array:
        """The array of an output."""
        return self.data[output_name]

    def __setitem__(self, output_name: str, value: Array) -> None:
        """Replaces an output."""
        self.data[output_name] = value

    def __delitem__(self, output_name: str) -> None:
        """Drops an output."""
        del self.data[output_name]

    def __len__(self) -> int:
        """How many outputs it has."""
        return len(self.data)

    def __iter__(self) -> Iterator[str]:
        """Names of outputs."""
        return iter(self.data)

    def keys(self) -> KeysView[str]:
        """Names of outputs."""
        return self.data.keys()

    def values(self) -> ValuesView[Array]:
        """Arrays of outputs."""
        return self.data.values()

    def items(self) -> ItemsView[str, Array]:
        """Names and arrays of outputs."""
        return self.data.items()


Requests = list[Request]
Responses = list[Response]
ResponsesOrError = Union[Responses, Exception]
ResponsesNoneOrError = Union[Responses, None, Exception]
Scope = dict[str, Any]
