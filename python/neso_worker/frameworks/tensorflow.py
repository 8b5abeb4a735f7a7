"""TensorFlow: SavedModels with their signatures, frozen graphs, and Keras files."""

from __future__ import annotations

import json
import os
import zipfile
from typing import Any, Callable, Optional

import numpy as np

from neso_runtime.datatypes import BF16, NAMES, object_array

from .errors import (
    NOT_FOUND,
    UNAVAILABLE,
    UNSUPPORTED,
    LoadError,
    first_line,
    framework,
    looks_like,
    memory_hint,
    size_of,
)
from .host import Loader, Order, threads
from .specs import BFLOAT16, NUMBERS, STRING, TensorSpec, data_type, io_of, sees_of

_HINTS = (
    ("Op type not registered", "the model uses an operator that this TensorFlow lacks: use the TensorFlow that "
                               "wrote it, with its custom operators"),
    ("not in tags", "name the tags of the model in the parameter TF_GRAPH_TAG"),
    ("could not be found in SavedModel", "name the tags of the model in the parameter TF_GRAPH_TAG"),
    ("Error parsing message", "the file is cut off, damaged, or something else: write the model again"),
    ("registered_name", "the model has a layer or function of its own: register it in a package of the interpreter, "
                        "or save a SavedModel with model.export()"),
    ("Could not locate class", "the model has a layer or function of its own: save a SavedModel with model.export(), which carries it"),
    ("Lambda", "Keras refuses to run code out of a file: save a SavedModel with model.export()"),
)  # fmt: skip


