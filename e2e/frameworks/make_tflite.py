"""Wrote the models of e2e/backends/tflite: python e2e/frameworks/make_tflite.py e2e/backends/tflite"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

PAIR = [tf.TensorSpec([None, 4], tf.float32, "INPUT0"), tf.TensorSpec([None, 4], tf.float32, "INPUT1")]


class Module(tf.Module):
    @tf.function(input_signature=PAIR)
    def add_sub(self, INPUT0, INPUT1):  # noqa: N803
        return {"OUTPUT0": INPUT0 + INPUT1, "OUTPUT1": INPUT0 - INPUT1}

    @tf.function(input_signature=PAIR)
    def swapped(self, INPUT0, INPUT1):  # noqa: N803
        return {"OUTPUT0": INPUT1 - INPUT0}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "TEXTS"), tf.TensorSpec([None], tf.int32, "PLACES")])
    def texts(self, TEXTS, PLACES):  # noqa: N803
        return {"CHOSEN": tf.gather(TEXTS, PLACES)}

    @tf.function(input_signature=[tf.TensorSpec([1, 4], tf.float32, "X")])
    def product(self, X):  # noqa: N803
        return {"Y": X @ tf.reshape(tf.range(12, dtype=tf.float32), [4, 3])}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "X"), tf.TensorSpec([], tf.float32, "FACTOR")])
    def scalars(self, X, FACTOR):  # noqa: N803
        return {"Y": X * FACTOR, "TOTAL": tf.reduce_sum(X)}

    @tf.function(input_signature=[tf.TensorSpec([None, 2, 2], tf.float32, "X")])
    def operators(self, X):  # noqa: N803
        return {"Y": tf.linalg.inv(X)}  # TensorFlow's own


def main(folder: Path) -> None:
    module = Module()

    def saved(*names: str) -> None:
        with tempfile.TemporaryDirectory() as place:
            signatures = {"serving_default" if n == names[0] else n: getattr(module, n) for n in names}
            tf.saved_model.save(module, place, signatures=signatures)
            converter = tf.lite.TFLiteConverter.from_saved_model(place, signature_keys=list(signatures))
            convert(converter, names[0])

    def convert(converter: tf.lite.TFLiteConverter, name: str) -> None:
        if name == "product":  # of whole numbers
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            rng = np.random.default_rng(0)
            converter.representative_dataset = lambda: ([rng.random((1, 4), np.float32)] for _ in range(8))
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
            converter.inference_input_type = converter.inference_output_type = tf.int8
        if name == "operators":
            converter.target_spec.supported_ops.add(tf.lite.OpsSet.SELECT_TF_OPS)
        (folder / f"{name}.tflite").write_bytes(converter.convert())

    folder.mkdir(parents=True, exist_ok=True)
    saved("add_sub", "swapped")
    for name in ("texts", "product", "scalars", "operators"):
        saved(name)
    convert(tf.lite.TFLiteConverter.from_concrete_functions([module.add_sub.get_concrete_function()]), "unsigned")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
