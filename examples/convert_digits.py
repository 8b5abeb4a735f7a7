#!/usr/bin/env python3
"""Writes the network of examples/models/digits in the formats of other frameworks, into examples/frameworks.

Needs what writes each format (`pip install onnx`); a format whose package is missing is left out with a word.
"""

import pathlib

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


WRITERS = {"digits_onnx": write_onnx, "digits_openvino": write_openvino}


def main():
    for name, write in WRITERS.items():
        try:
            write(HERE / "frameworks" / name)
            print(f"wrote examples/frameworks/{name}")
        except ImportError as e:
            print(f"left out {name}: {e}")


if __name__ == "__main__":
    main()
