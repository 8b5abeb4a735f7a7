"""The example of docs/models/native-backends.md, and NVIDIA's Python backend, where there is one."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from libraries import ROOT, backend, have_host
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
    packages = next(Path(os.environ.get("PEER", "/nowhere")).glob("lib/python3*/site-packages"), None)
    if packages is None:
        pytest.skip("PEER names no environment with nvidia-pytriton==0.7.0")
    have_host()
    peer, version = packages / "pytriton" / "tritonserver", packages.parent.name.removeprefix("python")
    libs = tmp_path / "a" / "b" / "c"  # its libraries are four folders up from it, in nvidia_pytriton.libs
    shutil.copytree(peer / "backends" / "python", libs / "python")
    (tmp_path / "nvidia_pytriton.libs").symlink_to(packages / "nvidia_pytriton.libs")
    stub = libs / "python" / "triton_python_backend_stub"
    shutil.copy(peer / "python_backend_stubs" / version / "triton_python_backend_stub", stub)
    stub.chmod(0o755)
    folder = tmp_path / "models" / "add"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(ADD)
    (folder / "config.pbtxt").write_text(
        'backend: "python"\nruntime: "libtriton_python.so"\nmax_batch_size: 8\n'
        + "".join(f'input {{ name: "{n}" data_type: TYPE_FP32 dims: [ -1 ] }}\n' for n in "AB")
        + 'output { name: "SUM" data_type: TYPE_FP32 dims: [ -1 ] }\n'
    )
    environment = {
        "PATH": f"{packages.parents[2] / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs"),
    }
    with Server(tmp_path / "models", f"--backend-directory={libs}", env=environment) as s:
        for n in (1, 5, 100_000):
            values = list(range(n))
            inputs = [{"name": name, "datatype": "FP32", "shape": [1, n], "data": values} for name in "AB"]
            r = s.infer("add", {"inputs": inputs})
            assert r.status == 200 and r.json["outputs"][0]["data"] == [2 * v for v in values], r
        assert "neso-host" in s.log() or "libtriton_python" in s.log() or "python_be.cc" in s.log(), s.log()[-2000:]
