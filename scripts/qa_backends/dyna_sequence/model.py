"""Stands in for the native backend `dyna_sequence` of NVIDIA's tests: a running sum for each correlation id."""

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
        self.sums = {}

    def execute(self, requests):
        time.sleep(self.delay)
        return [self.answer(r) for r in requests]

    def answer(self, request):
        if not value(request, "READY"):
            return pb_utils.InferenceResponse([])
        key = int(value(request, "CORRID"))
        data = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
        total = int(data.sum()) + (0 if value(request, "START") else self.sums.get(key, 0))
        self.sums[key] = total
        if value(request, "END"):
            total += key  # so that the answer says whose sum it is
            del self.sums[key]
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor("OUTPUT", np.full_like(data, np.int64(total).astype(np.int32)))]
        )
