#!/usr/bin/env python3
"""Writes the network of examples/models/digits in the formats of other frameworks, below examples.

Needs what writes each format (`pip install onnx torch tensorflow scikit-learn skops`); a format whose package is
missing is left out with a word.
"""

import io
import pathlib
import warnings
import zipfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


def weights():
    with np.load(HERE / "models" / "digits" / "1" / "weights.npz") as w:
        return {name: w[name] for name in ("w1", "b1", "w2", "b2")}


def write_onnx(to):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    w = weights()
    # Grey values from 0 to 16 become 0 to 1; the images are flattened in the model, so that clients send [n, 8, 8].
    constants = [numpy_helper.from_array(v, k) for k, v in {**w, "sixteen": np.float32(16)}.items()]
    nodes = [
        helper.make_node("Flatten", ["IMAGE"], ["flat"]),
        helper.make_node("Div", ["flat", "sixteen"], ["x"]),
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "w2", "b2"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["PROBABILITIES"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("IMAGE", TensorProto.FLOAT, ["batch", 8, 8])],
        [helper.make_tensor_value_info("PROBABILITIES", TensorProto.FLOAT, ["batch", 10])],
        initializer=constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="examples")
    model.ir_version = 9  # what ONNX Runtime from 1.16 on reads
    onnx.checker.check_model(model, full_check=True)
    (to / "1").mkdir(parents=True, exist_ok=True)
    onnx.save(model, to / "1" / "model.onnx")


def write_openvino(to):
    import openvino
    from openvino import opset13 as ops

    w = weights()
    image = ops.parameter([-1, 8, 8], np.float32, name="IMAGE")
    x = ops.divide(ops.reshape(image, [-1, 64], special_zero=False), np.float32(16))
    hidden = ops.relu(ops.add(ops.matmul(x, w["w1"], False, False), w["b1"]))
    answer = ops.softmax(ops.add(ops.matmul(hidden, w["w2"], False, False), w["b2"]), 1, name="PROBABILITIES")
    for node in (image, answer):
        node.output(0).set_names({node.get_friendly_name()})
    (to / "1").mkdir(parents=True, exist_ok=True)
    model = openvino.Model([answer.output(0)], [image], "digits")
    openvino.save_model(model, to / "1" / "model.xml", compress_to_fp16=False)


def write_torchscript(to):
    import digits_torch
    import torch

    (to / "1").mkdir(parents=True, exist_ok=True)
    whole = io.BytesIO()
    torch.jit.save(torch.jit.script(digits_torch.Digits(weights()).eval()), whole)
    # Without the parts for debuggers, which name this machine's directories.
    with zipfile.ZipFile(whole) as made, zipfile.ZipFile(to / "1" / "model.pt", "w") as kept:
        for part in made.infolist():
            if not part.filename.endswith(".debug_pkl"):
                kept.writestr(zipfile.ZipInfo(part.filename), made.read(part))


def write_tensorflow(to):
    import tensorflow as tf

    w = {name: tf.constant(value) for name, value in weights().items()}
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None, 8, 8], tf.float32, "IMAGE")])
    def classify(image):
        x = tf.reshape(image, [-1, 64]) / 16.0
        hidden = tf.nn.relu(x @ w["w1"] + w["b1"])
        return {"PROBABILITIES": tf.nn.softmax(hidden @ w["w2"] + w["b2"])}

    module.classify = classify
    (to / "1").mkdir(parents=True, exist_ok=True)
    tf.saved_model.save(module, str(to / "1" / "model.savedmodel"), signatures=classify)


def write_sklearn(to):
    import skops.io
    from sklearn.neural_network import MLPClassifier

    w = weights()
    # One step of training gives the classifier its shape; then it gets the weights, grey values divided by 16 included.
    model = MLPClassifier(hidden_layer_sizes=w["b1"].shape, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.zeros((20, 64), np.float32), np.arange(20) % 10)
    model.coefs_, model.intercepts_ = [w["w1"] / np.float32(16), w["w2"]], [w["b1"], w["b2"]]
    model._optimizer, model._random_state = None, None
    (to / "1").mkdir(parents=True, exist_ok=True)
    skops.io.dump(model, to / "1" / "model.skops")


# Below frameworks what C libraries run, below frameworks_python what needs the framework's own Python package.
WRITERS = {
    "frameworks/digits_onnx": write_onnx,
    "frameworks/digits_openvino": write_openvino,
    "frameworks_python/digits_torchscript": write_torchscript,
    "frameworks_python/digits_tensorflow": write_tensorflow,
    "frameworks_python/digits_sklearn": write_sklearn,
}


def main():
    for name, write in WRITERS.items():
        try:
            write(HERE / name)
            print(f"wrote examples/{name}")
        except ImportError as e:
            print(f"left out {name}: {e}")


if __name__ == "__main__":
    main()
