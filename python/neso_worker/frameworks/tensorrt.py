"""TensorRT: engines in plan files, run by the tensorrt package on a GPU.

Memory of the device comes from torch, which the interpreter must have beside tensorrt. An instance has an execution
context and a stream of its own.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from neso_runtime.datatypes import DTYPES

from .errors import UNAVAILABLE, UNSUPPORTED, LoadError, first_line, framework, looks_like, size_of
from .host import Loader, Order
from .specs import BFLOAT16, NUMBERS, TensorSpec, data_type, sees_of


class Loader(Loader):  # type: ignore[no-redef]
    """A model of TensorRT."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._trt: Any = None
        self._torch: Any = None
        self.engine: Any = None
        self._device: Any = None

    def load(self, device: Optional[int]) -> None:
        order = self.order
        what = looks_like(order.path)
        if what:
            raise LoadError(f"{order.file()} is not a TensorRT engine: it is {what}")
        trt = self._trt = framework("tensorrt", "tensorrt", "tensorrt", (10, 0))
        torch = self._torch = framework("torch", "tensorrt", "torch", (2, 1))
        if not torch.cuda.is_available():
            raise LoadError(
                f"model '{order.name}' is a TensorRT engine, which needs an NVIDIA GPU and its driver: none is usable here. Serve the "
                "model's ONNX file with the backend onnxruntime, or run this server on a machine with a GPU",
                UNAVAILABLE,
            )
        self._device = torch.device(f"cuda:{device or 0}")
        torch.cuda.set_device(self._device)
        logger = trt.Logger(trt.Logger.WARNING)
        trt.init_libnvinfer_plugins(logger, "")
        runtime = trt.Runtime(logger)
        with open(order.path, "rb") as file:
            self.engine = runtime.deserialize_cuda_engine(file.read())
        if self.engine is None:
            raise LoadError(
                f"failed to load model '{order.name}': TensorRT {trt.__version__} cannot read the {size_of(order.path)} bytes of "
                f"{order.file()}: an engine runs only with the TensorRT version and the kind of GPU that it was built for: build it "
                "again here with trtexec, or serve the ONNX file with the backend onnxruntime"
            )
        self._bound = runtime
        modes = trt.TensorIOMode
        for place in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(place)
            spec = TensorSpec(name, self._data_type(name), tuple(int(d) for d in self.engine.get_tensor_shape(name)))
            (self.inputs if self.engine.get_tensor_mode(name) == modes.INPUT else self.outputs).append(spec)

    def _data_type(self, name: str) -> str:
        kind = self.engine.get_tensor_dtype(name)
        if str(kind).endswith("BF16"):
            return BFLOAT16
        try:
            text = data_type(np.dtype(self._trt.nptype(kind)))
        except TypeError:
            text = ""
        if not text:
            raise LoadError(
                f"'{name}' of {self.order.file()} has the datatype {kind}, which the protocol does not have",
                UNSUPPORTED,
            )
        return text

    def learn(self, config: dict[str, Any]) -> None:
        """The largest batch is that of the engine's optimization profile."""
        profiles = self.engine.num_optimization_profiles
        sizes = []
        for spec in self.inputs:
            if spec.shape and spec.shape[0] == -1:
                sizes += [int(self.engine.get_tensor_profile_shape(spec.name, p)[2][0]) for p in range(profiles)]
        if sizes:
            self.order.settings["default-max-batch-size"] = str(max(sizes))

    def prepare(self, config: dict[str, Any]) -> None:
        torch = self._torch
        self._names = [io["name"] for io in sees_of(config, "output")]
        self._context = self.engine.create_execution_context()
        if self._context is None:
            raise LoadError(
                f"model '{self.order.name}': TensorRT made no execution context: there is too little memory on the GPU",
                UNAVAILABLE,
            )
        self._stream = torch.cuda.Stream(self._device)
        self._types = {s.name: NUMBERS[s.data_type] for s in (*self.inputs, *self.outputs)}

    def _host(self, name: str) -> Any:
        return DTYPES[self._types[name]] or np.dtype(np.uint16)

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        torch, context = self._torch, self._context
        with torch.cuda.stream(self._stream):
            held = {}
            for name, array in inputs.items():
                # Bytes are what travels: the engine knows the datatypes.
                held[name] = torch.from_numpy(array.reshape(-1).view(np.uint8)).to(self._device)
                if not context.set_input_shape(name, tuple(array.shape)):
                    raise ValueError(
                        f"input '{name}' of shape {list(array.shape)} is outside of what the engine was built for"
                    )
                context.set_tensor_address(name, held[name].data_ptr())
            for spec in self.outputs:
                shape = tuple(int(d) for d in context.get_tensor_shape(spec.name))
                if any(d < 0 for d in shape):
                    raise ValueError(f"output '{spec.name}' has a shape that depends on the data, which is not served")
                size = int(np.prod(shape, dtype=np.int64)) * self._host(spec.name).itemsize
                held[spec.name] = torch.empty(size, dtype=torch.uint8, device=self._device)
                context.set_tensor_address(spec.name, held[spec.name].data_ptr())
            if not context.execute_async_v3(self._stream.cuda_stream):
                raise RuntimeError("the engine did not run; TensorRT wrote the reason to the log")
            made = {}
            for name in self._names:
                shape = tuple(int(d) for d in context.get_tensor_shape(name))
                made[name] = held[name].cpu().numpy().view(self._host(name)).reshape(shape)
        return made

    def explain(self, error: BaseException) -> str:
        return "TensorRT execute failure: " + self.order.shown(first_line(error))
