"""The model class of all frameworks: completion, checks, and one call for each batch."""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable, Optional

import numpy as np

from neso_runtime.datatypes import BF16
from neso_runtime.errors import TritonError
from neso_runtime.response import InferenceResponse
from neso_runtime.tensor import Tensor

from .errors import INTERNAL, LoadError, first_line, is_lite
from .specs import NUMBERS, TensorSpec, complete, effective, sees_of, validate

# Modules here by the backends that they run.
LOADERS = {"pytorch": "pytorch", "tensorflow": "tensorflow", "sklearn": "sklearn", "tensorrt": "tensorrt"}


class Order:
    """What a loader is told: where the model lies and what the configuration says."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.path: str = order["model_path"]
        self.directory: str = order.get("model_directory") or ""
        self.version_directory: str = order.get("version_directory") or os.path.dirname(self.path)
        self.config: dict[str, Any] = order.get("config") or {}
        self.settings: dict[str, str] = order.get("settings") or {}
        self.name: str = order.get("name") or self.config.get("name") or ""

    def parameter(self, name: str, default: str = "") -> str:
        """A parameter of the model."""
        value = (self.config.get("parameters") or {}).get(name)
        return default if value is None else str(value.get("string_value", default))

    def flag(self, name: str, default: bool) -> bool:
        """A parameter that is true or false."""
        text = self.parameter(name).strip().lower()
        if text in ("", "true", "1", "yes", "on", "false", "0", "no", "off"):
            return default if not text else text in ("true", "1", "yes", "on")
        raise LoadError(f"model '{self.name}': parameter {name} is '{self.parameter(name)}', expected true or false")

    def number(self, name: str, default: int) -> int:
        """A parameter that is a number from 0 on; 0 means the default."""
        text = self.parameter(name).strip()
        try:
            value = int(text or 0)
        except ValueError:
            value = -1
        if value < 0:
            raise LoadError(f"model '{self.name}': parameter {name} is '{text}', expected a number from 0 on")
        return value or default

    def shown(self, text: str) -> str:
        """A text with the directories of the machine replaced by what a client knows of the repository."""
        if self.directory:
            version = os.path.basename(self.version_directory)
            text = text.replace(self.version_directory, f"{self.name}/{version}").replace(self.directory, self.name)
        return text

    def file(self) -> str:
        """The model's file as error texts name it."""
        return f"'{self.shown(self.path)}'"


def threads() -> int:
    """This worker's share of the cores, as the server says it."""
    try:
        return max(1, int(os.environ.get("OMP_NUM_THREADS", "1").split(",")[0]))
    except ValueError:
        return 1


