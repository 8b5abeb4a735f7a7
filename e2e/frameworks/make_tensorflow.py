"""Writes TensorFlow models into a repository, and what TensorFlow answers into expected.json."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf


class Module(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.reshape(tf.range(12, dtype=tf.float32), [4, 3]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
    def product(self, x):
        return {"y": x @ self.w}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([], tf.float32, "k")])
    def scaled(self, x, k):
        return {"y": x * k, "total": tf.reduce_sum(x)}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.string, "t")])
    def texts(self, t):
        return {"upper": tf.strings.upper(t), "length": tf.strings.length(t)}


class Huge(tf.Module):
    """Asks for as much memory as a request says."""

    @tf.function(input_signature=[tf.TensorSpec([1], tf.int64, "rows")])
    def total(self, rows):
        return {"y": tf.reduce_sum(tf.random.uniform([rows[0], 1 << 20]))[None]}


def main(repo):
    def place(name, file):
        (repo / name / "1").mkdir(parents=True)
        return str(repo / name / "1" / file)

    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    module = Module()
    saved = place("saved", "model.savedmodel")
    tf.saved_model.save(
        module, saved, signatures={"serving_default": module.product, "texts": module.texts, "scaled": module.scaled}
    )
    for name in ("texts", "scaled", "nosignature", "contradiction"):
        shutil.copytree(saved, place(name, "model.savedmodel"))
    keras = tf.keras.Sequential([tf.keras.layers.Input((4,), name="features"), tf.keras.layers.Dense(3, name="out")])
    keras.save(place("keras", "model.keras"))
    graph = tf.Graph()
    with graph.as_default():
        a = tf.compat.v1.placeholder(tf.float32, [None, 4], "INPUT0")
        b = tf.compat.v1.placeholder(tf.float32, [None, 4], "INPUT1")
        tf.add(a, b, name="OUTPUT0")
        tf.subtract(a, b, name="OUTPUT1")
    Path(place("graph", "model.graphdef")).write_bytes(graph.as_graph_def().SerializeToString())
    # Beside the repository, for a model that is swapped and one that is too large.
    module.w.assign(module.w * 2)
    for name, other, function in (("doubled", module, module.product), ("huge", Huge(), None)):
        signatures = {"serving_default": function or other.total}
        tf.saved_model.save(other, str(repo.parent / "beside" / name), signatures=signatures)
    module.w.assign(module.w / 2)
    expected = {"saved": module.product(x)["y"].numpy(), "keras": keras(x).numpy(), "graph": x + x}
    (repo / "expected.json").write_text(json.dumps({name: value.tolist() for name, value in expected.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