class Loader(Loader):  # type: ignore[no-redef]
    """A model of TensorFlow."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._tf: Any = None
        self._function: Any = None
        self._kept: Any = None
        self._device = "/CPU:0"
        self._call: Optional[Callable[[dict[str, Any]], dict[str, Any]]] = None

    def load(self, device: Optional[int]) -> None:
        order, path = self.order, self.order.path
        directory = os.path.isdir(path)
        if not os.path.exists(path):
            raise LoadError(f"unable to find {order.file()} for model '{order.name}'", NOT_FOUND)
        if directory and not os.path.isfile(os.path.join(path, "saved_model.pb")):
            raise LoadError(
                f"{order.file()} is not a SavedModel: it has no saved_model.pb. Write it with tf.saved_model.save or model.export()"
            )
        if not directory and looks_like(path):
            raise LoadError(f"{order.file()} is not a model of TensorFlow: it is {looks_like(path)}")
        if directory and not os.path.getsize(os.path.join(path, "saved_model.pb")):
            raise LoadError(f"{order.file()}: its saved_model.pb is empty: write the model again")
        if path.lower().endswith(".keras") and not zipfile.is_zipfile(path):
            raise LoadError(
                f"{order.file()} is not a Keras file: it is cut off, damaged, or something else ({size_of(path)} "
                f"bytes): write the model again"
            )
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        tf = self._tf = framework("tensorflow", "tensorflow", "tensorflow", (2, 12))
        self._settings(tf, device)
        try:
            with tf.device(self._device):
                if directory:
                    self._saved_model(tf)
                elif path.lower().endswith(".keras"):
                    self._keras(tf)
                else:
                    self._graphdef(tf)
        except LoadError:
            raise
        except Exception as error:
            text = order.shown(first_line(error))
            hint = memory_hint(error, path) or next((h for part, h in _HINTS if part in text), "")
            hint = hint or f"TensorFlow {tf.__version__} cannot load the {size_of(path)} bytes of it"
            raise LoadError(f"failed to load model '{order.name}': {order.file()}: {text} ({hint})") from None

    def _settings(self, tf: Any, device: Optional[int]) -> None:
        order, config = self.order, tf.config
        # Each instance is a process: with threads of its own, and a session that nothing shares.
        order.flag("TF_USE_PER_SESSION_THREADS", True)
        order.number("MAX_SESSION_SHARE_COUNT", 1)
        try:
            config.threading.set_intra_op_parallelism_threads(order.number("TF_NUM_INTRA_THREADS", threads()))
            config.threading.set_inter_op_parallelism_threads(order.number("TF_NUM_INTER_THREADS", threads()))
            gpus = config.list_physical_devices("GPU")
            if device is None:
                config.set_visible_devices([], "GPU")
            for gpu in gpus if device is not None else ():
                config.experimental.set_memory_growth(gpu, True)
        except RuntimeError:  # TensorFlow has begun: the second instance of one process
            gpus = config.list_logical_devices("GPU")
        if device is not None:
            if device >= len(gpus):
                raise LoadError(
                    f"model '{order.name}' has instances of KIND_GPU, but TensorFlow {tf.__version__} finds {len(gpus)} GPUs: install "
                    "a TensorFlow built for CUDA (pip install tensorflow[and-cuda]) and the driver, or write KIND_CPU",
                    UNAVAILABLE,
                )
            self._device = f"/GPU:{device}"

    def _saved_model(self, tf: Any) -> None:
        order = self.order
        tag = order.parameter("TF_GRAPH_TAG", "serve")
        self._kept = tf.saved_model.load(order.path, tags=[tag])
        name = order.parameter("TF_SIGNATURE_DEF", "serving_default")
        signatures = self._kept.signatures
        if name not in signatures:
            has = ", ".join(f"'{s}'" for s in signatures) or "none: save it with signatures=, or model.export()"
            raise LoadError(
                f"{order.file()} has no signature '{name}'; it has {has} (the parameter TF_SIGNATURE_DEF names the one to serve)"
            )
        self._function = signatures[name]
        self.inputs = [self._spec(n, s) for n, s in sorted(self._function.structured_input_signature[1].items())]
        outputs = self._function.structured_outputs
        self.outputs = [self._spec(n, s) for n, s in sorted(outputs.items())]
        self._init_ops(tf)

    def _init_ops(self, tf: Any) -> None:
        """Runs the operations that a file names, as Triton does for models of TensorFlow 1."""
        order = self.order
        name = order.parameter("TF_INIT_OPS_FILE")
        if not name:
            return
        inside = name.lstrip("/")
        if os.pardir in inside.split("/"):
            raise LoadError(f"TF_INIT_OPS_FILE '{name}' of model '{order.name}' must lie in the model's directory")
        # The version's own before that of all versions, as Triton does.
        path = os.path.join(order.version_directory, inside)
        path = path if os.path.isfile(path) else os.path.join(order.directory, inside)
        try:
            with open(path, encoding="utf-8") as file:
                operations = json.load(file)["init_ops"]
        except (OSError, ValueError, KeyError) as error:
            raise LoadError(
                f"TF_INIT_OPS_FILE '{name}' of model '{order.name}' cannot be read as {{\"init_ops\": [...]}}: {error}"
            ) from None
        graph = getattr(self._kept, "graph", None)
        for operation in operations:
            try:
                self._kept.prune([], graph.get_operation_by_name(operation))()
            except Exception as error:
                raise LoadError(
                    f"TF_INIT_OPS_FILE '{name}' of model '{order.name}': operation '{operation}': {first_line(error)}"
                ) from None

    def _keras(self, tf: Any) -> None:
        model = self._kept = tf.keras.models.load_model(self.order.path, compile=False, safe_mode=True)
        if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
            raise LoadError(
                f"{self.order.file()} does not say its inputs: call the model once before it is saved, or model.export() it"
            )
        names = [tensor.name.split(":")[0] for tensor in model.inputs]
        results = list(getattr(model, "output_names", None) or [f"OUTPUT__{i}" for i in range(len(model.outputs))])
        structure = getattr(model, "_outputs_struct", None)
        if isinstance(structure, dict):
            results = list(structure)
        signature = [tf.TensorSpec(tensor.shape, tensor.dtype, name=name) for name, tensor in zip(names, model.inputs)]

        def forward(*tensors: Any) -> dict[str, Any]:
            given = list(tensors) if len(tensors) > 1 else tensors[0]
            if isinstance(getattr(model, "_inputs_struct", None), dict):
                given = dict(zip(model._inputs_struct, tensors))
            made = model(given, training=False)
            return dict(
                zip(results, tf.nest.flatten(made) if not isinstance(made, dict) else [made[k] for k in results])
            )

        function = tf.function(forward, input_signature=signature).get_concrete_function()
        self._function = function
        self.inputs = [self._spec(n, s) for n, s in zip(names, signature)]
        self.outputs = [self._spec(n, function.structured_outputs[n]) for n in results]
        self._call = lambda tensors: function(*[tensors[n] for n in names])

    def _graphdef(self, tf: Any) -> None:
        graph = tf.compat.v1.GraphDef()
        with open(self.order.path, "rb") as file:
            graph.ParseFromString(file.read())
        if not graph.node:
            raise LoadError(f"{self.order.file()} has no operations: it is no frozen graph")
        used = {part.split(":")[0].lstrip("^") for node in graph.node for part in node.input}
        config = self.order.config
        given = [io["name"] for io in sees_of(config, "input")] if io_of(config, "input") else []
        wanted = [io["name"] for io in sees_of(config, "output")] if io_of(config, "output") else []
        places = given or [node.name for node in graph.node if node.op == "Placeholder"]
        ends = wanted or [
            node.name
            for node in graph.node
            if node.name not in used and node.op not in ("NoOp", "Const", "Placeholder", "Assert")
        ]
        nodes = {node.name for node in graph.node}
        for kind, names in (("input", places), ("output", ends)):
            for name in names:
                if name.split(":")[0] not in nodes:
                    has = (
                        [n.name for n in graph.node if n.op == "Placeholder"]
                        if kind == "input"
                        else [n.name for n in graph.node if n.name not in used]
                    )
                    raise LoadError(f"unexpected inference {kind} '{name}', allowed {kind}s are: {', '.join(has)}")
        wrapped = tf.compat.v1.wrap_function(lambda: tf.compat.v1.import_graph_def(graph, name=""), [])
        find = wrapped.graph.as_graph_element
        tensor = lambda name: find(name if ":" in name else name + ":0")  # noqa: E731
        sources = [tensor(name) for name in places]
        function = wrapped.prune(sources, [tensor(name) for name in ends])
        self._kept = self._function = function
        self.inputs = [self._spec(n, t) for n, t in zip(places, sources)]
        self.outputs = [self._spec(n, tensor(n)) for n in ends]
        self._call = lambda tensors: dict(zip(ends, function(*[tensors[n] for n in places])))

    def _spec(self, name: str, tensor: Any) -> TensorSpec:
        tf = self._tf
        kind = tensor.dtype if isinstance(tensor.dtype, tf.DType) else tf.as_dtype(tensor.dtype)
        if kind == tf.string:
            text = STRING
        elif kind == tf.bfloat16:
            text = BFLOAT16
        else:
            text = data_type(np.dtype(kind.as_numpy_dtype))
        if not text:
            raise LoadError(
                f"'{name}' of {self.order.file()} has the datatype {kind.name}, which the protocol does not have",
                UNSUPPORTED,
            )
        rank = tensor.shape.rank
        shape = None if rank is None else tuple(-1 if d is None else int(d) for d in tensor.shape)
        return TensorSpec(name, text, shape)

    def learn(self, config: dict[str, Any]) -> None:
        unknown = [s.name for s in (*self.inputs, *self.outputs) if s.shape is None]
        if unknown and not (io_of(config, "input") and io_of(config, "output")):
            raise LoadError(
                f"autofill failed for model '{self.order.name}': tensor '{unknown[0]}' has a shape of any rank: write 'input' and "
                "'output' with dims into the configuration"
            )

    def prepare(self, config: dict[str, Any]) -> None:
        tf = self._tf
        types = {s.name: NUMBERS.get(s.data_type, 0) for s in self.inputs}
        self._names = [io["name"] for io in sees_of(config, "output")]
        call = self._call or (lambda tensors: self._function(**tensors))
        convert, device = tf.constant, self._device

        def tensor(name: str, array: Any) -> Any:
            made = convert(array)
            return tf.bitcast(made, tf.bfloat16) if types.get(name) == BF16 else made

        def run(inputs: dict[str, Any]) -> Any:
            with tf.device(device):
                return call({name: tensor(name, array) for name, array in inputs.items()})

        self._run = run

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        result = self._run(inputs)
        return {name: self._array(result[name]) for name in self._names}

    def _array(self, tensor: Any) -> Any:
        kind = tensor.dtype
        if kind == self._tf.bfloat16:
            return self._tf.bitcast(tensor, self._tf.uint16).numpy()
        array = tensor.numpy()
        if kind == self._tf.string:
            return object_array(list(np.asarray(array, np.object_).ravel()), tuple(tensor.shape))
        return np.asarray(array)

    def explain(self, error: BaseException) -> str:
        hint = memory_hint(error, self.order.path)
        return "TensorFlow execute failure: " + self.order.shown(first_line(error)) + (f" ({hint})" if hint else "")


assert NAMES[BF16] == "BF16"
