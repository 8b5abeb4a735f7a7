import asyncio
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        request = requests[0]  # the model does not batch
        (text,) = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()
        pause = json.loads(request.parameters()).get("pause_ms", 0) / 1000
        for word in text.split():
            await asyncio.sleep(pause)  # meanwhile other requests are served
            yield pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([word], dtype=object))])
