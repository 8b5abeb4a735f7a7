"""Tells speech from background noise, chunk by chunk, by the level above the quietest so far."""

import numpy as np
import triton_python_backend_utils as pb_utils

MARGIN_DB = 12.0  # that speech is louder than the background
RISE_DB = 0.5  # by which the background may grow with each chunk


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        samples = pb_utils.get_input_tensor_by_name(request, "SAMPLES").as_numpy().astype(np.float32)
        floor = pb_utils.get_input_tensor_by_name(request, "FLOOR_DB").as_numpy()
        power = np.mean(np.square(samples / 32768.0), axis=1, keepdims=True)
        level = 10 * np.log10(np.maximum(power, 1e-10)).astype(np.float32)  # -100 dB: silence
        first = request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
        floor = level if first else np.minimum(level, floor + np.float32(RISE_DB))
        return pb_utils.InferenceResponse(
            [
                pb_utils.Tensor("LEVEL_DB", level),
                pb_utils.Tensor("SPEECH", level > floor + MARGIN_DB),
                pb_utils.Tensor("NEW_FLOOR_DB", floor.astype(np.float32)),
            ]
        )
