"""Custom metrics: what the program itself counts, shown among the metrics of its servers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Optional

from . import _library
from ._enums import MetricKind
from ._handle import Handle
from ._parameters import parameters


class MetricFamily:
    """Metrics of one name. Metrics of a process are shown by all of its servers."""

    def __init__(self, kind: MetricKind, name: str, description: str) -> None:
        """A family, or the one of that kind, name and description. Raises InvalidArgumentError for another kind."""
        made = ctypes.c_void_p()
        texts = _library.text(name, "name"), _library.text(description, "description")
        _library.call("MetricFamilyNew", ctypes.byref(made), kind, *texts)
        self._handle = Handle(made.value or 0, "MetricFamilyDelete")
        self.kind = kind
        self.name = name


class Metric:
    """One series of a family. It is shown as long as something refers to it."""

    def __init__(
        self, family: MetricFamily, labels: Optional[dict[str, str]] = None, buckets: Optional[Sequence[float]] = None
    ) -> None:
        """A series with labels. A histogram has the upper bounds of its buckets, ascending.

        Raises InvalidArgumentError for buckets that are not ascending, and for a histogram without.
        """
        self._family = family
        made = ctypes.c_void_p()
        with parameters(labels or {}) as (array, count):
            arguments = ctypes.byref(made), family._handle.pointer, array, count
            if buckets is None:
                _library.call("MetricNew", *arguments)
            else:
                with _Buckets(buckets) as shape:
                    _library.call("MetricNewWithArgs", *arguments, shape)
        self._handle = Handle(made.value or 0, "MetricDelete", family._handle)

    @property
    def kind(self) -> MetricKind:
        """The kind of the family."""
        return self._family.kind

    @property
    def value(self) -> float:
        """The value of a counter or gauge. Raises UnsupportedError for a histogram."""
        value = ctypes.c_double()
        _library.call("MetricValue", self._handle.pointer, ctypes.byref(value))
        return value.value

    def increment(self, value: float) -> None:
        """Adds to a counter or gauge. Raises InvalidArgumentError for a counter and a value below 0."""
        _library.call("MetricIncrement", self._handle.pointer, value)

    def set_value(self, value: float) -> None:
        """Sets a gauge. Raises UnsupportedError for other kinds."""
        _library.call("MetricSet", self._handle.pointer, value)

    def observe(self, value: float) -> None:
        """Counts a value in a histogram. Raises UnsupportedError for other kinds."""
        _library.call("MetricObserve", self._handle.pointer, value)


class _Buckets:
    """The buckets of a histogram, for the calls within the block."""

    def __init__(self, buckets: Sequence[float]) -> None:
        self._buckets = buckets
        self._made = ctypes.c_void_p()

    def __enter__(self) -> ctypes.c_void_p:
        _library.call("MetricArgsNew", ctypes.byref(self._made))
        try:
            bounds = (ctypes.c_double * max(len(self._buckets), 1))(*self._buckets)
            _library.call("MetricArgsSetHistogram", self._made, bounds, len(self._buckets))
        except BaseException:
            self.__exit__()
            raise
        return self._made

    def __exit__(self, *_: object) -> None:
        _library.call("MetricArgsDelete", self._made)
