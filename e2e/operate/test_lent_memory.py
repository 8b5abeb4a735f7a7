"""Memory of a model that another one may read: who may write to it, and what of that is seen."""

from __future__ import annotations

import nobody
import pytest
from repository import place
from server import Server

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
# What it writes is its own; how many private mappings of lent memory the input lies in.
WRITE = """x += 1
            mapped = [line.split() for line in open("/proc/self/maps") if "memfd:neso" in line]
            ends = [[int(end, 16) for end in m[0].split("-")] for m in mapped if m[1] == "rw-p"]
            y = [x[0], x[-1], sum(begin <= x.ctypes.data < end for begin, end in ends)]"""
IO = """input { name: "X" data_type: TYPE_INT64 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_INT64 dims: [ -1 ] }
"""


def ensemble(repo, body):
    """A repository whose model "both" lends what one model has made to another one, with this body."""
    for name, text in {"make": MAKE, "reads": body}.items():
        place(repo / name, {"config.pbtxt": f'backend: "python"\n{IO}', "1/model.py": MODEL.replace("{body}", text)})
    steps = "".join(
        f'step {{ model_name: "{m}" model_version: -1 input_map {{ key: "X" value: "{x}" }} output_map {{ key: "Y" value: "{y}" }} }}\n'
        for m, x, y in (("make", "X", "between"), ("reads", "between", "Y"))
    )
    place(
        repo / "both", {"config.pbtxt": f'platform: "ensemble"\n{IO}ensemble_scheduling {{ {steps} }}\n', "1/.keep": ""}
    )
    return repo


def ask(server):
    r = server.infer("both", {"inputs": [{"name": "X", "datatype": "INT64", "shape": [1], "data": [7]}]})
    assert r.status == 200, r
    return r.json["outputs"][0]["data"]


@nobody.needs_root
@pytest.mark.parametrize("zygote", ["1", "0"])
def test_lent_memory_is_read_only(tmp_path, zygote):
    with nobody.served(ensemble(tmp_path / "models", STEAL), env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        lent, opened = ask(s)
        assert lent >= 1 and opened == 0, (lent, opened)


@pytest.mark.parametrize("zygote", ["1", "0"])
@pytest.mark.parametrize("private", ["1", "0"])
def test_a_write_to_lent_memory_is_the_models_own(tmp_path, zygote, private):
    """Also where the user wants no private mappings: then it is a copy from the first request on."""
    env = {"NESO_PYTHON_ZYGOTE": zygote, "NESO_PRIVATE_INPUTS": private}
    with Server(ensemble(tmp_path / "models", WRITE), env=env) as s:
        for _ in range(3):
            first, last, mappings = ask(s)
            assert (first, last) == (8, 8)
            assert mappings <= int(private)
