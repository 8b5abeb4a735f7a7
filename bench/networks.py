"""The model files of the scenarios that are set against the library's own speed, with random weights: a ResNet-50, a forest, a perceptron.

Run as a program it writes the perceptron as TorchScript: `python networks.py FOLDER`, in an interpreter that has torch.
"""

import pathlib
import sys

import numpy as np

TREES, FEATURES = 500, 30
WIDTH, LAYERS = 512, 3
IMAGE = (3, 224, 224)
CLASSES = 1000
# Bottlenecks of each stage, and their inner width; they put out four times as many channels.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


class _Network:
    """Collects the nodes of an ONNX graph."""

    def __init__(self):
        self.nodes, self.constants = [], []
        self.random = np.random.default_rng(5)

    def constant(self, values):
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op, inputs, to=None, **attributes):
        from onnx import helper

        to = to or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [to], **attributes))
        return to

    def weights(self, *shape, gain=1.0):
        spread = gain * np.sqrt(2 / np.prod(shape[1:]))
        return self.constant((self.random.standard_normal(shape) * spread).astype(np.float32))

    def convolution(self, x, channels, into, size, stride=1, gain=1.0):
        """With the batch normalization folded in, as exported networks have it."""
        pad = size // 2
        inputs = [x, self.weights(into, channels, size, size, gain=gain), self.constant(np.zeros(into, np.float32))]
        return self.add("Conv", inputs, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)


def resnet50(path):
    from onnx import TensorProto, helper, save

    n = _Network()
    x = n.add("Relu", [n.convolution("IMAGE", 3, 64, 7, 2)])
    x = n.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, (blocks, width) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = n.add("Relu", [n.convolution(x, channels, width, 1)])
            y = n.add("Relu", [n.convolution(y, width, width, 3, stride)])
            y = n.convolution(y, width, 4 * width, 1, gain=0.3)  # small, so that sixteen sums do not overflow
            if not block:
                x = n.convolution(x, channels, 4 * width, 1, stride)
                channels = 4 * width
            x = n.add("Relu", [n.add("Add", [x, y])])
    x = n.add("Flatten", [n.add("GlobalAveragePool", [x])])
    bias = n.constant(np.zeros(CLASSES, np.float32))
    n.add("Gemm", [x, n.weights(CLASSES, channels, gain=0.1), bias], "SCORES", transB=1)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        n.nodes,
        "resnet50",
        [value("IMAGE", TensorProto.FLOAT, ["batch", *IMAGE])],
        [value("SCORES", TensorProto.FLOAT, ["batch", CLASSES])],
        n.constants,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def small(path, seed, width=64):
    """One of many: two layers, 33 kB."""
    from onnx import TensorProto, helper, save

    n = _Network()
    n.random = np.random.default_rng(seed)
    hidden = n.add("Relu", [n.add("Gemm", ["INPUT0", n.weights(width, width), n.weights(width)])])
    n.add("Gemm", [hidden, n.weights(width, width), n.weights(width)], "OUTPUT0")
    tensors = [[helper.make_tensor_value_info(t, TensorProto.FLOAT, ["n", width])] for t in ("INPUT0", "OUTPUT0")]
    graph = helper.make_graph(n.nodes, "small", *tensors, n.constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def forest(path):
    """Trained on noise: leaves as deep as the parameters allow."""
    import xgboost

    random = np.random.default_rng(5)
    rows = random.standard_normal((2000, FEATURES)).astype(np.float32)
    labels = (rows[:, :3].sum(axis=1) + random.standard_normal(2000) > 0).astype(np.float32)
    parameters = {"objective": "binary:logistic", "max_depth": 6, "seed": 0, "nthread": 2}
    xgboost.train(parameters, xgboost.DMatrix(rows, labels), TREES).save_model(path)


def torch_mlp(path):
    import torch

    torch.manual_seed(5)
    layers = [part for _ in range(LAYERS) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    torch.jit.script(torch.nn.Sequential(*layers).eval()).save(path)


if __name__ == "__main__":
    torch_mlp(str(pathlib.Path(sys.argv[1]) / "model.pt"))
