import numpy as np
import triton_python_backend_utils as pb_utils


def vector(text):
    counts = np.array([text.lower().count(chr(ord("a") + i)) for i in range(26)], np.float32)
    return counts / max(np.linalg.norm(counts), 1e-9)


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
            vectors = np.stack([vector(t.decode()) for t in texts])
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("EMBEDDING", vectors)]))
        return answers
