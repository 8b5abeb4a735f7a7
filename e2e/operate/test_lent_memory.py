"""Memory of a model that another one may read: as user nobody it cannot get hold of it to write."""

from __future__ import annotations

import nobody
import pytest
from repository import place

MIB = 1 << 20
MODEL = """import fcntl
import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            {body}
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.asarray(y, np.int64))]))
        return answers
"""
MAKE = f"y = np.full({MIB // 8}, x[0])"
# Of the memory that it has only been given to read: how much there is, and how much of it can be opened to write.
STEAL = """lent = opened = 0
            for fd in os.listdir("/proc/self/fd"):
                path = f"/proc/self/fd/{fd}"
                try:
                    if "memfd:neso" not in os.readlink(path) or fcntl.fcntl(int(fd), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                        continue
                except OSError:
                    continue
                lent += 1
                for how in (os.O_RDWR, os.O_WRONLY):
                    try:
                        os.fchmod(int(fd), 0o777)
                    except OSError:
                        pass
                    try:
                        os.close(os.open(path, how))
                        opened += 1
                    except OSError:
                        pass
            y = [lent, opened]"""
IO = """input { name: "X" data_type: TYPE_INT64 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_INT64 dims: [ -1 ] }
"""


@nobody.needs_root
@pytest.mark.parametrize("zygote", ["1", "0"])
def test_lent_memory_is_read_only(tmp_path, zygote):
    repo = tmp_path / "models"
    for name, body in {"make": MAKE, "steal": STEAL}.items():
        place(repo / name, {"config.pbtxt": f'backend: "python"\n{IO}', "1/model.py": MODEL.replace("{body}", body)})
    steps = "".join(
        f'step {{ model_name: "{m}" model_version: -1 input_map {{ key: "X" value: "{x}" }} output_map {{ key: "Y" value: "{y}" }} }}\n'
        for m, x, y in (("make", "X", "between"), ("steal", "between", "Y"))
    )
    place(
        repo / "both", {"config.pbtxt": f'platform: "ensemble"\n{IO}ensemble_scheduling {{ {steps} }}\n', "1/.keep": ""}
    )
    with nobody.served(repo, env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        r = s.infer("both", {"inputs": [{"name": "X", "datatype": "INT64", "shape": [1], "data": [7]}]})
        assert r.status == 200, r
        lent, opened = r.json["outputs"][0]["data"]
        assert lent >= 1 and opened == 0, (lent, opened)
