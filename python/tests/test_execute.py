"""A real worker process: load, execute, results, errors."""

from __future__ import annotations

import numpy as np
from harness import In, Model

DOUBLE = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            out = []
            for r in requests:
                a = pb_utils.get_input_tensor_by_name(r, "IN").as_numpy()
                out.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUT", a * 2)]))
            return out
"""


def test_one_request(tmp_path):
    with Model(tmp_path, DOUBLE) as m:
        assert m.ready == {"async": False}
        assert m.hello["protocol"] == 1
        out = m.run(In(0, np.arange(16, dtype=np.float32))).outputs[0]
        assert out.index == 0
        np.testing.assert_array_equal(out.array(), np.arange(16, dtype=np.float32) * 2)


def test_batches_sent_ahead_keep_their_order(tmp_path):
    with Model(tmp_path, DOUBLE) as m:
        for n in range(40):
            requests = [{"handle": 10 * n + k, "inputs": [In(0, np.full(3, n, np.int32))]} for k in range(3)]
            m.peer.execute(requests, n)
        for n in range(40):
            responses, error = m.peer.results(n)
            assert error is None
            assert [r.handle for r in responses] == [10 * n, 10 * n + 1, 10 * n + 2]
            assert all((r.outputs[0].array() == 2 * n).all() for r in responses)
