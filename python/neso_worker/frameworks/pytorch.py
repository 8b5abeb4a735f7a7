"""PyTorch: TorchScript, torch.export, AOTInductor packages, and an nn.Module in model.py."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import warnings
from typing import Any, Callable, Optional

import numpy as np

from neso_runtime.datatypes import BF16, BYTES, NAMES, object_array

from . import torchprobe, torchtrees
from .errors import UNAVAILABLE, UNSUPPORTED, LoadError, first_line, framework, memory_hint, size_of
from .host import Loader, Order, threads
from .specs import BFLOAT16, NUMBERS, TensorSpec, sees_of, validate
from .torchfiles import (
    COMPILED,
    EAGER,
    EXPORTED,
    SCRIPT,
    TENSOR,
    Argument,
    eager,
    exported_results,
    exported_tree,
    kind_of,
    leaf_arguments,
    script_arguments,
    torchvision_operator,
)

_HINTS = (
    ("Unknown builtin op", "the model uses an operator that this PyTorch lacks: import the package that registers "
                           "it in a model.py, or use the PyTorch that wrote the model"),
    ("Unknown type name", "the model uses a type that this PyTorch lacks: load the library that registers it, or "
                          "use the PyTorch that wrote the model"),
    ("was it written by a newer", "use the PyTorch that wrote the model, or a later one"),
    ("version", "use the PyTorch that wrote the model, or a later one"),
    ("PytorchStreamReader", "the file is cut off or damaged: write the model again"),
    ("failed finding central directory", "the file is cut off or damaged: write the model again"),
)  # fmt: skip


class Loader(Loader):  # type: ignore[no-redef]
    """A model of PyTorch."""

    renames = True

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.arguments: list[Argument] = []
        # Of a module with a specification: its outputs, and what runs it with all leaves and gives all leaves.
        self.results: list[torchtrees.Result] = []
        self.flat: Optional[Callable[[list[Any]], Any]] = None
        self.device: Any = "cpu"
        self.module: Any = None
        self.kind = ""
        self._torch: Any = None

    # Loading.

    def load(self, device: Optional[int]) -> None:
        order = self.order
        self.kind = kind_of(order)  # before torch, whose import takes seconds
        torch = self._torch = framework("torch", "pytorch", "torch", (2, 1))
        for text in (".*not writable.*", ".*`torch.jit.*` is deprecated.*"):
            warnings.filterwarnings("ignore", message=text)
        self._settings(torch)
        if device is not None:
            if not torch.cuda.is_available():
                raise LoadError(
                    f"model '{order.name}' has instances of KIND_GPU, but PyTorch {torch.__version__} finds no usable GPU: "
                    "install a PyTorch built for CUDA and its driver, or write KIND_CPU",
                    UNAVAILABLE,
                )
            if device >= torch.cuda.device_count():
                raise LoadError(
                    f"model '{order.name}': PyTorch sees {torch.cuda.device_count()} GPUs, not number {device}",
                    UNAVAILABLE,
                )
        self.device = torch.device("cpu" if device is None else f"cuda:{device}")
        if self.kind != EAGER:  # which imports what it needs itself
            self._torchvision(torch)
        try:
            getattr(
                self, {SCRIPT: "_script", EXPORTED: "_exported", COMPILED: "_compiled", EAGER: "_eager"}[self.kind]
            )(torch)
        except LoadError:
            raise
        except Exception as error:
            text = order.shown(first_line(error))
            hint = memory_hint(error, order.path) or next((h for part, h in _HINTS if part in text), "")
            if "Unknown builtin op" in text:
                text = text[: text.find("Could not find any similar")] if "Could not find any" in text else text
            hint = hint or f"PyTorch {torch.__version__} cannot load the {size_of(order.path)} bytes of it"
            raise LoadError(
                f"failed to load model '{order.name}': {order.file()} ({self.kind}): {text} ({hint})"
            ) from None

    def _torchvision(self, torch: Any) -> None:
        """Imports torchvision, whose operators PyTorch then has, for a file that calls one of them."""
        used = torchvision_operator(self.order.path)
        if not used:
            return
        needs = (
            f"failed to load model '{self.order.name}': {self.order.file()} calls the operator torchvision::{used}, "
        )
        try:
            importlib.import_module("torchvision")
        except ModuleNotFoundError as error:
            what = "and torchvision" if error.name == "torchvision" else f"and the module '{error.name}' of torchvision"
            raise LoadError(
                f"{needs}{what} is not installed in {sys.executable}: install the torchvision that belongs to PyTorch "
                f"{torch.__version__} (pip install torchvision)",
                UNAVAILABLE,
            ) from None
        except Exception as error:
            raise LoadError(
                f"{needs}but torchvision cannot be imported: {first_line(error)} (install the one that belongs to PyTorch "
                f"{torch.__version__})",
                UNAVAILABLE,
            ) from None

    def _settings(self, torch: Any) -> None:
        order = self.order
        # Triton's backend has the second names for models with a model.py.
        torch.set_num_threads(order.number("INTRA_OP_THREAD_COUNT", order.number("NUM_THREADS", threads())))
        between = order.number("INTER_OP_THREAD_COUNT", order.number("NUM_INTEROP_THREADS", threads()))
        if torch.get_num_interop_threads() != between:
            with contextlib.suppress(RuntimeError):  # only possible before the first parallel work
                torch.set_num_interop_threads(between)
        if order.flag("DISABLE_OPTIMIZED_EXECUTION", False):
            torch._C._set_graph_executor_optimize(False)
        for name, setter in (
            ("ENABLE_JIT_PROFILING", "_jit_set_profiling_mode"),
            ("ENABLE_JIT_EXECUTOR", "_jit_set_profiling_executor"),
            ("ENABLE_TENSOR_FUSER", "_jit_set_texpr_fuser_enabled"),
        ):
            if order.parameter(name):
                getattr(torch._C, setter)(order.flag(name, True))
        if order.flag("DISABLE_CUDNN", False):
            torch.backends.cudnn.enabled = False
        self.clean_cache = order.flag("ENABLE_CACHE_CLEANING", False)
        order.flag("ENABLE_WEIGHT_SHARING", False)  # each instance is a process: there is nothing to share it with
        self._guard = torch.inference_mode if order.flag("INFERENCE_MODE", True) else torch.no_grad

    def _script(self, torch: Any) -> None:
        self.module = torch.jit.load(self.order.path, map_location=self.device).eval()
        self.arguments = script_arguments(self.module, self.order)

    def _eager(self, torch: Any) -> None:
        module, self.arguments = eager(torch, self.order)
        self.module = module.to(self.device)
        text = self.order.parameter("TORCH_COMPILE_OPTIONAL_PARAMETERS")
        if text:
            try:
                options = json.loads(text)
            except ValueError:
                options = None
            if not isinstance(options, dict):
                raise LoadError(
                    f"model '{self.order.name}': parameter TORCH_COMPILE_OPTIONAL_PARAMETERS is not a JSON object"
                )
            if str(options.get("disable", "")).lower() != "true":
                self.module = torch.compile(self.module, **{k: v for k, v in options.items() if k != "disable"})

    def _exported(self, torch: Any) -> None:
        from torch.utils._pytree import tree_flatten, tree_unflatten

        program = torch.export.load(self.order.path)
        found, constants, graph = exported_tree(program)
        nodes = {node.name: node.meta.get("val") for node in program.graph.nodes}
        self.arguments = leaf_arguments(found, graph, constants)
        tensors = [place for place, constant in enumerate(constants) if constant is TENSOR]
        self.inputs = [self._spec(a.name, nodes.get(graph[place])) for a, place in zip(self.arguments, tensors)]
        self.results, graph = exported_results(program)
        self.outputs = [self._spec(r.name, nodes.get(graph[r.place])) for r in self.results]
        self.module = program.module()
        if self.device.type != "cpu":
            self.module = self.module.to(self.device)
        module, structure = self.module, program.call_spec.in_spec

        def flat(given: list[Any]) -> Any:
            all_ = list(constants)
            for place, one in zip(tensors, given):
                all_[place] = one
            positional, keywords = tree_unflatten(all_, structure)
            return tree_flatten(module(*positional, **keywords))[0]

        self.flat = flat

    def _compiled(self, torch: Any) -> None:
        self.module = torch._inductor.aoti_load_package(self.order.path)
        built = self.module.get_metadata().get("AOTI_DEVICE_KEY", "cpu")
        if built != self.device.type:
            raise LoadError(
                f"{self.order.file()} was compiled for the device '{built}': write an instance_group of "
                f"{'KIND_GPU' if built == 'cuda' else 'KIND_CPU'}, or compile it for '{self.device.type}'"
            )
        loader = self.module.loader
        given, made = (torchtrees.tree(text) for text in loader.get_call_spec())
        found = torchtrees.inputs(given)
        self.arguments = leaf_arguments(found, [""] * len(found), [TENSOR] * len(found))
        self.results = torchtrees.results(made)
        self.flat = getattr(loader, "boxed_run", loader.run)

    def _spec(self, name: str, value: Any) -> TensorSpec:
        if value is None or not hasattr(value, "dtype"):
            raise LoadError(
                f"input or output '{name}' of {self.order.file()} is not a tensor: export a module that takes and gives "
                "tensors",
                UNSUPPORTED,
            )
        shape = tuple(size if isinstance(size, int) else -1 for size in value.shape)
        return TensorSpec(name, self.data_type(value.dtype), shape)

    def data_type(self, dtype: Any) -> str:
        """The configuration's name of a torch dtype."""
        if dtype is self._torch.bfloat16:
            return BFLOAT16
        try:
            return f"TYPE_{NAMES[NUMBERS['TYPE_' + _TORCH[str(dtype)[6:]]]]}"
        except KeyError:
            raise LoadError(
                f"{self.order.file()} has tensors of the type {dtype}, which the protocol does not have", UNSUPPORTED
            ) from None

    # Completion.

    def learn(self, config: dict[str, Any]) -> None:
        if not self.outputs:
            self.inputs, self.outputs = torchprobe.learn(self, config)

    # Running.

    def prepare(self, config: dict[str, Any]) -> None:
        inputs, outputs = sees_of(config, "input"), sees_of(config, "output")
        taken = self.bind_inputs(inputs)
        specs = {spec.name: spec for spec in self.inputs}
        validate(config, [specs[a]._replace(name=n) for a, n, _, _ in taken if a in specs], [], True)
        if not int(config.get("max_batch_size") or 0):
            self.scalars = {n for a, n, _, _ in taken if a in specs and specs[a].shape == ()}
        self.call = self._call(taken)
        self._names = [io["name"] for io in outputs]
        if self.flat is None:
            self._places = _places(self._names)
        else:
            self._places = self._bind_outputs(self._names)
            made = {result.place: spec for result, spec in zip(self.results, self.outputs)}
            given = [made[p]._replace(name=n) for n, p in zip(self._names, self._places) if p in made]
            validate(config, [], given, True)
        self.order.config = config

    def bind_inputs(self, inputs: list[dict[str, Any]]) -> list[tuple[Optional[str], str, str, bool]]:
        """For each input of the configuration its argument (None: by position), name, kind and whether it is BF16."""
        names = [io["name"] for io in inputs]
        arguments = self.arguments
        by_name = torchtrees.by_name(arguments)
        types = {io["name"]: io.get("data_type") or "" for io in inputs}
        if len(arguments) == 1 and arguments[0].kind == "tensors":
            return [(arguments[0].name, name, "tensors", types[name] == BFLOAT16) for name in names]
        bound: dict[str, str] = {}
        if all(name in by_name for name in names):
            for name in names:
                other = bound.setdefault(by_name[name].name, name)
                if other != name:
                    raise self._wrong(f"inputs '{other}' and '{name}' are the same argument", names)
        else:
            unknown = [n for n in names if n.startswith(("ARGS[", "KWARGS[")) and n not in by_name]
            if self.flat is not None and unknown:
                raise self._wrong(f"input '{unknown[0]}' is not in its specification", names)
            places = _places(names)
            if places is None:  # in the order of the configuration
                places = list(range(len(names)))
            for name, place in zip(names, places):
                if place >= len(arguments):
                    raise self._wrong(f"input '{name}' is argument {place}", names)
                bound[arguments[place].name] = name
        required = [a.name for a in arguments if not a.optional and a.name not in bound]
        if required or len(bound) != len(names):
            raise self._wrong(
                f"configuration expects {len(names)} inputs, model provides {len(arguments)}"
                + (f"; nothing gives argument '{required[0]}'" if required else ""), names,
            )  # fmt: skip
        taken = []
        for argument in arguments:
            name = bound.get(argument.name)
            if name is None:
                continue
            kind = argument.kind
            if (types[name] == "TYPE_STRING") != (kind == "strings"):
                texts, tensor = (
                    "a list of texts (write data_type: TYPE_STRING)",
                    "a tensor: texts go to an argument of the type List[str]",
                )
                raise LoadError(
                    f"unable to load model '{self.order.name}', configuration expects datatype {types[name]} for input "
                    f"'{name}', but argument '{argument.name}' of forward takes {texts if kind == 'strings' else tensor}"
                )
            taken.append((argument.name, name, kind, types[name] == BFLOAT16))
        return taken

    def _bind_outputs(self, names: list[str]) -> list[int]:
        """For each output of the configuration which leaf of the result it is."""
        by_name = torchtrees.by_name(self.results)
        if all(name in by_name for name in names):
            return [by_name[name].place for name in names]
        places = _places(names)
        known = {result.place for result in self.results}
        if places is not None and all(place in known for place in places):
            return places
        has_keys = self.results and self.results[0].name not in ("RESULT", "OUTPUT__0")
        if places is None and not has_keys and len(names) == len(known):
            return sorted(known)  # in the order of the configuration
        wrong = next(name for name in names if name not in by_name)
        raise LoadError(
            f"unable to load model '{self.order.name}', output '{wrong}' is none of those of {self.order.file()}: "
            + ", ".join(result.name for result in self.results)
        )

    def _wrong(self, what: str, names: list[str]) -> LoadError:
        arguments = ", ".join(a.name for a in self.arguments)
        return LoadError(
            f"unable to load model '{self.order.name}', {what} (forward of {self.order.file()} has the arguments: {arguments}; "
            f"the configuration has: {', '.join(names)}). Name inputs like the arguments, or INPUT__0, INPUT__1, ..., or "
            "write them in the order of the arguments"
        )

    def _call(self, taken: list[tuple[Optional[str], str, str, bool]]) -> Callable[[dict[str, Any]], Any]:
        torch, module, device = self._torch, self.module, self.device
        guard, from_numpy, cpu = self._guard, torch.from_numpy, device.type == "cpu"

        def tensor(array: Any, bf16: bool) -> Any:
            made = from_numpy(array.view(np.int16)).view(torch.bfloat16) if bf16 else from_numpy(array)
            return made if cpu else made.to(device)

        def value(array: Any, kind: str, bf16: bool) -> Any:
            return (
                [item.decode("utf-8") for item in array.ravel().tolist()] if kind == "strings" else tensor(array, bf16)
            )

        names = [name for _, name, _, _ in taken]
        optional = len(taken) != len(self.arguments) or any(a.optional for a in self.arguments)
        if taken and taken[0][2] == "tensors":
            flags = {name: bf16 for _, name, _, bf16 in taken}

            def call(inputs: dict[str, Any]) -> Any:
                with guard():
                    return module({name: tensor(array, flags[name]) for name, array in inputs.items()})

        elif self.flat is not None:
            flat = self.flat

            def call(inputs: dict[str, Any]) -> Any:
                with guard():
                    return flat([value(inputs[n], k, b) for _, n, k, b in taken])

        elif optional:

            def call(inputs: dict[str, Any]) -> Any:
                with guard():
                    return module(**{a: value(inputs[n], k, b) for a, n, k, b in taken if n in inputs})

        elif all(kind == "tensor" and not bf16 for _, _, kind, bf16 in taken) and cpu:

            def call(inputs: dict[str, Any]) -> Any:
                with guard():
                    return module(*[from_numpy(inputs[name]) for name in names])

        else:

            def call(inputs: dict[str, Any]) -> Any:
                with guard():
                    return module(*[value(inputs[n], k, b) for _, n, k, b in taken])

        return call

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        result = self.call(inputs)
        if self.clean_cache and self.device.type != "cpu":
            self._torch.cuda.empty_cache()
        names = self._names
        if self.flat is not None:
            return {name: self.array(result[place]) for name, place in zip(names, self._places or ())}
        if type(result) is self._torch.Tensor:
            result = (result,)
        elif isinstance(result, dict):
            missing = [name for name in names if name not in result]
            if missing:
                raise KeyError(
                    f"the model gave the outputs {', '.join(map(str, result))}, the configuration has '{missing[0]}'"
                )
            return {name: self.array(result[name]) for name in names}
        elif isinstance(result, list) and result and isinstance(result[0], (str, bytes)):
            result = (result,)
        places = self._places
        if places is None:
            if len(result) != len(names):
                raise ValueError(f"the model gave {len(result)} outputs, the configuration has {len(names)}")
            return {name: self.array(value) for name, value in zip(names, result)}
        made = {}
        for name, place in zip(names, places):
            if place >= len(result):
                raise ValueError(f"the model gave {len(result)} outputs, none is output '{name}'")
            made[name] = self.array(result[place])
        return made

    def array(self, value: Any) -> Any:
        """An output as an array; BF16 as uint16."""
        torch = self._torch
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                value = value.detach()
            if value.dtype is torch.bfloat16:
                value = value.contiguous().view(torch.int16)
                return value.cpu().numpy().view(np.uint16)
            return value.numpy() if value.device.type == "cpu" else value.cpu().numpy()
        if isinstance(value, (list, tuple)) and all(isinstance(item, (str, bytes)) for item in value):
            items = [item.encode("utf-8") if isinstance(item, str) else item for item in value]
            return object_array(items, (len(items),))
        raise TypeError(
            f"the model gave an output of the type {type(value).__name__}, expected a tensor or a list of texts"
        )

    def explain(self, error: BaseException) -> str:
        hint = memory_hint(error, self.order.path)
        return "PyTorch execute failure: " + self.order.shown(first_line(error)) + (f" ({hint})" if hint else "")


_TORCH = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
}  # fmt: skip
assert (BF16, BYTES) == (14, 13)


def _places(names: list[str]) -> Optional[list[int]]:
    """The numbers in names like INPUT__0, None unless all have one."""
    places = []
    for name in names:
        _, separator, number = name.rpartition("__")
        if not separator or not number.isdigit():
            return None
        places.append(int(number))
    return places
