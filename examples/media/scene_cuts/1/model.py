"""Finds where a clip cuts to another scene: frames whose histogram of colours is unlike that of the one before."""

import numpy as np
import triton_python_backend_utils as pb_utils

BINS = 8
THRESHOLD = 0.5  # part of the pixels that have another colour


def histogram(frame):
    colours = (frame // (256 // BINS)).reshape(-1, 3).astype(np.int64)
    index = (colours[:, 0] * BINS + colours[:, 1]) * BINS + colours[:, 2]
    return np.bincount(index, minlength=BINS**3) / len(index)


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            self.answer(request, request.get_response_sender())

    def answer(self, request, sender):
        frames = pb_utils.get_input_tensor_by_name(request, "FRAMES").as_numpy()
        before = None
        for number, frame in enumerate(frames):
            if request.is_cancelled():  # nobody wants the rest of the clip
                break
            now = histogram(frame)
            change = 0.0 if before is None else np.abs(now - before).sum() / 2
            before = now
            if change > THRESHOLD:
                found = [
                    pb_utils.Tensor("FRAME", np.array([number], np.int32)),
                    pb_utils.Tensor("CHANGE", np.array([change], np.float32)),
                ]
                sender.send(pb_utils.InferenceResponse(found))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
