"""Models of each framework as they lie in a bucket, for the InferenceServices of deploy/kserve, and what they must answer."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pdmodel
from clients import infer
from server import ROOT

FRAMEWORKS = ROOT / "examples" / "frameworks"
IN_PYTHON = ROOT / "examples" / "frameworks_python"
BATCH = 4  # what a model without a configuration takes at once

DOUBLE = b"""import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [4]})
        config.set_max_batch_size(8)
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", r.inputs()[0].as_numpy() * 2)]) for r in requests]
"""


def digits() -> tuple[np.ndarray, np.ndarray]:
    with np.load(ROOT / "examples" / "digits_test.npz") as data:
        return data["images"][: 5 * BATCH].astype(np.float32), data["labels"][: 5 * BATCH]


def knows_digits(client, model: str) -> dict:
    """Shows it handwritten digits, a batch at a time; what it was given first, by name."""
    (given,) = inputs(client, model)
    images, labels = digits()
    right, name, first = 0, given["name"], None
    for n in range(0, len(images), BATCH):
        # A model that leaves its shape open takes rows of 64 numbers.
        shape = [BATCH, *given["shape"][1:]] if math.prod(given["shape"][1:]) == 64 else [BATCH, 64]
        rows = images[n : n + BATCH].reshape(shape)
        first = rows if first is None else first
        (scores,) = [a for a in infer(client, model, {name: rows}).values() if a.shape[-1] == 10][:1]
        right += int((scores.argmax(-1) == labels[n : n + BATCH]).sum())
    assert right >= 18, f"{right} of {len(images)} digits"
    return {name: first}


def numbers(client, model: str) -> dict:
    """A row of numbers for each input."""
    return {
        i["name"]: np.arange(-3, 5, dtype=np.float32).reshape(2, 4) + n for n, i in enumerate(inputs(client, model))
    }


def inputs(client, model: str) -> list[dict]:
    return client.get_model_metadata(model)["inputs"]


def answers(right: Callable[..., np.ndarray]) -> Callable:
    def check(client, model: str) -> dict:
        given = numbers(client, model)
        got = infer(client, model, given)
        np.testing.assert_array_equal(next(iter(got.values())), right(*given.values()))
        return given

    return check


def paddle() -> bytes:
    with tempfile.TemporaryDirectory() as d:
        pdmodel.write(Path(d) / "net")
        return (Path(d) / "net").read_bytes()


@dataclass(frozen=True)
class Case:
    """One InferenceService."""

    files: dict[str, Path | bytes]  # by their names in the bucket; of a directory all that is in it
    check: Callable = knows_digits  # calls the model, and gives what it was asked
    service: str = ""  # its name in deploy/kserve/inferenceservices.yaml, where the case has another
    uri: str = ""  # in place of the file's
    model: str = ""  # where it is not the InferenceService's name
    image: str = "frameworks"  # e2e/cluster/images has its packages

    def contents(self) -> Iterator[tuple[str, bytes]]:
        for name, source in self.files.items():
            if isinstance(source, bytes):
                yield name, source
            elif source.is_file():
                yield name, source.read_bytes()
            else:
                for path in sorted(p for p in source.rglob("*") if p.is_file()):
                    yield f"{name}/{path.relative_to(source).as_posix()}", path.read_bytes()


ONNX = FRAMEWORKS / "digits_onnx" / "1" / "model.onnx"
TFLITE = ROOT / "e2e" / "backends" / "tflite" / "add_sub.tflite"
CASES = {
    "triton": Case({"repository/digits": ROOT / "examples" / "models" / "digits"}, model="digits"),
    "onnx": Case({"onnx/model.onnx": ONNX}),
    "pytorch": Case({"pytorch": IN_PYTHON / "digits_torchscript"}, image="torch"),
    "tensorflow": Case({"tensorflow": IN_PYTHON / "digits_tensorflow" / "1" / "model.savedmodel"}, image="tensorflow"),
    "tensorflow-lite": Case(
        {"lite/model.tflite": TFLITE}, answers(lambda a, b: a + b), service="tensorflow", uri="s3://models/lite"
    ),
    "sklearn": Case({"sklearn/model.skops": IN_PYTHON / "digits_sklearn" / "1" / "model.skops"}),
    "xgboost": Case({"xgboost/model.ubj": FRAMEWORKS / "digits_xgboost" / "1" / "xgboost.ubj"}),
    "lightgbm": Case({"lightgbm/model.txt": FRAMEWORKS / "digits_lightgbm" / "1" / "model.txt"}),
    "openvino": Case({"openvino": FRAMEWORKS / "digits_openvino" / "1"}),
    "paddle": Case({"paddle/model.pdmodel": paddle()}, answers(lambda x: np.maximum(x, 0))),
    "python": Case({"python/model.py": DOUBLE}, answers(lambda x: x * 2)),
    "onnx-grpc": Case({"onnx/model.onnx": ONNX}),
}
# An engine of TensorRT needs the GPU that it was built on.
LEFT_OUT = {"tensorrt"}
