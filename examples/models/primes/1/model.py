"""Counts the primes below LIMIT, at most fifty millions."""

import numpy as np
import triton_python_backend_utils as pb_utils

LARGEST = 50_000_000


class TritonPythonModel:
    def execute(self, requests):
        return [self.count(int(pb_utils.get_input_tensor_by_name(r, "LIMIT").as_numpy()[0])) for r in requests]

    def count(self, limit):
        if not 0 <= limit <= LARGEST:
            message = f"LIMIT is {limit}, expected 0 to {LARGEST}"
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError(message, code=pb_utils.TritonError.INVALID_ARG)
            )
        sieve = np.ones(max(limit, 2), bool)
        sieve[:2] = False
        for n in range(2, int(limit**0.5) + 1):
            if sieve[n]:
                sieve[n * n :: n] = False
        return pb_utils.InferenceResponse([pb_utils.Tensor("COUNT", np.array([sieve.sum()], np.int64))])
