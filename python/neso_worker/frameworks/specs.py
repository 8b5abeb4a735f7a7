"""Inputs and outputs of a model, and what they make of a configuration: completion, and what contradicts."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from neso_runtime.datatypes import BF16, BYTES, NAMES, number_of

from .errors import LoadError


class TensorSpec(NamedTuple):
    """A tensor as the model has it."""

    name: str
    # As in the configuration (TYPE_FP32); "" when the model does not say.
    data_type: str
    # The whole shape with the batch dimension, -1 for any size; None when the model does not say.
    shape: Optional[tuple[int, ...]]
    optional: bool = False


def data_type(dtype: Any) -> str:
    """The configuration's name of a numpy dtype, "" for none."""
    number = number_of(dtype)
    return f"TYPE_{NAMES[number]}" if number else ""


NUMBERS = {f"TYPE_{name}": number for number, name in enumerate(NAMES)}
STRING, BFLOAT16 = f"TYPE_{NAMES[BYTES]}", f"TYPE_{NAMES[BF16]}"


def show(shape: Any) -> str:
    """A shape as error texts have it."""
    return "[" + ",".join(map(str, shape)) + "]"


def io_of(config: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The inputs or outputs of a configuration."""
    return list(config.get(kind) or ())


def sees_of(config: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What the model sees as inputs or outputs: those of the configuration, its states, and what the server makes of a
    batch and a sequence.
    What the server makes has no dims."""
    sequence = config.get("sequence_batching") or {}
    made = io_of(config, kind)
    more = [{**state, "name": state.get(f"{kind}_name")} for state in sequence.get("state") or ()]
    if kind == "input":
        more += [
            {"name": n, "data_type": b.get("data_type")}
            for b in config.get("batch_input") or ()
            for n in b.get("target_name") or ()
        ]
        more += [{"name": c.get("name"), "data_type": _control_type(c)} for c in sequence.get("control_input") or ()]
    for io in more:
        if all(io["name"] != other["name"] for other in made):
            made.append(io)
    return made


def _control_type(control: dict[str, Any]) -> str:
    """The datatype of a control tensor."""
    for one in control.get("control") or ():
        for values, name in (
            ("int32_false_true", "TYPE_INT32"),
            ("fp32_false_true", "TYPE_FP32"),
            ("bool_false_true", "TYPE_BOOL"),
        ):
            if one.get(values):
                return name
        return str(one.get("data_type") or "")
    return ""


def effective(io: dict[str, Any]) -> list[int]:
    """The dims that the model sees: the reshape when there is one."""
    reshape = io.get("reshape")
    return [int(d) for d in ((reshape.get("shape") or []) if reshape is not None else io.get("dims") or [])]


def whole_shape(config: dict[str, Any], io: dict[str, Any]) -> tuple[int, ...]:
    """The shape that a configuration gives to a tensor, with the batch dimension."""
    dims = effective(io)
    return tuple([-1, *dims] if int(config.get("max_batch_size") or 0) > 0 else dims)


def can_batch(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> Optional[TensorSpec]:
    """The first tensor without an open first dimension, None when the model batches."""
    for spec in (*inputs, *outputs):
        if spec.shape is None or not spec.shape or spec.shape[0] != -1:
            return spec
    return None


def entry(spec: TensorSpec, batching: bool) -> dict[str, Any]:
    """An input or output of a configuration."""
    dims = list(spec.shape or ())
    if batching:
        dims = dims[1:]
    made: dict[str, Any] = {"name": spec.name, "data_type": spec.data_type, "dims": dims or [1]}
    if not dims and batching:
        made["reshape"] = {"shape": []}
    if spec.optional:
        made["optional"] = True
    return made


def complete(
    config: dict[str, Any], inputs: list[TensorSpec], outputs: list[TensorSpec], default_batch: int
) -> dict[str, Any]:
    """The configuration with what it leaves out, by the rules of the server's other backends."""
    name = config.get("name", "")
    given = int(config.get("max_batch_size") or 0)
    needs_inputs, needs_outputs = not io_of(config, "input"), not io_of(config, "output")
    if not needs_inputs and not needs_outputs:
        return config
    obstacle = can_batch(inputs, outputs)
    if given > 0 and obstacle is not None and obstacle.shape is not None:
        raise LoadError(
            f"autofill failed for model '{name}': model does not support batching while non-zero max_batch_size is "
            f"specified ('{obstacle.name}' has shape {show(obstacle.shape)}; write max_batch_size: 0, or save the model "
            "with a dynamic first dimension)"
        )
    batch = given
    # Dims that the configuration gives without a batch size mean the whole shape.
    if given == 0 and obstacle is None and needs_inputs and needs_outputs:
        batch = default_batch
    config["max_batch_size"] = batch
    if batch > 1 and not any(config.get(k) is not None for k in ("dynamic_batching", "sequence_batching")):
        config["dynamic_batching"] = {}
    if needs_inputs:
        config["input"] = [entry(spec, batch > 0) for spec in inputs]
    if needs_outputs:
        config["output"] = [entry(spec, batch > 0) for spec in outputs]
    return config


def validate(config: dict[str, Any], inputs: list[TensorSpec], outputs: list[TensorSpec], extra: bool = False) -> None:
    """Holds a configuration to the model; all that contradicts is told at once. extra: names are not the model's."""
    batching = int(config.get("max_batch_size") or 0) > 0
    name = config.get("name", "")
    faults: list[str] = []
    sees = {"input": sees_of(config, "input"), "output": sees_of(config, "output")}
    given = {io["name"] for io in sees["input"]}
    missing = [spec for spec in inputs if spec.name not in given and not spec.optional]
    if missing and not extra:
        lacks = ", ".join(f"'{spec.name}'" + _described(spec, batching) for spec in missing)
        faults.append(
            f"unable to load model '{name}', configuration expects {len(given)} inputs, model provides {len(inputs)} "
            f"(the configuration lacks {lacks})"
        )
    for kind, specs in (("input", inputs), ("output", outputs)):
        for io in sees[kind]:
            faults += _check(name, kind, io, specs, batching, extra)
    if faults:
        raise LoadError("; ".join(faults))


def _described(spec: TensorSpec, batching: bool) -> str:
    if spec.shape is None or not spec.data_type:
        return ""
    return f" (data_type: {spec.data_type}, {_dims(spec.shape, batching)})"


def _dims(shape: tuple[int, ...], batching: bool) -> str:
    """What to write for a shape; a configuration cannot say "no dimensions"."""
    dims = shape[1:] if batching else shape
    if dims:
        return f"dims: {show(dims)}"
    return "dims: [1] and reshape { shape: [] }" if batching else "dims: [1]"


def _check(
    model: str, kind: str, io: dict[str, Any], specs: list[TensorSpec], batching: bool, extra: bool
) -> list[str]:
    name = io.get("name", "")
    spec = next((s for s in specs if s.name == name), None)
    if spec is None:
        if extra or not specs:
            return []
        hint = next((f" (write '{s.name}')" for s in specs if s.name.lower() == name.lower()), "")
        names = ", ".join(s.name for s in specs)
        return [f"unexpected inference {kind} '{name}', allowed {kind}s are: {names}{hint}"]
    have = io.get("data_type") or ""
    if spec.data_type and have not in ("", "TYPE_INVALID", spec.data_type):
        return [
            f"unable to load model '{model}', configuration expects datatype {have} for {kind} '{name}', model provides "
            f"{spec.data_type} (write data_type: {spec.data_type})"
        ]
    if spec.shape is None or "dims" not in io:
        return []
    if io.get("allow_ragged_batch") and batching:
        if len(spec.shape) == 1:
            return []
        return [
            f"unable to load model '{model}', configuration expects model provides input with shape [-1] for ragged input '{name}', "
            f"model provides {show(spec.shape)} (a ragged batch is one list of all elements)"
        ]
    dims = effective(io)
    whole = [-1, *dims] if batching else dims
    if not spec.shape and not batching and dims == [1]:
        return []  # a configuration cannot say "no dimensions"
    fits = len(whole) == len(spec.shape) and all(
        want in (-1, found) or found == -1 for want, found in zip(whole, spec.shape)
    )
    if batching and spec.shape and spec.shape[0] != -1:
        return [
            f"model '{model}', tensor '{name}': the first dimension of shape {show(spec.shape)} is fixed, but max_batch_size "
            "is above 0 (write max_batch_size: 0, or save the model with a dynamic first dimension)"
        ]
    if fits:
        return []
    with_batch = (
        " (an initial batch dimension because max_batch_size > 0 followed by the explicit tensor shape, making complete "
        f"shape {show(whole)})"
        if batching
        else f" (shape {show(whole)})"
    )
    return [
        f"model '{model}', tensor '{name}': the model expects {len(spec.shape)} dimensions (shape {show(spec.shape)}) but the "
        f"model configuration specifies {len(whole)} dimensions{with_batch} (write {_dims(spec.shape, batching)})"
    ]
