"""PROBABILITIES to SENTIMENT (a word) and CONFIDENCE (the probability of the likelier label)."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.labels = np.array(parameters["labels"]["string_value"].split(","), np.object_)
        self.sure = float(parameters["sure"]["string_value"])

    def execute(self, requests):
        responses = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "PROBABILITIES").as_numpy()
            best = rows.max(axis=1, keepdims=True)
            words = np.where(best >= self.sure, self.labels[rows.argmax(axis=1)][:, None], "neutral")
            responses.append(
                pb_utils.InferenceResponse(
                    output_tensors=[
                        pb_utils.Tensor("SENTIMENT", words.astype(np.object_)),
                        pb_utils.Tensor("CONFIDENCE", best.astype(np.float32)),
                    ]
                )
            )
        return responses
