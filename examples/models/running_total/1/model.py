"""A running total for each client: the server keeps it from request to request."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "VALUE").as_numpy()
            total = pb_utils.get_input_tensor_by_name(request, "TOTAL_SO_FAR").as_numpy() + value
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("TOTAL", total), pb_utils.Tensor("NEW_TOTAL", total)])
            )
        return responses
