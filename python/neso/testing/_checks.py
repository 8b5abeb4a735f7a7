"""Answers of a model against its configuration, as the server checks them with --strict-outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from neso_runtime.datatypes import NAMES


def strict(config: Mapping[str, Any], default: bool) -> bool:
    """Whether what is not as configured is an error: what the model's ``strict_outputs`` says, else ``default``."""
    value = (config.get("parameters") or {}).get("strict_outputs")
    if isinstance(value, Mapping):
        value = value.get("string_value")
    return default if value is None else str(value).lower() in ("1", "t", "true")


def faults(name: str, config: Mapping[str, Any], request: Any, outputs: Sequence[Any]) -> list[str]:
    """What of the outputs (tensors) of one response is not as configured, in the server's words."""
    decoupled = bool((config.get("model_transaction_policy") or {}).get("decoupled"))
    batching = int(config.get("max_batch_size") or 0) > 0
    batch = -1
    if batching and not decoupled and request.inputs():
        shape = list(request.inputs()[0].shape())
        batch = shape[0] if shape else -1
    found = []
    answered = {tensor.name(): tensor for tensor in outputs}
    wanted = set(request.requested_output_names())
    for output in config.get("output") or ():
        expected = _pattern(output, batch if batching and not output.get("is_shape_tensor") else None)
        kind = str(output.get("data_type", "")).replace("TYPE_", "", 1).replace("STRING", "BYTES")
        tensor = answered.get(output["name"])
        if tensor is None:
            if not decoupled and output["name"] in wanted:
                none = f"model '{name}' returned no output '{output['name']}'"
                found.append(f"{none}, expected one of datatype {kind} and shape {_text(expected)}")
            continue
        got, shape = NAMES[tensor.triton_dtype()].replace("STRING", "BYTES"), list(tensor.shape())
        retyped, reshaped = got != kind, not _fits(shape, expected)
        of = f"output '{output['name']}' of model '{name}' has"
        if retyped and reshaped:
            found.append(f"{of} datatype {got} and shape {_text(shape)}, expected {kind} and {_text(expected)}")
        elif retyped:
            found.append(f"{of} datatype {got}, expected {kind}")
        elif reshaped:
            found.append(f"{of} shape {_text(shape)}, expected {_text(expected)}")
    return found


def _pattern(output: Mapping[str, Any], batch: Any) -> list[int]:
    """The shape that a model gives, -1 for any size; batch is None where there is no batch dimension."""
    reshape = output.get("reshape")
    dims = output.get("dims") if reshape is None else reshape.get("shape")
    return ([] if batch is None else [batch]) + [int(d) for d in dims or ()]


def _fits(shape: Sequence[int], expected: Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(want in (-1, size) for size, want in zip(shape, expected))


def _text(shape: Iterable[int]) -> str:
    return "[" + ",".join(str(d) for d in shape) + "]"
