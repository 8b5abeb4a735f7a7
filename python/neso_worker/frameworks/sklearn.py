"""scikit-learn: estimators and pipelines in .skops files, and in pickles where the server allows them.

The outputs are named after the methods that give them. A pipeline of several columns takes one input of all columns,
or one input for each column by its name (for columns of texts and numbers together).
"""

from __future__ import annotations

import zipfile
from typing import Any, Callable, Optional

import numpy as np

from neso_runtime.datatypes import DTYPES, object_array

from .errors import UNAVAILABLE, LoadError, first_line, framework, looks_like, memory_hint, size_of
from .host import Loader, Order
from .specs import NUMBERS, STRING, TensorSpec, data_type, io_of, show, whole_shape

METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")
# Other names of outputs: those of the examples, and what exporters to ONNX write.
_ALIASES = {"label": "predict", "labels": "predict", "output__0": "predict", "output_label": "predict", "variable": "predict",
            "probabilities": "predict_proba", "probability": "predict_proba", "output_probability": "predict_proba",
            "output__1": "predict_proba",
            "scores": "decision_function"}  # fmt: skip
INPUT = "INPUT"


class Loader(Loader):  # type: ignore[no-redef]
    """A model of scikit-learn."""

    renames = True

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.model: Any = None
        self.columns: list[str] = []
        self._sklearn: Any = None

    def load(self, device: Optional[int]) -> None:
        order = self.order
        if device is not None:
            raise LoadError(
                f"model '{order.name}' has instances of KIND_GPU, scikit-learn runs on the CPU: write KIND_CPU",
                UNAVAILABLE,
            )
        file = order.file()
        self._sklearn = framework("sklearn", "sklearn", "scikit-learn", (1, 0))
        try:
            self.model = self._skops() if order.path.lower().endswith(".skops") else self._pickle()
        except LoadError:
            raise
        except ModuleNotFoundError as error:
            raise LoadError(
                f"{file} needs the package '{error.name}', which this Python does not have: install it"
            ) from None
        except Exception as error:
            hint = memory_hint(error, order.path) or (
                f"the file is damaged, or another scikit-learn than {self._sklearn.__version__} wrote it"
            )
            raise LoadError(
                f"failed to load model '{order.name}': {file}: {order.shown(first_line(error))} ({hint})"
            ) from None
        if not any(callable(getattr(self.model, method, None)) for method in METHODS):
            raise LoadError(
                f"{file} holds a {type(self.model).__name__}, which has none of the methods {', '.join(METHODS)}"
            )
        self.columns = [str(name) for name in getattr(self.model, "feature_names_in_", ())]

    def _skops(self) -> Any:
        io = framework("skops.io", "sklearn", "skops")
        order = self.order
        if not zipfile.is_zipfile(order.path):
            what = (
                looks_like(order.path)
                or f"cut off, damaged, or something else ({size_of(order.path)} bytes): write the model again"
            )
            raise LoadError(f"{order.file()} is not a .skops file: it is {what}")
        trusted = [name.strip() for name in order.parameter("trusted_types").split(",") if name.strip()]
        unknown = [name for name in io.get_untrusted_types(file=order.path) if name not in trusted]
        if unknown:
            raise LoadError(
                f"{order.file()} holds types that are not known to be safe: {', '.join(unknown)}. If you trust them, list them in "
                f"the model's parameter trusted_types, here: {', '.join([*trusted, *unknown])}"
            )
        return io.load(order.path, trusted=trusted)

    def _pickle(self) -> Any:
        what = looks_like(self.order.path)
        if what and what != "a Python pickle" and "gzip" not in what:
            raise LoadError(f"{self.order.file()} is not a model of scikit-learn: it is {what}")
        return framework("joblib", "sklearn", "joblib").load(self.order.path)

    def learn(self, config: dict[str, Any]) -> None:
        width = getattr(self.model, "n_features_in_", None)
        if width is None:
            if io_of(config, "input") and io_of(config, "output"):
                return
            raise LoadError(
                f"autofill failed for model '{self.order.name}': {type(self.model).__name__} does not say how many features it takes "
                "(n_features_in_): write 'input' and 'output' into the configuration"
            )
        inputs = io_of(config, "input")
        types = self._types()
        if inputs:
            specs = [TensorSpec(io["name"], io.get("data_type") or "", whole_shape(config, io)) for io in inputs]
        elif types is not None:
            specs = [TensorSpec(name, kind, (-1, 1)) for name, kind in zip(self.columns, types)]
        else:
            specs = [TensorSpec(INPUT, "TYPE_FP32", (-1, int(width)))]
        self.inputs = specs
        if io_of(config, "output"):
            self.outputs = [TensorSpec(io["name"], "", whole_shape(config, io)) for io in io_of(config, "output")]
            return
        arrays = {s.name: _zeros(s) for s in specs}
        rows = self._rows([s.name for s in specs])
        methods = [m for m in METHODS[:2] if callable(getattr(self.model, m, None))] or [
            m for m in METHODS if callable(getattr(self.model, m, None))
        ][:1]
        try:
            self.outputs = [self._described(method, rows(arrays)) for method in methods]
        except Exception as error:
            raise LoadError(
                f"autofill failed for model '{self.order.name}': it did not run with zeros, to see its outputs: "
                f"{first_line(error)}. Write 'input' and 'output' into the configuration"
            ) from None

    def _types(self) -> Optional[list[str]]:
        """Datatypes of the columns of a pipeline that takes them by name, None when all are numbers together."""
        if not self.columns:
            return None
        first = self.model
        while hasattr(first, "steps"):
            first = first.steps[0][1]
        if not hasattr(first, "transformers_"):
            return None
        texts: set[str] = set()
        for _, transformer, columns in first.transformers_:
            while hasattr(transformer, "steps"):
                transformer = transformer.steps[0][1]
            known = getattr(transformer, "categories_", None)
            names = [columns] if isinstance(columns, str) else columns
            for place, column in enumerate(names):
                name = column if isinstance(column, str) else self.columns[int(column)]
                if (known is not None and known[place].dtype.kind in "OSU") or hasattr(transformer, "vocabulary_"):
                    texts.add(name)
        return [STRING if name in texts else "TYPE_FP64" for name in self.columns]

    def _described(self, method: str, rows: Any) -> TensorSpec:
        made = _array(getattr(self.model, method)(rows))
        return TensorSpec(method, data_type(made.dtype), (-1, *made.shape[1:]))

    def prepare(self, config: dict[str, Any]) -> None:
        faults = self._width(config)
        inputs = [io["name"] for io in io_of(config, "input")]
        try:
            self._input = self._rows(inputs)
        except LoadError as error:
            faults.append(str(error))
        self._methods: list[tuple[str, Callable[[Any], Any], Any, tuple[int, ...]]] = []
        for io in io_of(config, "output"):
            name = io["name"]
            method = self.order.parameter(f"output.{name}") or _ALIASES.get(name.lower(), name.lower())
            found = getattr(self.model, method, None) if method in METHODS else None
            if not callable(found):
                has = ", ".join(m for m in METHODS if callable(getattr(self.model, m, None)))
                faults.append(
                    f"unexpected inference output '{name}', allowed outputs are: {has} (or any name, with the model's parameter "
                    f"output.{name} that names one of these)"
                )
                continue
            # The same method gives other datatypes for other inputs: the configuration decides.
            dtype = DTYPES[NUMBERS.get(io.get("data_type") or "", 0)]
            self._methods.append((name, found, dtype, whole_shape(config, io)[1:]))
        if faults:
            raise LoadError("; ".join(faults))

    def _width(self, config: dict[str, Any]) -> list[str]:
        """Whether one input for all columns has as many as the model."""
        inputs, width = io_of(config, "input"), getattr(self.model, "n_features_in_", None)
        if len(inputs) != 1 or width is None:
            return []
        columns = whole_shape(config, inputs[0])[1:]
        if -1 in columns or int(np.prod(columns)) == width:
            return []
        batching = int(config.get("max_batch_size") or 0) > 0
        return [
            f"model '{self.order.name}', tensor '{inputs[0]['name']}': the model has {width} features, the configuration specifies "
            f"dims {show(inputs[0].get('dims') or [])} (write dims: {show([width] if batching else [-1, width])})"
        ]

    def _rows(self, names: list[str]) -> Callable[[dict[str, Any]], Any]:
        """What makes the rows for the model of the inputs."""
        width = getattr(self.model, "n_features_in_", None)
        if len(names) == 1 and (width is None or width != 1 or names[0] not in self.columns):
            only = names[0]

            def one(inputs: dict[str, Any]) -> Any:
                array = _texts(inputs[only])
                return array.reshape(len(array), -1) if array.ndim != 2 else array

            return one
        unknown = [name for name in names if self.columns and name not in self.columns]
        missing = [name for name in self.columns if name not in names]
        if unknown or missing or (width is not None and width != len(names)):
            raise LoadError(
                f"unable to load model '{self.order.name}', configuration expects {len(names)} inputs ({', '.join(names)}), model "
                f"provides {width or 'other'} columns ({', '.join(self.columns) or 'without names'}): name one input for all "
                "columns, or one for each"
            )
        order = self.columns or names
        pandas = framework("pandas", "sklearn", "pandas") if self.columns else None

        def many(inputs: dict[str, Any]) -> Any:
            columns = {name: _texts(inputs[name]).reshape(-1) for name in order}
            return pandas.DataFrame(columns) if pandas is not None else np.column_stack(list(columns.values()))

        return many

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        rows = self._input(inputs)
        return {name: _as_configured(_array(method(rows)), dtype, dims) for name, method, dtype, dims in self._methods}

    def explain(self, error: BaseException) -> str:
        return "scikit-learn execute failure: " + self.order.shown(first_line(error))


