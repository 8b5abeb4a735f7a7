"""What a model asks of the server besides inference: model control and metrics."""

from __future__ import annotations

import base64
import math
import re
import weakref
from typing import TYPE_CHECKING, Any, Optional

from . import local
from .errors import TritonModelException, as_text
from .frames import CONTROL, METRIC

if TYPE_CHECKING:
    from .worker import Worker

_worker: Optional[Worker] = None


def connect(worker: Optional[Worker]) -> None:
    """Makes a worker the one whose server is asked."""
    global _worker
    _worker = worker


def worker() -> Any:
    """The worker of this process, or what stands in for it where there is no server."""
    return local.local() if _worker is None else _worker


def load_model(model_name: str, config: str = "", files: Optional[dict[str, bytes]] = None) -> None:
    """Loads or reloads a model, with a configuration and files instead of those in the repository if given."""
    order: dict[str, Any] = {"op": "load", "model": as_text("model_name", model_name)}
    if config := as_text("config", config):
        order["config"] = config
    if files is not None:
        if not isinstance(files, dict) or not all(
            isinstance(name, str) and isinstance(data, (bytes, bytearray, memoryview)) for name, data in files.items()
        ):
            raise TritonModelException(
                f"failed to load model '{model_name}', files should be a dictionary of file paths and file contents"
            )
        order["files"] = {name: base64.b64encode(data).decode("ascii") for name, data in files.items()}
    worker().calls.order(CONTROL, order, "Failed to load model: ")


def unload_model(model_name: str, unload_dependents: bool = False) -> None:
    """Unloads a model, and those that depend on it if wished."""
    order = {"op": "unload", "model": as_text("model_name", model_name), "dependents": bool(unload_dependents)}
    worker().calls.order(CONTROL, order, "Failed to unload model: ")


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    """Whether a model, or one version of it, is ready."""
    version = -1
    if model_version != "":
        try:
            version = int(model_version)
        except (TypeError, ValueError):
            raise TritonModelException(
                f"failed to get model version from specified version string '{model_version}' (details: stol), "
                "version should be an integral value > 0"
            ) from None
        if version <= 0:
            raise TritonModelException(
                f"failed to get model version from specified version string '{model_version}', "
                "version should be an integral value > 0"
            )
    order = {"op": "is_ready", "model": as_text("model_name", model_name), "version": version}
    return bool(worker().calls.order(CONTROL, order, "").get("ready"))


_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


def _number(value: Any) -> Any:
    """A number as JSON can say it: infinities and NaN as a text."""
    number = float(value)
    return number if math.isfinite(number) else str(number)


class MetricFamily:
    """Metrics of one name that differ in their labels."""

    COUNTER, GAUGE, HISTOGRAM = range(3)
    _KINDS = ("counter", "gauge", "histogram")

    def __init__(self, name: str, description: str, kind: int) -> None:
        if isinstance(name, (bytes, bytearray)):
            name = as_text("name", name)
        if not isinstance(name, str) or not name:
            raise TritonModelException("Error when creating MetricFamily: the name must be a text that is not empty.")
        if not _METRIC_NAME.fullmatch(name):
            raise TritonModelException("Error when creating MetricFamily: Invalid metric name")
        if kind not in range(3):
            raise TritonModelException(f"Error when creating MetricFamily: unknown kind {kind}.")
        self._name, self._description, self._kind = name, str(description), self._KINDS[kind]

    def Metric(  # noqa: N802 (the name models know)
        self, labels: Optional[dict[str, str]] = None, buckets: Optional[list[float]] = None
    ) -> Metric:
        """The metric of the family with these labels; buckets are for histograms."""
        return Metric(self, labels, buckets)


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
        order: dict[str, Any] = {
            "op": "create",
            "name": family._name,
            "description": family._description,
            "kind": family._kind,
            "labels": {str(name): str(value) for name, value in (labels or {}).items()},
        }
        if buckets is not None:
            order["buckets"] = [_number(bound) for bound in buckets]
        self._family = weakref.ref(family)
        self._number = worker().calls.order(METRIC, order, "Error when creating Metric: ").get("metric")

    def _do(self, failed: str, **order: Any) -> dict[str, Any]:
        if self._family() is None:
            raise TritonModelException(
                f"{failed}Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The "
                "'MetricFamily' object should be deleted AFTER its corresponding 'Metric' objects have been deleted."
            )
        return worker().calls.order(METRIC, {"metric": self._number, **order}, failed)

    def increment(self, value: float) -> None:
        """Adds to a counter or gauge."""
        self._do("Failed to increment metric value: ", op="increment", value=_number(value))

    def set(self, value: float) -> None:
        """Sets a gauge."""
        self._do("Failed to set metric value: ", op="set", value=_number(value))

    def observe(self, value: float) -> None:
        """Adds an observation to a histogram."""
        self._do("Failed to observe metric value: ", op="observe", value=_number(value))

    def value(self) -> float:
        """The value of a counter or gauge."""
        return float(self._do("Failed to get metric value: ", op="value").get("value", 0.0))

    def __del__(self) -> None:
        number = getattr(self, "_number", None)
        if number is not None and _worker is not None:
            _worker.calls.tell(METRIC, {"op": "release", "metric": number})
