"""What a PyTorch file holds, and its module with the names of what goes in and comes out."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import sys
import zipfile
from typing import Any, NamedTuple

from . import torchtrees
from .errors import UNSUPPORTED, LoadError, looks_like, size_of
from .host import Order
from .torchtrees import Leaf, Result

SCRIPT, EXPORTED, COMPILED, EAGER = "TorchScript", "torch.export", "AOTInductor", "model.py"
# Stands for a leaf that is an input.
TENSOR = object()
# How the code of TorchScript and of exported and compiled modules names operators of torchvision.
_TORCHVISION = re.compile(rb"(?:\bops\.torchvision\.|torchvision::)(\w+)")


class Argument(NamedTuple):
    """One argument of forward."""

    name: str
    # tensor, strings (a list of them) or tensors (a dictionary by name)
    kind: str
    optional: bool
    # Other names that a configuration may have for it.
    aliases: tuple[str, ...] = ()


def kind_of(order: Order) -> str:
    """What the file is, by its content: the name does not say it."""
    path, file = order.path, order.file()
    if path.endswith(".py"):
        return EAGER
    beside = os.path.join(order.version_directory, "model.py")
    if os.path.isfile(beside):
        return EAGER
    if not os.path.exists(path):
        raise LoadError(f"unable to find {file} for model '{order.name}'", 4)
    if os.path.isdir(path):
        raise LoadError(
            f"{file} is a directory: write the package as one file, as torch.export.save and aoti_compile_and_package do"
        )
    wanted = "a TorchScript, torch.export or AOTInductor file"
    if not zipfile.is_zipfile(path):
        what = looks_like(path)
        if what == "a Python pickle":
            what += " (torch.save of an old version): save it with torch.jit.script or torch.export"
        elif not what:
            what = f"cut off, damaged, or something else ({size_of(path)} bytes): write the model again"
            with open(path, "rb") as stream:
                if stream.read(4) == b"PK\x03\x04":
                    what = f"cut off: the end of the archive is missing ({size_of(path)} bytes): write the model again"
        raise LoadError(f"{file} is not {wanted}: it is {what}")
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise LoadError(f"{file} is damaged ({error}): write the model again") from None
    if any("/data/aotinductor/" in f"/{name}" for name in names):
        return COMPILED
    if any(name.endswith(("models/model.json", "serialized_exported_program.json")) for name in names):
        return EXPORTED
    if any("/code/" in f"/{name}" for name in names) and any(name.endswith("constants.pkl") for name in names):
        return SCRIPT
    if any(name.endswith("data.pkl") for name in names):
        raise LoadError(
            f"{file} was written by torch.save: a pickle of weights or of a whole module, without code that can be served "
            "safely. Save the model with torch.jit.script(model).save or torch.export.save, or put a model.py with the "
            "nn.Module beside a file of its state_dict"
        )
    raise LoadError(f"{file} is not {wanted}: it is a zip archive of something else (a Keras or NumPy file?)")


def torchvision_operator(path: str) -> str:
    """An operator of torchvision that the code in a file calls, "" for none. Weights are not read."""
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith((".py", ".json", ".cpp")):
                continue
            with archive.open(member) as stream:
                before = b""
                while part := stream.read(1 << 20):
                    found = _TORCHVISION.search(before + part)
                    if found:
                        return found[1].decode()
                    before = part[-128:]  # a name may lie across two parts
    return ""


def script_arguments(module: Any, order: Order) -> list[Argument]:
    """The arguments of a TorchScript module's forward."""
    arguments = []
    for argument in module.forward.schema.arguments[1:]:
        kind = _kind(str(argument.type))
        optional = argument.has_default_value()
        if not kind:
            if optional:
                continue
            raise LoadError(
                f"argument '{argument.name}' of forward in {order.file()} has the type {argument.type}: only tensors, lists of "
                "texts and dictionaries of tensors can be sent. Give it a default, or wrap the module",
                UNSUPPORTED,
            )
        arguments.append(Argument(argument.name, kind, optional))
    return arguments


def _kind(type_: str) -> str:
    type_ = type_.replace("torch.", "").replace("typing.", "")
    if type_ in ("Tensor", "Optional[Tensor]", "Tensor | None"):
        return "tensor"
    if type_.lower() in ("list[str]", "optional[list[str]]"):
        return "strings"
    if type_.lower().replace(" ", "") in ("dict[str,tensor]", "dict(str,tensor)"):
        return "tensors"
    return ""


