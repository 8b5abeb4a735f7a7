"""Hashed bag-of-words features of short texts; the arithmetic is in text_features.py beside this file."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils
from text_features import features


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        output = pb_utils.get_output_config_by_name(config, "FEATURES")
        self.dtype = pb_utils.triton_string_to_numpy(output["data_type"])
        self.size = int(output["dims"][-1])
        self.lowercase = config["parameters"]["lowercase"]["string_value"] == "true"
        pb_utils.Logger.log_info(f"{args['model_instance_name']} runs on {args['model_instance_kind']}")

    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
            rows = np.stack([features(text, self.size, self.lowercase) for text in texts])
            tensor = pb_utils.Tensor("FEATURES", rows.astype(self.dtype))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses

    def finalize(self):
        pb_utils.Logger.log_info("ported: finalize")
