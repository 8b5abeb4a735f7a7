"""OUTPUT0 is INPUT0; the configuration is completed by the model."""

import numpy  # noqa: F401  (what every model imports is part of its load time)
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(8)
        config.add_input({"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_dynamic_batching()
        return config

    def execute(self, requests):
        responses = []
        for request in requests:
            value = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            tensor = pb_utils.Tensor("OUTPUT0", value)
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses
