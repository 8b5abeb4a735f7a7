"""What a model asks of the server where there is none: in a test of model.py, or any program that imports it.

Metrics are kept here, other models are functions that the test gives, and model control is refused.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator
from typing import Any, Callable, Optional

from neso_runtime.errors import TritonError, TritonModelException
from neso_runtime.frames import METRIC
from neso_runtime.request import InferenceRequest
from neso_runtime.response import InferenceResponse


class LocalMetric:
    """One value of a family; models that give the same labels share it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.name, self.kind, self.labels = order["name"], order["kind"], dict(order["labels"])
        self.value = 0.0  # of a histogram: the sum
        # Infinities come as texts; the last bucket has what is above the others anyway.
        self.buckets = [bound for bound in map(float, order.get("buckets") or ()) if bound != math.inf]
        self.counts = [0] * (len(self.buckets) + 1)

    def do(self, op: str, value: float) -> dict[str, float]:
        """Does what the server would do, or raises with its text."""
        fits = {"counter": ("increment", "value"), "gauge": ("increment", "set", "value"), "histogram": ("observe",)}
        if op not in fits[self.kind]:
            raise TritonModelException(f"metric '{self.name}' is a {self.kind}, which has no operation '{op}'")
        if op == "increment":
            if self.kind == "counter" and not value >= 0:
                raise TritonModelException(f"counter '{self.name}' cannot be incremented by {value:g}")
            self.value += value
        elif op == "set":
            self.value = value
        elif op == "observe":
            self.counts[bisect.bisect_left(self.buckets, value)] += 1
            self.value += value
        return {"value": self.value}


class Local:
    """Stands where the worker stands in a server: ``bls`` and ``calls`` are itself."""

    def __init__(self) -> None:
        self.bls = self.calls = self
        # Stand-ins for other models, by name: a request in, a response or an iterable of responses out.
        self.models: dict[str, Callable[[InferenceRequest], Any]] = {}
        self.metrics: dict[tuple[str, tuple[tuple[str, str], ...]], LocalMetric] = {}
        # Families with how many there are, and what numbers stand for.
        self._families: dict[str, tuple[str, int]] = {}
        self._numbers: list[Any] = []

    def _responses(self, request: InferenceRequest) -> Iterator[InferenceResponse]:
        stand_in = self.models.get(request._model)
        if stand_in is None:
            text = (
                f"Model {request._model} - Error when running inference: Failed for execute the inference request. "
                f"Model '{request._model}' is not ready."
            )
            yield InferenceResponse(error=TritonError(text))
            return
        try:
            answer = stand_in(request)
            if isinstance(answer, InferenceResponse):
                yield answer
            else:
                yield from answer
        except Exception as error:
            yield InferenceResponse(error=TritonError(f"{type(error).__name__}: {error}"))

    def exec(self, request: InferenceRequest, decoupled: bool) -> Any:
        """The response of a stand-in, or an iterator over its responses."""
        responses = self._responses(request)
        return responses if decoupled else next(responses, InferenceResponse())

    def async_exec(self, request: InferenceRequest, decoupled: bool) -> Any:
        """Like exec, as a future."""
        import asyncio

        done = asyncio.get_running_loop().create_future()
        done.set_result(self.exec(request, decoupled))
        return done

    def order(self, kind: int, order: dict[str, Any], failed: str) -> dict[str, Any]:
        """Does an order to the server, or raises with the text ``failed`` before its message."""
        if kind != METRIC:
            if order["op"] == "is_ready":
                return {"ready": order["model"] in self.models}
            raise TritonModelException(f"{failed}there is no server, the model does not run in one")
        if order["op"] == "family":
            return {"family": self._register(order["name"], order["kind"], failed)}
        if order["op"] == "create":
            name, kind = self._numbers[order["family"]]
            key = (name, tuple(sorted(order["labels"].items())))
            metric = self.metrics.get(key)
            if metric is None or metric.kind != kind:  # of a family that is gone
                metric = self.metrics[key] = LocalMetric({**order, "name": name, "kind": kind})
            self._numbers.append(metric)
            return {"metric": len(self._numbers) - 1}
        try:
            return self._numbers[order["metric"]].do(order["op"], float(order.get("value", 0.0)))
        except TritonModelException as error:
            raise TritonModelException(f"{failed}{error}") from None

    def _register(self, name: str, kind: str, failed: str) -> int:
        held, count = self._families.get(name, (kind, 0))
        if held != kind:
            raise TritonModelException(f"{failed}Family name already exists with different type: '{name}' is a {held}")
        self._families[name] = (kind, count + 1)
        self._numbers.append((name, kind))
        return len(self._numbers) - 1

    def tell(self, kind: int, order: dict[str, Any]) -> None:
        """A family is no longer used; its values stay, to be looked at."""
        name, held = self._numbers[order["family"]]
        count = self._families[name][1] - 1
        if count:
            self._families[name] = (held, count)
        else:
            del self._families[name]


_local: Optional[Local] = None


def local() -> Local:
    """The one that stands in unless another one was put there."""
    global _local
    if _local is None:
        _local = Local()
    return _local


def replace(stand_in: Optional[Local]) -> Optional[Local]:
    """Puts another one there and returns the former."""
    global _local
    former, _local = _local, stand_in
    return former
