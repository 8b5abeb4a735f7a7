"""FEATURES to PROBABILITIES (negative, positive); the weights come from examples/train_sentiment.py."""

import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        path = os.path.join(args["model_repository"], args["model_version"], "weights.npz")
        with np.load(path) as weights:
            self.weights, self.bias = weights["weights"], weights["bias"]

    def execute(self, requests):
        # One product for the whole batch; the server has not joined the requests of a Python model.
        inputs = [pb_utils.get_input_tensor_by_name(request, "FEATURES").as_numpy() for request in requests]
        logits = np.concatenate(inputs) @ self.weights + self.bias
        positive = 1 / (1 + np.exp(-logits))
        rows = np.stack([1 - positive, positive], axis=1).astype(np.float32)
        ends = np.cumsum([len(part) for part in inputs])[:-1]
        return [
            pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("PROBABILITIES", part)])
            for part in np.split(rows, ends)
        ]
