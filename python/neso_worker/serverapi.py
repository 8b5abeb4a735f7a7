"""What a model asks of the server besides inference: model control and metrics."""

from __future__ import annotations

import base64
import enum
import math
import re
import weakref
from typing import Any, Optional

from neso_runtime.asked import asked
from neso_runtime.errors import TritonModelException, as_flag, as_text
from neso_runtime.frames import CONTROL, METRIC


def load_model(model_name: str, config: str = "", files: Optional[dict[str, bytes]] = None) -> None:
    """Loads or reloads a model, with a configuration and files instead of those in the repository if given."""
    order: dict[str, Any] = {"op": "load", "model": as_text("model_name", model_name)}
    if config := as_text("config", config):
        order["config"] = config
    if files is not None:
        if not isinstance(files, dict):
            raise TritonModelException(
                f"failed to load model '{model_name}', files should be a dictionary of file paths and file contents"
            )
        for name, data in files.items():
            if not isinstance(name, str) or not isinstance(data, (bytes, bytearray, memoryview)):
                raise TypeError(f"files must have str as keys and bytes as values, found {type(name)}: {type(data)}")
        order["files"] = {name: base64.b64encode(data).decode("ascii") for name, data in files.items()}
    asked().calls.order(CONTROL, order, "Failed to load model: ")


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Unloads a model, and those that depend on it if wished."""
    order = {
        "op": "unload",
        "model": as_text("model_name", model_name),
        "dependents": as_flag("unload_dependents", unload_dependents),
    }
    asked().calls.order(CONTROL, order, "Failed to unload model: ")


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a model, or one version of it, is ready."""
    version, failed = -1, "Failed to check model readiness: failed to get model version from specified version string"
    if (model_version := as_text("model_version", model_version)) != "":
        wanted = "version should be an integral value > 0"
        try:
            version = int(model_version)
        except ValueError:
            raise TritonModelException(f"{failed} '{model_version}' (details: stol), {wanted}") from None
        if not 0 < version < 1 << 63:
            raise TritonModelException(f"{failed} '{model_version}', {wanted}")
    order = {"op": "is_ready", "model": as_text("model_name", model_name), "version": version}
    return bool(asked().calls.order(CONTROL, order, "").get("ready"))


_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


def _number(what: str, value: Any) -> Any:
    """A number as JSON can say it: infinities and NaN as a text."""
    if isinstance(value, (str, bytes, bytearray)):  # which float reads
        raise TypeError(f"{what} must be a number, found type '{type(value)}'")
    try:
        number = float(value)
    except TypeError:
        raise TypeError(f"{what} must be a number, found type '{type(value)}'") from None
    return number if math.isfinite(number) else str(number)


class MetricKind(enum.IntEnum):
    """What a metric is."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


class MetricFamily:
    """Metrics of one name that differ in their labels. The server keeps them, and the name, as long as this object."""

    COUNTER, GAUGE, HISTOGRAM = MetricKind
    _KINDS = ("counter", "gauge", "histogram")

    def __init__(self, name: str, description: str, kind: int) -> None:
        name, description = as_text("name", name), as_text("description", description)
        if not isinstance(kind, int) or isinstance(kind, bool):
            raise TypeError(f"kind must be one of MetricFamily.COUNTER, GAUGE and HISTOGRAM, found type '{type(kind)}'")
        failed = "Error when creating MetricFamily: "
        if not 0 <= kind < len(self._KINDS):
            raise TritonModelException(f"{failed}unknown kind {kind}.")
        if not _METRIC_NAME.fullmatch(name):
            raise TritonModelException(f"{failed}Invalid metric name")
        self._kind = self._KINDS[kind]
        self._calls = asked().calls
        order = {"op": "family", "name": name, "description": description, "kind": self._kind}
        self._number = self._calls.order(METRIC, order, failed).get("family")

    def Metric(  # noqa: N802 (the name models know)
        self, labels: Optional[dict[str, str]] = None, buckets: Optional[list[float]] = None
    ) -> Metric:
        """The metric of the family with these labels; buckets are for histograms."""
        return Metric(self, labels, buckets)

    def __reduce__(self) -> Any:  # as in Triton; the end of a copy would be that of the metrics
        raise TypeError(f"cannot pickle '{type(self).__name__}' object")

    def __del__(self) -> None:
        number = getattr(self, "_number", None)
        if number is not None:
            self._calls.tell(METRIC, {"op": "release", "family": number})


class Metric:
    """One metric. It must not outlive its family."""

    def __init__(
        self, family: MetricFamily, labels: Optional[dict[str, str]], buckets: Optional[list[float]] = None
    ) -> None:
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if family._kind == "histogram":
            if buckets is None:
                raise TritonModelException("Failed to create metric. Missing required buckets.")
        elif buckets is not None:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        failed = "Error when creating Metric: "
        for name, value in (labels or {}).items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TritonModelException(f"{failed}Labels must be texts, found {name!r}: {value!r}.")
        order: dict[str, Any] = {"op": "create", "family": family._number, "labels": labels or {}}
        if buckets is not None:
            order["buckets"] = [_number("bucket", bound) for bound in buckets]
        self._family = weakref.ref(family)
        self._number = family._calls.order(METRIC, order, failed).get("metric")

    def _do(self, failed: str, **order: Any) -> dict[str, Any]:
        family = self._family()
        if family is None:
            raise TritonModelException(
                f"{failed}Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The "
                "'MetricFamily' object should be deleted AFTER its corresponding 'Metric' objects have been deleted."
            )
        return family._calls.order(METRIC, {"metric": self._number, **order}, failed)

    def increment(self, value: float) -> None:
        """Adds to a counter or gauge."""
        self._do("Failed to increment metric value: ", op="increment", value=_number("value", value))

    def set(self, value: float) -> None:
        """Sets a gauge."""
        self._do("Failed to set metric value: ", op="set", value=_number("value", value))

    def observe(self, value: float) -> None:
        """Adds an observation to a histogram."""
        self._do("Failed to observe metric value: ", op="observe", value=_number("value", value))

    def value(self) -> float:
        """The value of a counter or gauge."""
        return float(self._do("Failed to get metric value: ", op="value").get("value", 0.0))
