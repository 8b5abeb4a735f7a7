"""OUTPUT0 is the sum of the sequence's INPUT0 so far; the model keeps it by correlation id."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            value, start, end, sequence = (
                int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().flat[0])
                for name in ("INPUT0", "START", "END", "CORRID")
            )
            total = value if start else self.sums[sequence] + value
            if end:
                self.sums.pop(sequence, None)
            else:
                self.sums[sequence] = total
            tensor = pb_utils.Tensor("OUTPUT0", np.array([[total]], np.int64))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses
