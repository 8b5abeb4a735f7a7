"""Models that compute on the GPU: PyTorch's backend, and Python models by torch and cupy, whose tensors stay there between them."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import tritonclient.http as thttp
from device import used_mib
from repository import place, until
from server import Server, alive, descendants
from tritonclient.utils import InferenceServerException

torch = pytest.importorskip("torch")

IO = (
    'input [ {{ name: "x" data_type: TYPE_FP32 dims: [ {dims} ] }} ]\noutput [ {{ name: "y" data_type: TYPE_FP32 dims: [ {dims} ] }} ]\n'
    "instance_group {{ kind: KIND_GPU gpus: 0 }}\n"
)
PYTHON = 'backend: "python"\nparameters {{ key: "FORCE_CPU_ONLY_INPUT_TENSORS" value {{ string_value: "no" }} }}\n' + IO
TORCH = """import torch
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        assert (args["model_instance_kind"], args["model_instance_device_id"]) == ("GPU", "0"), args

    def execute(self, requests):
        answers = []
        for request in requests:
            given = pb_utils.get_input_tensor_by_name(request, "x")
            x = torch.from_dlpack(given.to_dlpack())
            assert x.device.type == {device!r}, x.device
            y = x.cuda() * 2 + 1
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack("y", y)]))
        return answers
"""
CUPY = (
    TORCH.replace("import torch\n", "import cupy\n")
    .replace("torch.from_dlpack(given.to_dlpack())", "cupy.from_dlpack(given)")
    .replace("assert x.device.type == {device!r}, x.device", "assert not given.is_cpu()")
    .replace("x.cuda() * 2 + 1", "x * 2 + 1")
)


def ask(server, model, x):
    with thttp.InferenceServerClient(server.http) as client:
        given = thttp.InferInput("x", x.shape, "FP32")
        given.set_data_from_numpy(x)
        return client.infer(model, [given]).as_numpy("y")


def chain(repo, name, *steps):
    lines = []
    for n, step in enumerate(steps):
        given, made = "x" if n == 0 else f"t{n}", "y" if n == len(steps) - 1 else f"t{n + 1}"
        lines.append(
            f'step {{ model_name: "{step}" model_version: -1 input_map {{ key: "x" value: "{given}" }} '
            f'output_map {{ key: "y" value: "{made}" }} }}'
        )
    io = IO.format(dims=-1).replace("instance_group { kind: KIND_GPU gpus: 0 }\n", "")
    place(
        repo / name,
        {"config.pbtxt": f'platform: "ensemble"\n{io}ensemble_scheduling {{ {" ".join(lines)} }}\n', "1/.keep": ""},
    )


def test_torch_models_pass_tensors_on_the_device(repo):
    place(repo / "first", {"config.pbtxt": PYTHON.format(dims=-1), "1/model.py": TORCH.format(device="cpu")})
    place(repo / "next", {"config.pbtxt": PYTHON.format(dims=-1), "1/model.py": TORCH.format(device="cuda")})
    chain(repo, "row", "first", "next", "next")
    with Server(repo) as s:
        for size in (1, 1000, 3_000_000):
            x = np.arange(size, dtype=np.float32)
            for _ in range(10):
                np.testing.assert_allclose(ask(s, "row", x), ((x * 2 + 1) * 2 + 1) * 2 + 1, rtol=1e-6)
    assert s.process.returncode == 0, s.log()[-3000:]


def test_cupy_takes_what_torch_made(repo):
    pytest.importorskip("cupy")
    place(repo / "first", {"config.pbtxt": PYTHON.format(dims=-1), "1/model.py": TORCH.format(device="cpu")})
    place(repo / "next", {"config.pbtxt": PYTHON.format(dims=-1), "1/model.py": CUPY})
    chain(repo, "row", "first", "next")
    with Server(repo) as s:
        x = np.arange(100_000, dtype=np.float32)
        for _ in range(5):
            np.testing.assert_allclose(ask(s, "row", x), (x * 2 + 1) * 2 + 1, rtol=1e-6)


def test_torchscript_on_its_gpu(repo):
    """The module, its weights and its inputs lie on the GPU; the answers are those of the CPU."""
    net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).eval()
    io = 'backend: "pytorch"\nmax_batch_size: 32\ndynamic_batching { }\n' + IO.format(dims=64).replace(
        '"x"', '"x__0"'
    ).replace('"y"', '"y__0"')
    place(repo / "net", {"config.pbtxt": io, "1/.keep": ""})
    torch.jit.script(net).save(str(repo / "net" / "1" / "model.pt"))
    before = used_mib()
    with Server(repo) as s, thttp.InferenceServerClient(s.http) as client:
        for rows in (1, 7, 32):
            x = np.random.default_rng(rows).standard_normal((rows, 64), np.float32)
            given = thttp.InferInput("x__0", x.shape, "FP32")
            given.set_data_from_numpy(x)
            got = client.infer("net", [given]).as_numpy("y__0")
            np.testing.assert_allclose(got, net(torch.from_numpy(x)).detach().numpy(), rtol=1e-2, atol=1e-3)
        assert used_mib() - before > 100, "a CUDA context takes hundreds of MiB"
    assert until(lambda: used_mib() - before < 50), "the worker's memory is free once the server ends"


def test_a_worker_that_dies_frees_its_memory(repo):
    hold = TORCH.format(device="cpu").replace(
        "    def initialize(self, args):\n",
        "    def initialize(self, args):\n        self.held = torch.empty(1 << 30, dtype=torch.uint8, device='cuda')\n",
    )
    place(repo / "hold", {"config.pbtxt": PYTHON.format(dims=-1), "1/model.py": hold})
    x = np.arange(10, dtype=np.float32)
    with Server(repo) as s:
        np.testing.assert_allclose(ask(s, "hold", x), x * 2 + 1)
        used = used_mib()
        # Of the server's processes the one with the gigabyte.
        dead = [p for p in descendants(s.process.pid) if holds_a_device(p)]
        assert dead
        for process in dead:
            os.kill(process, signal.SIGKILL)
        assert until(lambda: not any(map(alive, dead)))
        np.testing.assert_allclose(answered(s, x), x * 2 + 1)  # by a new worker
        assert until(lambda: used_mib() - used < 200), "the old worker's gigabyte and the new one's"
    assert s.process.returncode == 0, s.log()[-3000:]


def answered(server, x):
    got = []

    def ask_again():
        try:
            got.append(ask(server, "hold", x))
        except InferenceServerException:
            return False
        return True

    assert until(ask_again)
    return got[0]


def holds_a_device(pid):
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            continue
    return any(link.startswith("/dev/nvidia") for link in links)


def test_out_of_memory_on_the_device_is_an_error_of_its_request(repo):
    code = TORCH.format(device="cpu").replace(
        "y = x.cuda() * 2 + 1",
        "y = x.cuda() * 2 + 1\n            if x[0] < 0:\n                torch.empty(1 << 50, dtype=torch.uint8, device='cuda')",
    )
    place(repo / "big", {"config.pbtxt": PYTHON.format(dims=-1), "1/model.py": code})
    with Server(repo) as s:
        with pytest.raises(InferenceServerException, match="(?i)memory"):
            ask(s, "big", np.array([-1], np.float32))
        np.testing.assert_allclose(ask(s, "big", np.array([3], np.float32)), [7])
