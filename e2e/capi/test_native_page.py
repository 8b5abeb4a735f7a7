"""The example of docs/models/native-backends.md, and NVIDIA's Python backend, where there is one."""

from __future__ import annotations

import re

from libraries import ROOT, backend, have_host
from nvidia import python_backend
from server import Server

ADD = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        a, b = ([pb_utils.get_input_tensor_by_name(r, n).as_numpy() for r in requests] for n in ("A", "B"))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SUM", x + y)]) for x, y in zip(a, b)]
"""


def test_example(tmp_path):
    have_host()
    page = (ROOT / "docs" / "models" / "native-backends.md").read_text()
    source = re.search(r"```c\n(.*?)```", page, re.S).group(1)
    config = re.search(r"```text\n(backend: \"half\".*?)```", page, re.S).group(1)
    request = re.search(r"curl -s localhost:8000(\S+) -d '(.*)'\n(.*)\n", page)
    backend(tmp_path / "backends", "half", source)
    (tmp_path / "models" / "half" / "1").mkdir(parents=True)
    (tmp_path / "models" / "half" / "config.pbtxt").write_text(config)
    with Server(tmp_path / "models", f"--backend-directory={tmp_path / 'backends'}") as s:
        r = s.post(request[1], request[2])
        assert r.status == 200 and r.body.decode() == request[3], r


def test_python_backend_of_nvidia(tmp_path):
    """The peer's own binary, with its stub, serves a model.py under this server."""
    libs, environment = python_backend(tmp_path)
    have_host()
    folder = tmp_path / "models" / "add"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(ADD)
    (folder / "config.pbtxt").write_text(
        'backend: "python"\nruntime: "libtriton_python.so"\nmax_batch_size: 8\n'
        + "".join(f'input {{ name: "{n}" data_type: TYPE_FP32 dims: [ -1 ] }}\n' for n in "AB")
        + 'output { name: "SUM" data_type: TYPE_FP32 dims: [ -1 ] }\n'
    )
    with Server(tmp_path / "models", f"--backend-directory={libs}", env=environment) as s:
        for n in (1, 5, 100_000):
            values = list(range(n))
            inputs = [{"name": name, "datatype": "FP32", "shape": [1, n], "data": values} for name in "AB"]
            r = s.infer("add", {"inputs": inputs})
            assert r.status == 200 and r.json["outputs"][0]["data"] == [2 * v for v in values], r
        assert "neso-host" in s.log() or "libtriton_python" in s.log() or "python_be.cc" in s.log(), s.log()[-2000:]
