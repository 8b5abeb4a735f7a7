"""Doubles its input. What is -1 has it take all memory there is, as a leak does."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        arrays = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        if any((a == -1).any() for a in arrays):
            np.ones(1 << 30, np.uint8)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", a * 2)]) for a in arrays]
