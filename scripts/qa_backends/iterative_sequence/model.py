"""Stands in for the native backend `iterative_sequence` of NVIDIA's tests: counts down, an answer for each step."""

from __future__ import annotations

import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for request in requests:
            key = request.correlation_id()
            data = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            left = self.left.get(key, int(data.ravel()[0])) - 1
            self.left[key] = left
            time.sleep(0.5)
            sender = request.get_response_sender()
            answer = pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.full_like(data, left))])
            if left > 0:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                sender.send(answer)
            else:
                del self.left[key]
                sender.send(answer, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None
