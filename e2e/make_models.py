"""Writes the identity models of e2e/models: one per datatype, in Go and in Python."""

from pathlib import Path

TYPES = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 STRING".split()
PYTHON = '''"""Returns its input."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy())])
            for r in requests
        ]
'''

for kind, backend in (("identity_any", "identity"), ("python_any", "python")):
    for t in TYPES:
        name = "bytes" if t == "STRING" else t.lower()
        d = Path(__file__).parent / "models" / f"{kind}_{name}"
        (d / "1").mkdir(parents=True, exist_ok=True)
        (d / "config.pbtxt").write_text(
            f'backend: "{backend}"\n'
            f'input [ {{ name: "INPUT0" data_type: TYPE_{t} dims: [ -1, -1 ] }} ]\n'
            f'output [ {{ name: "OUTPUT0" data_type: TYPE_{t} dims: [ -1, -1 ] }} ]\n'
        )
        if backend == "python":
            (d / "1" / "model.py").write_text(PYTHON)
        else:
            (d / "1" / ".keep").write_text("")
