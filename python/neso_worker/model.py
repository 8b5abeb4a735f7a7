"""A loaded model: the imported class, its tables of tensors, its instances."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from typing import Any, Optional

from .channel import Link
from .devices import Devices
from .errors import TritonModelException
from .leases import Leases
from .memory import Segments
from .modelconfig import ModelConfig
from .store import Store

CLASS = "TritonPythonModel"
DEFAULT_INLINE_LIMIT = 8192


class Tables:
    """What requests and responses of one instance are coded with."""

    def __init__(self, worker: Any, instance: int) -> None:
        self.worker = worker
        self.instance = instance
        self.link: Link = worker.link
        self.segments: Segments = worker.segments
        self.leases: Leases = worker.leases
        self.store: Store = worker.store
        self.devices: Devices = worker.devices
        self.inline_limit = DEFAULT_INLINE_LIMIT
        self.decoupled = False
        # How much of a request's responses may be sent before the client takes them; 0 means no bound.
        self.window = 0
        self.input_names: list[str] = []
        self.output_names: list[str] = []
        self.output_index: dict[str, int] = {}

    def set_names(self, inputs: list[str], outputs: list[str]) -> None:
        """Sets the index tables of tensor entries."""
        self.input_names = inputs
        self.output_names = outputs
        self.output_index = {name: index for index, name in enumerate(outputs)}


def import_model(path: str, directory: str, version_directory: str, version: str) -> type:
    """Imports model.py as <version>.<file> and returns its class.

    Helper modules beside it can be imported by their names, or relative to it.
    """
    if not path.endswith(".py"):
        raise TritonModelException(f"Model name must end with '.py'. Model name is \"{os.path.basename(path)}\".")
    if not os.path.isfile(path):
        raise TritonModelException(f"Python model file not found in '{path}'")
    folder = os.path.dirname(os.path.abspath(path))
    for entry in (directory, folder, version_directory):
        if entry and entry not in sys.path:
            sys.path.insert(0, entry)
    package = version or "model"
    if package not in sys.modules:
        parent = types.ModuleType(package)
        parent.__path__ = [folder]
        sys.modules[package] = parent
    name = f"{package}.{os.path.basename(path)[:-3]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TritonModelException(f"Python model file '{path}' cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    found = getattr(module, CLASS, None)
    if not isinstance(found, type):
        raise TritonModelException(f"Python model {path} has no class '{CLASS}'.")
    if not callable(getattr(found, "execute", None)):
        raise TritonModelException(f"Python model {path} does not implement `execute` method.")
    return found


def takes_devices(config: dict[str, Any]) -> bool:
    """Whether the model configuration says that inputs may lie on a GPU."""
    value = (config.get("parameters") or {}).get("FORCE_CPU_ONLY_INPUT_TENSORS") or {}
    return str(value.get("string_value")).lower() == "no"


def complete_config(model_class: type, name: str, config: dict[str, Any]) -> Optional[dict[str, Any]]:
    """Runs auto_complete_config; None when the model has none."""
    complete = getattr(model_class, "auto_complete_config", None)
    if complete is None:
        return None
    result = complete(ModelConfig(config))
    if not isinstance(result, ModelConfig):
        raise TritonModelException(
            f"auto_complete_config function in model '{name}' must return a valid pb.ModelConfig object."
        )
    return result.as_dict()