def _zeros(spec: TensorSpec) -> Any:
    shape = tuple(2 if d < 0 else d for d in spec.shape or ())
    if spec.data_type == STRING:
        return object_array([b""] * int(np.prod(shape)), shape)
    return np.zeros(shape, np.float64 if spec.data_type in ("TYPE_FP64", "") else np.float32)


def _texts(array: np.ndarray) -> np.ndarray:
    """Texts in place of bytes, which estimators do not know."""
    if array.dtype != np.object_:
        return array
    items = [item.decode("utf-8") for item in array.ravel().tolist()]
    made = np.empty(len(items), np.object_)
    made[:] = items
    return made.reshape(array.shape)


def _as_configured(array: np.ndarray, dtype: Any, dims: tuple[int, ...]) -> np.ndarray:
    """An answer in the datatype (texts stay) and with the dims of a row that the configuration says."""
    if array.shape[1:] != dims and -1 not in dims and array.size == len(array) * int(np.prod(dims)):
        array = array.reshape(len(array), *dims)
    return array if dtype is None or array.dtype == dtype or array.dtype == np.object_ else array.astype(dtype)


def _array(value: Any) -> np.ndarray:
    """What a method gave as an array of numbers or of bytes."""
    if isinstance(value, list):  # one array for each output of a classifier of several
        raise TypeError("the method gives a list of arrays, which is no tensor: serve its estimators one by one")
    if hasattr(value, "toarray"):
        value = value.toarray()
    array = np.asarray(value)
    if array.dtype.kind in "OU":
        items = [item if isinstance(item, bytes) else str(item).encode("utf-8") for item in array.ravel().tolist()]
        return object_array(items, array.shape)
    return array
