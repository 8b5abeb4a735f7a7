"""Prints what the Python worker spends on a request, apart from the model's own work.

Usage: python bench/worker_requests.py

Requests have one FP32[16] input and get one FP32[16] output. "codec" decodes, runs and encodes batches inside this
process; "process" sends them to a real worker over its socket, and is compared with a bare round trip over such a
socket.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "python"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import harness
import numpy as np

MODEL = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            responses.append(pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUT", array)]))
        return responses
"""


class _Sink:
    """A socket that swallows."""

    def sendall(self, data: bytes) -> None:
        self.sent = data


def body(size: int) -> bytes:
    array = np.arange(16, dtype=np.float32)
    return harness.execute_body([{"handle": n, "inputs": [harness.In(0, array)]} for n in range(size)])


def best(times: list[float]) -> float:
    times.sort()
    return times[len(times) // 10]


def codec(size: int) -> float:
    """Seconds for a batch in this process."""
    from neso_worker import triton_python_backend_utils as pb_utils
    from neso_worker.instance import Instance
    from neso_worker.worker import Worker

    sys.modules["triton_python_backend_utils"] = pb_utils
    worker = Worker(None, _Sink())  # type: ignore[arg-type]
    names: dict = {}
    exec(MODEL, names)  # noqa: S102
    instance = Instance(worker.connection, worker.held, 0, names["TritonPythonModel"])
    instance.initialize({"inputs": ["IN"], "outputs": ["OUT"]})
    frame = harness.header(harness.EXECUTE, body(size))
    times = []
    for _ in range(3000):
        began = time.perf_counter()
        instance.execute(1, frame, 24, len(frame), False)
        times.append(time.perf_counter() - began)
    return best(times)


def bare(request: bytes, answer: int) -> float:
    """Seconds for a round trip of such frames with an echo process."""
    ours, theirs = socket.socketpair()
    reply = b"x" * answer
    pid = os.fork()
    if pid == 0:
        ours.close()
        left = 0
        while chunk := theirs.recv(65536):
            left += len(chunk)
            while left >= len(request):
                left -= len(request)
                theirs.sendall(reply)
        os._exit(0)
    theirs.close()
    times = []
    for _ in range(3000):
        began = time.perf_counter()
        ours.sendall(request)
        got = 0
        while got < answer:
            got += len(ours.recv(65536))
        times.append(time.perf_counter() - began)
    ours.close()
    os.waitpid(pid, 0)
    return best(times)


def process(size: int, batches: int = 3000, ahead: int = 1) -> tuple[float, float]:
    """Seconds for a batch through a real worker: at best one at a time, and on average with some ahead."""
    with (
        tempfile.TemporaryDirectory() as folder,
        harness.Model(Path(folder), MODEL) as model,
    ):
        request = harness.header(harness.EXECUTE, body(size), 1)
        sock, answers = model.peer.control, model.peer.answers
        sock.sendall(request)
        answer = len(answers.recv(65536))
        times = []
        for _ in range(batches):
            began = time.perf_counter()
            sock.sendall(request)
            got = 0
            while got < answer:
                got += len(answers.recv(65536))
            times.append(time.perf_counter() - began)
        began = time.perf_counter()

        def feed() -> None:
            for _ in range(batches // 8):
                sock.sendall(request * 8)

        feeder = threading.Thread(target=feed)
        feeder.start()
        got = 0
        while got < answer * (batches // 8 * 8):
            got += len(answers.recv(65536))
        feeder.join()
        return best(times), (time.perf_counter() - began) / (batches // 8 * 8)


def main() -> None:
    print(f"python {sys.version.split()[0]}, numpy {np.__version__}")
    for size in (1, 8, 32):
        inside = codec(size)
        request = harness.header(harness.EXECUTE, body(size), 1)
        there = bare(request, len(request) - 32 * size)
        one, many = process(size)
        print(
            f"batch of {size:2}: codec {inside * 1e6 / size:6.2f} us a request; round trip {one * 1e6:7.1f} us, "
            f"bare {there * 1e6:6.1f} us, over it {(one - there) * 1e6 / size:6.2f} us a request; "
            f"8 ahead {many * 1e6 / size:6.2f} us a request"
        )


if __name__ == "__main__":
    main()