def eager(torch: Any, order: Order) -> tuple[Any, list[Argument]]:
    """The nn.Module of model.py with the weights beside it, and the arguments of its forward."""
    path = order.path if order.path.endswith(".py") else os.path.join(order.version_directory, "model.py")
    code = f"'{order.shown(path)}'"
    for folder in (order.directory, order.version_directory):
        if folder and folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("neso_model", path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{code} cannot be imported")
    python = importlib.util.module_from_spec(spec)
    sys.modules["neso_model"] = python
    spec.loader.exec_module(python)
    wanted = order.parameter("MODEL_CLASS")
    classes = {
        name: found
        for name, found in vars(python).items()
        if isinstance(found, type) and issubclass(found, torch.nn.Module) and found.__module__ == "neso_model"
    }
    if wanted not in classes and (wanted or len(classes) != 1):
        has = ", ".join(classes) or "none"
        raise LoadError(
            f"{code} must have one class of torch.nn.Module, or the parameter MODEL_CLASS must name one; it has: {has}"
        )
    made = classes[wanted] if wanted else next(iter(classes.values()))
    module = made().eval()
    weights = order.path if not order.path.endswith(".py") else os.path.join(order.version_directory, "model.pt")
    if os.path.isfile(weights):
        _weights(torch, order, module, weights)
    parameters = list(inspect.signature(module.forward).parameters.values())
    arguments = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        annotation = parameter.annotation
        if annotation is parameter.empty:
            text = "Tensor"
        else:
            text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
            if not isinstance(annotation, (str, type)) or getattr(annotation, "__args__", None):
                text = str(annotation)
        kind = _kind(text)
        optional = parameter.default is not parameter.empty
        if not kind and optional:
            continue
        arguments.append(Argument(parameter.name, kind or "tensor", optional))
    return module, arguments


def _weights(torch: Any, order: Order, module: Any, path: str) -> None:
    file = f"'{order.shown(path)}'"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if hasattr(state, "state_dict"):
            state = state.state_dict()
        module.load_state_dict(state)
    except Exception as error:
        text = " ".join(str(error).split())[:600]
        raise LoadError(
            f"the weights in {file} do not load into {type(module).__name__} of model.py: {text} (write them with "
            "torch.save(model.state_dict(), ...))"
        ) from None


def exported_tree(program: Any) -> tuple[list[Leaf], list[Any], list[str]]:
    """Of an exported program: the leaves of its arguments, for each the constant that stands there or `TENSOR`, and the names of
    its inputs in the graph."""
    from torch.utils import _pytree as pytree

    found = torchtrees.inputs(torchtrees.tree(pytree.treespec_dumps(program.call_spec.in_spec)))
    taken = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    constants = [arg.value if type(arg).__name__ == "ConstantArgument" else TENSOR for arg in taken]
    return found, constants, [str(getattr(arg, "name", "")) for arg in taken]


def exported_results(program: Any) -> tuple[list[Result], list[str]]:
    """Of an exported program: its outputs, and the name of each leaf of the result in the graph."""
    from torch.utils import _pytree as pytree

    given = [spec.arg for spec in program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    tensors = [type(arg).__name__ != "ConstantArgument" for arg in given]
    spec = torchtrees.tree(pytree.treespec_dumps(program.call_spec.out_spec))
    return torchtrees.results(spec, tensors), [str(getattr(arg, "name", "")) for arg in given]


def leaf_arguments(found: list[Leaf], plain: list[str], constants: list[Any]) -> list[Argument]:
    """The arguments that the leaves are, without constants. plain: names of those that the file names, else "".

    Where each has a plain name, and none is inside of another argument, they have these; else all have their paths.
    """
    names = [leaf.key or name for leaf, name in zip(found, plain)]
    paths = any(leaf.nested for leaf in found) or not all(names)
    made = []
    for place, (leaf, name) in enumerate(zip(found, names)):
        if constants[place] is TENSOR:
            all_ = [leaf.path, name, f"INPUT__{place}"] if paths else [name, leaf.path, f"INPUT__{place}"]
            made.append(Argument(all_[0], "tensor", False, tuple(one for one in all_[1:] if one)))
    return made
