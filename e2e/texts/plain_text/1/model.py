import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            prompt = pb_utils.get_input_tensor_by_name(request, "question").as_numpy()[0].decode()
            text = json.dumps({"prompt": prompt, "parameters": json.loads(request.parameters())})
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("answer", np.array([text], dtype=object))]))
        return answers
