"""Stands in for the native backend `sequence` of NVIDIA's tests: a running sum for each place in the batch."""

from __future__ import annotations

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


def value(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        delay = config.get("parameters", {}).get("execute_delay_ms", {}).get("string_value", "0")
        self.delay = int(delay) / 1000
        self.sums = [np.int32(0)] * max(1, config["max_batch_size"])

    def execute(self, requests):
        time.sleep(self.delay)
        responses = []
        for place, request in enumerate(requests):
            outputs = []
            if value(request, "READY"):
                data = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
                before = np.int32(0) if value(request, "START") else self.sums[place]
                self.sums[place] = before + data.sum(dtype=np.int32)
                outputs = [pb_utils.Tensor("OUTPUT", np.full_like(data, self.sums[place]))]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
