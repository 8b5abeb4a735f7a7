"""Inputs and outputs of PyTorch modules that do not describe them: found by running the module.

TorchScript and model.py know the arguments of forward, not their datatypes and shapes. What the configuration says is
taken; what it leaves out is guessed from the first layer, and the guess holds only if the module runs with it.
"""

from __future__ import annotations

from typing import Any, Optional

from neso_runtime.datatypes import DTYPES, object_array

from .errors import LoadError, first_line
from .specs import BFLOAT16, NUMBERS, STRING, TensorSpec, effective, io_of

# Rows of the two runs that tell whether the first dimension is the batch, and sizes for open dimensions.
ROWS = (2, 3)
SIZES = ((8, 8), (16, 9), (32, 32), (64, 48), (224, 192))


def learn(loader: Any, config: dict[str, Any]) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """The inputs and outputs of a module, with the batch dimension when it has one."""
    inputs, outputs = io_of(config, "input"), io_of(config, "output")
    if inputs and outputs:
        return [], []  # the names are the configuration's own
    batching = int(config.get("max_batch_size") or 0) > 0
    if inputs:
        shapes = [([-1] if batching else []) + effective(io) for io in inputs]
        specs = [TensorSpec(io["name"], io.get("data_type") or "", tuple(s)) for io, s in zip(inputs, shapes)]
        made, why = _outputs(loader, specs)
        if made is None:
            raise LoadError(
                f"autofill failed for model '{loader.order.name}': it did not run with zeros of the configured shapes, to see "
                f"its outputs: {why}. Write 'output' into the configuration"
            )
        return specs, made
    why = "its forward takes no tensors"
    for specs in _guesses(loader):
        found, why = _outputs(loader, specs)
        if found is not None:
            return specs, found
    names = ", ".join(a.name for a in loader.arguments)
    raise LoadError(
        f"autofill failed for model '{loader.order.name}': {loader.kind} does not say the datatypes and shapes of its inputs "
        f"({names}), and none of what was tried runs ({why}). Write 'input' with data_type and dims into the configuration, "
        "or save the model with torch.export.save, which says them"
    )


def _guesses(loader: Any) -> list[list[TensorSpec]]:
    """What the inputs may be, the likeliest first."""
    shapes: list[tuple[str, tuple[int, ...]]] = []
    modules = loader.module.modules() if hasattr(loader.module, "modules") else ()
    for layer in modules:
        kind = getattr(layer, "original_name", type(layer).__name__)
        weight = getattr(layer, "weight", None)
        if weight is None or not hasattr(weight, "shape"):
            continue
        size = tuple(weight.shape)
        data_type = loader.data_type(weight.dtype)
        if kind == "Linear":
            shapes.append((data_type, (-1, size[1])))
        elif kind.startswith("Embedding"):
            shapes.append(("TYPE_INT64", (-1, -1)))
        elif kind in ("Conv1d", "Conv2d", "Conv3d"):
            channels = size[1] * int(getattr(layer, "groups", 1) or 1)
            shapes.append((data_type, (-1, channels, *[-1] * (len(size) - 2))))
        elif kind in ("BatchNorm1d", "LayerNorm"):
            shapes.append((data_type, (-1, *size)))
        else:
            continue
        break
    if not shapes:
        shapes = [("TYPE_FP32", (-1, -1))]
    arguments = [a for a in loader.arguments if not a.optional]
    if not arguments or any(a.kind == "tensors" for a in arguments):
        return []
    return [
        [
            TensorSpec(a.name, STRING if a.kind == "strings" else t, (-1,) if a.kind == "strings" else s)
            for a in arguments
        ]
        for t, s in shapes
    ]


def _zeros(loader: Any, spec: TensorSpec, rows: int, size: int) -> Any:
    import numpy as np

    shape = tuple(rows if at == 0 and d < 0 else size if d < 0 else d for at, d in enumerate(spec.shape or ()))
    if spec.data_type == STRING:
        return object_array([b""] * int(np.prod(shape)), shape)
    if spec.data_type == BFLOAT16:
        return np.zeros(shape, np.uint16)
    return np.zeros(shape, DTYPES[NUMBERS.get(spec.data_type, 0)] or np.float32)


def _outputs(loader: Any, specs: list[TensorSpec]) -> tuple[Optional[list[TensorSpec]], str]:
    """The outputs of a run with these inputs, or why it failed. Dimensions that differ between two runs are open."""
    call = loader._call(loader.bind_inputs([{"name": s.name, "data_type": s.data_type} for s in specs]))
    why = ""
    for sizes in SIZES:
        try:
            runs = [
                _described(loader, call({s.name: _zeros(loader, s, rows, size) for s in specs}))
                for rows, size in zip(ROWS, sizes)
            ]
        except LoadError:
            raise
        except Exception as error:
            why = loader.order.shown(first_line(error))
            if any(d < 0 for s in specs for d in (s.shape or ())[1:]):
                continue
            break
        first, second = runs
        outputs = []
        for (name, data_type, shape), (_, _, other) in zip(first, second):
            if len(shape) == len(other):
                shape = tuple(a if a == b else -1 for a, b in zip(shape, other))
            outputs.append(TensorSpec(name, data_type, shape))
        return outputs, ""
    return None, why


def _described(loader: Any, result: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name, datatype and shape of what a module gave."""
    if loader.results:
        items = [(one.name, result[one.place]) for one in loader.results]
    elif isinstance(result, dict):
        items = [(str(name), value) for name, value in result.items()]
    else:
        texts = isinstance(result, list) and result and isinstance(result[0], (str, bytes))
        values = result if isinstance(result, (list, tuple)) and not texts else [result]
        items = [(f"OUTPUT__{place}", value) for place, value in enumerate(values)]
    described = []
    for name, value in items:
        if hasattr(value, "dtype"):
            described.append((name, loader.data_type(value.dtype), tuple(value.shape)))
        else:
            described.append((name, STRING, loader.array(value).shape))
    return described
