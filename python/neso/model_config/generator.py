"""From TritonModelConfig to the configuration that the server reads."""

from __future__ import annotations

import operator
import pathlib
from collections.abc import Sequence
from typing import Any, Union

from ..exceptions import PyTritonBadParameterError
from .common import DynamicBatcher, QueuePolicy
from .datatypes import triton_type
from .triton_model_config import TensorSpec, TritonModelConfig


class ModelConfigGenerator:
    """Writes a model's configuration as a dictionary or as config.pbtxt."""

    def __init__(self, config: TritonModelConfig) -> None:
        """``config`` is what to write."""
        self._config = config

    def get_config(self) -> dict[str, Any]:
        """The configuration in the JSON form of the protocol. Raises PyTritonBadParameterError."""
        c = self._config
        out: dict[str, Any] = {"name": c.model_name, "backend": c.backend, "max_batch_size": 0}
        if c.batching:
            size = _whole("max_batch_size", c.max_batch_size)
            if size < 1:
                raise PyTritonBadParameterError("The `max_batch_size` must be greater or equal to 1.")
            out["max_batch_size"] = size
            if c.batcher is not None:
                if not isinstance(c.batcher, DynamicBatcher):
                    raise PyTritonBadParameterError(f"The `batcher` must be a DynamicBatcher, not {c.batcher!r}.")
                out["dynamic_batching"] = _batcher(c.batcher)
        if c.inputs:
            out["input"] = [_tensor(spec) for spec in c.inputs]
        if c.outputs:
            optional = [spec.name for spec in c.outputs if spec.optional]
            if optional:
                raise PyTritonBadParameterError(
                    f"Optional flag for outputs is not supported. Outputs marked as optional: {', '.join(optional)}."
                )
            out["output"] = [_tensor(spec) for spec in c.outputs]
        groups = [{"count": count, "kind": kind.value} for kind, count in c.instance_group.items()]
        for group in groups:
            if group["count"] is None:
                del group["count"]
        if groups:
            out["instance_group"] = groups
        if c.decoupled:
            out["model_transaction_policy"] = {"decoupled": True}
        if c.backend_parameters:
            out["parameters"] = {k: {"string_value": str(v)} for k, v in c.backend_parameters.items()}
        if c.response_cache:
            out["response_cache"] = {"enable": c.response_cache.enable}
        return out

    def to_file(self, config_path: Union[str, pathlib.Path]) -> str:
        """Writes config.pbtxt and returns its text."""
        config = _snake(self.get_config())
        text = "".join(_pbtxt(config, ""))
        path = pathlib.Path(config_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return text


def _whole(name: str, value: Any) -> int:
    """A number of a configuration as int. Raises PyTritonBadParameterError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise PyTritonBadParameterError(f"The `{name}` must be a whole number, not {value!r}.") from None


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    datatype = triton_type(spec.dtype)
    if datatype is None:
        raise PyTritonBadParameterError(f"Unsupported dtype `{spec.dtype}` of tensor `{spec.name}`.")
    out: dict[str, Any] = {"name": spec.name, "dims": [int(d) for d in spec.shape], "data_type": datatype}
    if spec.optional:
        out["optional"] = True
    return out


def _policy(policy: QueuePolicy) -> dict[str, Any]:
    return {
        "timeoutAction": policy.timeout_action.value,
        "defaultTimeoutMicroseconds": int(policy.default_timeout_microseconds),
        "allowTimeoutOverride": bool(policy.allow_timeout_override),
        "maxQueueSize": int(policy.max_queue_size),
    }


def _batcher(b: DynamicBatcher) -> dict[str, Any]:
    levels = _whole("priority_levels", b.priority_levels)
    if b.default_priority_level and not 1 <= b.default_priority_level <= levels:
        raise PyTritonBadParameterError(f"The `default_priority_level` must be between 1 and {levels}.")
    if b.priority_queue_policy and not levels:
        raise PyTritonBadParameterError(
            "Provide the `priority_levels` if you want to define `priority_queue_policy` for Dynamic Batching."
        )
    for priority in b.priority_queue_policy or {}:
        if not 1 <= priority <= levels:
            raise PyTritonBadParameterError(
                f"Invalid `priority`={priority} provided. The value must be between 1 and {levels}."
            )
    out: dict[str, Any] = {}
    delay = _whole("max_queue_delay_microseconds", b.max_queue_delay_microseconds)
    if delay < 0:
        raise PyTritonBadParameterError("The `max_queue_delay_microseconds` must be greater or equal to 0.")
    if delay:
        out["maxQueueDelayMicroseconds"] = delay
    if b.preferred_batch_size is not None:
        if isinstance(b.preferred_batch_size, (str, bytes)) or not isinstance(b.preferred_batch_size, Sequence):
            raise PyTritonBadParameterError(
                f"The `preferred_batch_size` must be a list of sizes, not {b.preferred_batch_size!r}."
            )
        if b.preferred_batch_size:
            out["preferredBatchSize"] = [_whole("preferred_batch_size", size) for size in b.preferred_batch_size]
    if b.preserve_ordering:
        out["preserveOrdering"] = True
    if levels:
        out["priorityLevels"] = int(levels)
    if b.default_priority_level:
        out["defaultPriorityLevel"] = int(b.default_priority_level)
    if b.default_queue_policy:
        out["defaultQueuePolicy"] = _policy(b.default_queue_policy)
    if b.priority_queue_policy:
        out["priorityQueuePolicy"] = {int(k): _policy(v) for k, v in b.priority_queue_policy.items()}
    return out


# Fields whose value is a map, and those whose string value is the name of an enumeration's member.
_MAPS = frozenset({"parameters", "priority_queue_policy"})
_ENUMS = frozenset({"data_type", "kind", "timeout_action"})


def _snake(value: Any, in_map: bool = False) -> Any:
    """Field names in snake case, as the text form has them."""
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            name = key if in_map else "".join("_" + ch.lower() if ch.isupper() else ch for ch in key)
            out[name] = _snake(item, name in _MAPS)
        return out
    return [_snake(item) for item in value] if isinstance(value, list) else value


def _pbtxt(fields: dict[str, Any], indent: str) -> list[str]:
    lines: list[str] = []
    for name, value in fields.items():
        if name in _MAPS:
            for key, item in value.items():
                shown = key if name == "priority_queue_policy" else _quote(key)
                inner = _pbtxt(item, indent + "    ")
                lines += [f"{indent}{name} {{\n", f"{indent}  key: {shown}\n", f"{indent}  value {{\n"]
                lines += [*inner, f"{indent}  }}\n", f"{indent}}}\n"]
            continue
        items: Sequence[Any] = value if isinstance(value, list) else [value]
        for item in items:
            if isinstance(item, dict):
                lines += [f"{indent}{name} {{\n", *_pbtxt(item, indent + "  "), f"{indent}}}\n"]
            elif isinstance(item, bool):
                lines.append(f"{indent}{name}: {str(item).lower()}\n")
            elif isinstance(item, str) and name not in _ENUMS:
                lines.append(f"{indent}{name}: {_quote(item)}\n")
            else:
                lines.append(f"{indent}{name}: {item}\n")
    return lines


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
