"""OUTPUT0 is INPUT0."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            tensor = pb_utils.Tensor("OUTPUT0", value)
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses
