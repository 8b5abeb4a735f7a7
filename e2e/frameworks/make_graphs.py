"""Writes models of TensorFlow 1 into a repository: a tag of its own, and an operation that has to run after loading."""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


def save(path, tag):
    """y = x * v; v is 1 where it was saved, and 5 after the operation set_five."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], "x")
        v = tf.get_variable("v", initializer=1.0, use_resource=True)
        tf.group(v.assign(5.0), name="set_five")
        y = tf.multiply(x, v, name="y")
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(str(path))
        signature = tf.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, [tag], {"serving_default": signature, "again": signature})
        builder.save()


def main(repo):
    for name, tag in {
        "tagged": "mine", "untagged": "mine", "started": "serve", "versioned": "serve", "plain": "serve",
        "sessions": "serve", "nofile": "serve", "nooperation": "serve", "badfile": "serve",
    }.items():  # fmt: skip
        (repo / name / "1").mkdir(parents=True)
        save(repo / name / "1" / "model.savedmodel", tag)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
