"""TensorFlow Lite: .tflite files, run by LiteRT (the package ai-edge-litert) or, where that is missing, by TensorFlow."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any, Callable, Optional

import numpy as np

from neso_runtime.datatypes import object_array

from .errors import (
    UNAVAILABLE,
    UNSUPPORTED,
    LoadError,
    first_line,
    framework,
    is_lite,
    looks_like,
    memory_hint,
    size_of,
)
from .host import Loader, Order, threads
from .specs import BFLOAT16, STRING, TensorSpec, data_type, sees_of

PACKAGE = "ai_edge_litert.interpreter"

_HINTS = (
    ("Select TensorFlow op", "the model has operators of TensorFlow itself: convert it with those of TensorFlow "
                             "Lite only, or save a SavedModel"),
    ("unresolved custom op", "the model has an operator of its own, which needs a library: save the model as a SavedModel, for TensorFlow"),
    ("not a valid Flatbuffer", "the file is cut off or damaged: write the model again"),
    ("Missing registration", "the file is cut off or damaged, or newer than this interpreter: write the model "
                             "again, or use a later package"),
    ("No subgraph", "the file is cut off or damaged: write the model again"),
)  # fmt: skip


class Loader(Loader):  # type: ignore[no-redef]
    """A model of TensorFlow Lite."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._call: Optional[Callable[[dict[str, Any]], dict[str, Any]]] = None
        self._made: tuple[Any, ...] = ()

    def load(self, device: Optional[int]) -> None:
        order, path = self.order, self.order.path
        if device is not None:
            raise LoadError(
                f"model '{order.name}' has instances of KIND_GPU, TensorFlow Lite runs on the CPU: write KIND_CPU",
                UNAVAILABLE,
            )
        if not is_lite(path):
            what = looks_like(path) or f"cut off, damaged, or something else ({size_of(path)} bytes): write the model again"  # fmt: skip
            raise LoadError(f"{order.file()} is not a TensorFlow Lite model: it is {what}")
        try:
            interpreter = self._open()
            self._describe(interpreter)
        except LoadError:
            raise
        except Exception as error:
            text = order.shown(first_line(error))
            hint = memory_hint(error, path) or next((h for part, h in _HINTS if part in text), "")
            hint = hint or f"its {size_of(path)} bytes cannot be loaded: write the model again"
            raise LoadError(f"failed to load model '{order.name}': {order.file()}: {text} ({hint})") from None

    def _open(self) -> Any:
        """The interpreter of the model, ready to run."""
        find = importlib.util.find_spec
        if find(PACKAGE.split(".")[0]) or not find("tensorflow"):
            package = framework(PACKAGE, "tensorflow", "ai-edge-litert")
        else:
            package = framework("tensorflow", "tensorflow", "ai-edge-litert", (2, 12)).lite
            warnings.filterwarnings("ignore", message=".*tf.lite.Interpreter is deprecated.*")
        order = self.order
        made = package.Interpreter(model_path=order.path, num_threads=order.number("TF_NUM_INTRA_THREADS", threads()))
        made.allocate_tensors()
        return made

    def _describe(self, interpreter: Any) -> None:
        """Inputs, outputs and a call: those of a signature where the model has one, else of its only graph."""
        order = self.order
        name, signatures = order.parameter("TF_SIGNATURE_DEF"), interpreter.get_signature_list()
        if name and name not in signatures:
            has = ", ".join(f"'{s}'" for s in signatures) or "none"
            raise LoadError(
                f"{order.file()} has no signature '{name}'; it has {has} (the parameter TF_SIGNATURE_DEF names the one to serve)"
            )
        if signatures:
            name = name or ("serving_default" if "serving_default" in signatures else next(iter(signatures)))
            runner = interpreter.get_signature_runner(name)
            inputs, outputs = runner.get_input_details(), runner.get_output_details()
            self._call = lambda tensors: runner(**tensors)
            self._made = (interpreter, runner)
        else:
            inputs, outputs = (
                {d["name"]: d for d in details}
                for details in (interpreter.get_input_details(), interpreter.get_output_details())
            )
            self._call = _graph(interpreter, inputs, outputs)
            self._made = (interpreter,)
        self._bf16 = {n: d["dtype"] for n, d in inputs.items() if _kind(d) == "bfloat16"}
        self.inputs = [self._spec(n, inputs[n]) for n in sorted(inputs)]
        self.outputs = [self._spec(n, outputs[n]) for n in sorted(outputs)]

    def _spec(self, name: str, details: dict[str, Any]) -> TensorSpec:
        kind = _kind(details)
        text = {"bytes_": STRING, "bfloat16": BFLOAT16}.get(kind) or data_type(np.dtype(details["dtype"]))
        if not text:
            raise LoadError(
                f"'{name}' of {self.order.file()} has the datatype {kind}, which the protocol does not have",
                UNSUPPORTED,
            )
        shape = details.get("shape_signature")
        shape = details["shape"] if shape is None or len(shape) != len(details["shape"]) else shape
        return TensorSpec(name, text, tuple(int(d) for d in shape))

    def prepare(self, config: dict[str, Any]) -> None:
        self._names = [io["name"] for io in sees_of(config, "output")]

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        for name, dtype in self._bf16.items():
            inputs[name] = inputs[name].view(dtype)
        assert self._call is not None
        made = self._call(inputs)
        return {name: _array(made[name]) for name in self._names}

    def explain(self, error: BaseException) -> str:
        hint = memory_hint(error, self.order.path)
        return (
            "TensorFlow Lite execute failure: " + self.order.shown(first_line(error)) + (f" ({hint})" if hint else "")
        )


def _kind(details: dict[str, Any]) -> str:
    return str(getattr(details["dtype"], "__name__", details["dtype"]))


def _graph(interpreter: Any, inputs: dict[str, Any], outputs: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:  # fmt: skip
    """A call of a model without signatures."""
    shapes = {name: tuple(details["shape"]) for name, details in inputs.items()}

    def call(tensors: dict[str, Any]) -> dict[str, Any]:
        for name, array in tensors.items():
            if shapes[name] != array.shape:
                shapes[name] = ()  # until the memory for it is there
                interpreter.resize_tensor_input(inputs[name]["index"], array.shape)
        interpreter.allocate_tensors()  # does nothing where no shape has changed
        for name, array in tensors.items():
            shapes[name] = array.shape
            interpreter.set_tensor(inputs[name]["index"], array)
        interpreter.invoke()
        return {name: interpreter.get_tensor(details["index"]) for name, details in outputs.items()}

    return call


def _array(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        return object_array([bytes(item) for item in array.ravel().tolist()], array.shape)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array