class Loader:
    """One model of a framework. A framework implements load, prepare and run."""

    # Whether the names of a configuration may be others than the model's.
    renames = False

    def __init__(self, order: Order) -> None:
        self.order = order
        self.inputs: list[TensorSpec] = []
        self.outputs: list[TensorSpec] = []
        # Names of the configuration's inputs that the model takes without dimensions.
        self.scalars: set[str] = set()

    def load(self, device: Optional[int]) -> None:
        """Loads the model, on a GPU or, with None, on the CPU, and learns its inputs and outputs."""
        raise NotImplementedError

    def learn(self, config: dict[str, Any]) -> None:
        """Completes inputs and outputs for an auto-completion, where that takes more than loading."""

    def prepare(self, config: dict[str, Any]) -> None:
        """Makes the model ready for run by the complete configuration, which fits."""

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Outputs by name as arrays; BF16 comes and goes as uint16."""
        raise NotImplementedError

    def explain(self, error: BaseException) -> str:
        """What a failed run is told as."""
        return first_line(error)


class HostedModel:
    """What the worker makes instances of; a subclass for each worker carries the loader."""

    loader: Loader
    loaded: Optional[list[Optional[int]]] = None

    @classmethod
    def ensure_loaded(cls, device: Optional[int]) -> None:
        """Loads the model unless it is loaded on that device."""
        if cls.loaded != [device]:
            cls.loader.load(device)
            cls.loaded = [device]

    @classmethod
    def completed(cls, config: dict[str, Any]) -> dict[str, Any]:
        """The whole configuration."""
        loader = cls.loader
        cls.ensure_loaded(None)
        loader.learn(config)
        default = loader.order.settings.get("default-max-batch-size", "4")
        return complete(config, loader.inputs, loader.outputs, int(default) if default.isdigit() else 4)

    def initialize(self, args: dict[str, str]) -> None:
        """Readies the loader for the configuration and the device of the instance."""
        loader = self.loader
        config = loader.order.config = self.config
        device = int(args.get("model_instance_device_id") or 0) if args.get("model_instance_kind") == "GPU" else None
        self.ensure_loaded(device)
        validate(config, loader.inputs, loader.outputs, loader.renames)
        batching = int(config.get("max_batch_size") or 0) > 0
        loader.scalars = {spec.name for spec in loader.inputs if spec.shape == () and not batching}
        loader.prepare(config)
        # numpy has no bfloat16: such outputs are told apart by the configuration.
        self._bf16 = {io["name"] for io in sees_of(config, "output") if NUMBERS.get(io.get("data_type", "")) == BF16}
        ones = {io["name"] for io in sees_of(config, "output") if not batching and effective(io) == [1]}
        self.run = _with_scalars(loader.run, loader.scalars, ones) if loader.scalars or ones else loader.run

    config: dict[str, Any]

    def numbers(self, name: str) -> int:
        """The datatype of an output that its dtype does not tell, else 0."""
        return BF16 if name in self._bf16 else 0

    def execute(self, requests: list[Any]) -> list[InferenceResponse]:
        """Requests of a model without a batch dimension, one by one."""
        return [self.respond(request.inputs()) for request in requests]

    def respond(self, tensors: list[Any]) -> InferenceResponse:
        """The response to one request."""
        try:
            arrays = {t.name(): t._raw() if t.triton_dtype() == BF16 else t.as_numpy() for t in tensors}
            return self.response(self.run({name: _writable(a) for name, a in arrays.items()}))
        except Exception as error:
            return self.failure(error)

    def response(self, outputs: dict[str, Any]) -> InferenceResponse:
        """Outputs as a response of the worker."""
        made = []
        for name, array in outputs.items():
            tensor = Tensor(name, array)
            tensor._number = self.numbers(name) or tensor._number
            made.append(tensor)
        return InferenceResponse(made)

    def failure(self, error: BaseException) -> InferenceResponse:
        """An error as a response of the worker."""
        return InferenceResponse(error=TritonError(self.loader.explain(error), getattr(error, "code", INTERNAL)))


def _with_scalars(run: Callable[[dict[str, Any]], dict[str, Any]], scalars: set[str], ones: set[str]) -> Any:
    """A run of a model that has tensors without dimensions, which are of length 1 in a configuration."""

    def wrapped(inputs: dict[str, Any]) -> dict[str, Any]:
        given = {name: array.reshape(()) if name in scalars else array for name, array in inputs.items()}
        made = run(given)
        return {name: a.reshape(1) if name in ones and a.ndim == 0 else a for name, a in made.items()}

    return wrapped


def _writable(array: np.ndarray) -> np.ndarray:
    """Frameworks hand out memory that models may write to: shared memory that others read must not be that."""
    return array if array.flags.writeable or isinstance(array.base, bytes) else array.copy()


def model_class(order: dict[str, Any]) -> type:
    """The class of the model that LOAD describes."""
    backend = order["framework"]
    if backend not in LOADERS:
        raise LoadError(f"backend '{backend}' is not known to the Python worker", INTERNAL)
    name = LOADERS[backend]
    path = order["model_path"]
    if backend == "tensorflow" and (path.lower().endswith(".tflite") or is_lite(path)):
        name = "tflite"
    module = importlib.import_module(f"{__package__}.{name}")
    return type("Hosted", (HostedModel,), {"loader": module.Loader(Order(order)), "config": order.get("config") or {}})
