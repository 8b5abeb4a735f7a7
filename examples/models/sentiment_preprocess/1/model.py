"""TEXT (BYTES, UTF-8) to FEATURES: hashed words, counted by the recipe that the configuration names."""

import json
import os

import numpy as np
import triton_python_backend_utils as pb_utils
from recipe import Recipe


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        name = config["parameters"]["recipe"]["string_value"]
        path = os.path.join(args["model_repository"], name)
        try:
            self.recipe = Recipe(path)
        except OSError as error:
            raise pb_utils.TritonModelException(f"the recipe '{name}' cannot be read: {error.strerror}") from error
        size = pb_utils.get_output_config_by_name(config, "FEATURES")["dims"][-1]
        if int(size) != self.recipe.buckets:
            raise pb_utils.TritonModelException(
                f"FEATURES has {size} values, the recipe '{name}' makes {self.recipe.buckets}"
            )
        pb_utils.Logger.log_info(f"{args['model_instance_name']}: {self.recipe.buckets} counters by {name}")

    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
            rows = [self.recipe.features(text.decode("utf-8", "replace")) for text in texts]
            tensor = pb_utils.Tensor("FEATURES", np.stack(rows))
            responses.append(pb_utils.InferenceResponse(output_tensors=[tensor]))
        return responses
