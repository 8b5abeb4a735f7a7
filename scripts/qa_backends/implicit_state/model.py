"""Stands in for the native backend `implicit_state` of NVIDIA's tests, without what only the C API can do: states of an unknown name."""

from __future__ import annotations

import numpy as np
import triton_python_backend_utils as pb_utils

BLOCK = 1 << 20


def value(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]


class TritonPythonModel:
    def initialize(self, args):
        self.index = 0

    def execute(self, requests):
        return [pb_utils.InferenceResponse(self.run(request)) for request in requests]

    def run(self, request):
        case = value(request, "TEST_CASE")
        if case == 0:
            raise pb_utils.TritonModelException("a model in Python names no states")
        state = pb_utils.get_input_tensor_by_name(request, "INPUT_STATE").as_numpy()
        index, self.index = self.index, 0 if value(request, "END") else self.index + 1
        if case == 1:  # the state is left as it is
            return [pb_utils.Tensor("OUTPUT", np.array([value(request, "INPUT") + state.ravel()[0]], np.int32))]
        if case == 2:
            return [pb_utils.Tensor("OUTPUT_STATE", state)]
        grown = np.concatenate([state.ravel()[: index * BLOCK], np.full(BLOCK, index, np.int8)])
        return [pb_utils.Tensor("OUTPUT_STATE", grown)]
