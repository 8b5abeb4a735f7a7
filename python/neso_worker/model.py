"""A model as it is loaded: the imported class, and its configuration completed."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any, Optional

from neso_runtime.errors import TritonModelException

from .modelconfig import ModelConfig

CLASS = "TritonPythonModel"


class _Anew(importlib.machinery.SourceFileLoader):
    """Compiles the source at each load.

    Byte code that Python has kept counts as that of any source of the same size and second: a model that was
    changed and loaded twice within a second would go on as it was.
    """

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


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
    spec = importlib.util.spec_from_file_location(name, path, loader=_Anew(name, path))
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
