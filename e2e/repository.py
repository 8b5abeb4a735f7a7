"""Models made for one test, and what tests ask of them."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

from server import MODELS

X = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}
MODEL = """import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        {init}

    def execute(self, requests):
        {execute}
        results = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() + {add} for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", x)]) for x in results]
"""


def python_model(repo, name, version=1, init="pass", execute="pass", add=0, extra=""):
    config = (
        'backend: "python"\n'
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n'
        'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n' + extra
    )
    code = MODEL.format(init=init, execute=execute, add=add)
    place(repo / name, {"config.pbtxt": config, f"{version}/model.py": code})


def place(directory, files):
    """Puts files, by their paths, into the directory of a model, of which a server that looks on never sees a half."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent.parent) as aside:
        for path, text in files.items():
            made = Path(aside) / "made" / path
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(text)
        moved(Path(aside) / "made", directory)


def moved(source, target):
    """Moves what there is at source to target; of directories that are there already it moves the entries that differ."""
    if source.is_dir() and target.is_dir():
        for entry in sorted(source.iterdir()):
            moved(entry, target / entry.name)
    elif not (target.is_file() and target.read_bytes() == source.read_bytes()):
        os.replace(source, target)


class Gate:
    """Holds what a model executes until it is opened, and tells what has come so far: execute is for python_model."""

    def __init__(self, directory, name="gate"):
        self.shut, self.noted = directory / name, directory / f"{name}.come"
        self.execute = (
            f"import os\n        open({str(self.noted)!r}, 'a').write('.')\n"
            f"        while os.path.exists({str(self.shut)!r}):\n            time.sleep(0.005)"
        )
        self.close()

    def close(self):
        self.shut.touch()
        self.noted.write_text("")

    def open(self):
        self.shut.unlink()

    def come(self, n=1):
        """Waits until n executions have begun since it was closed."""
        assert until(lambda: len(self.noted.read_text()) >= n), (
            f"of {n} executions {self.noted.read_text()!r} have come"
        )


class Sent:
    """A request that has been sent, whose answer is read later or never."""

    def __init__(self, server, model, body=X):
        data = json.dumps(body).encode()
        head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
        self.socket = socket.create_connection(("127.0.0.1", server.http_port), timeout=120)
        self.socket.sendall(head.encode() + data)

    def status(self):
        """Waits for the answer."""
        response = http.client.HTTPResponse(self.socket)
        try:
            response.begin()
            response.read()
            return response.status
        finally:
            response.close()
            self.close()

    def close(self):
        self.socket.close()


def identity_model(repo, name):
    shutil.copytree(MODELS / "identity_any_fp32", repo / name)


def ensemble(repo, name, *models):
    (repo / name / "1").mkdir(parents=True)
    tensors = ["INPUT0", *[f"t{i}" for i in range(1, len(models))], "OUTPUT0"]
    steps = ",\n".join(
        (
            f'{{ model_name: "{m}" model_version: -1 input_map {{ key: "INPUT0" value: "{tensors[i]}" }} output_map {{ '
            f'key: "OUTPUT0" value: "{tensors[i + 1]}" }} }}'
        )
        for i, m in enumerate(models)
    )
    (repo / name / "config.pbtxt").write_text(
        'platform: "ensemble"\n'
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n'
        'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1, -1 ] }\n'
        f"ensemble_scheduling {{ step [ {steps} ] }}\n"
    )


def until(condition, timeout=60):
    """Whether condition becomes true. The time is for machines that stand still now and then: nothing else is to depend on it."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)  # polling another process: there is nothing to wait on
    return False


def spoilt(server, repository, file, named, infer):
    """The file of the loaded model m becomes a half of it, nothing and something else, in place as a copy that is cut off does: what
    infer returns stays as it was, and a load refuses the file by the name given, never by its place on the machine."""
    before = infer()
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], b"", bytes(range(256))):
        file.write_bytes(content)
        assert infer() == before
        reply = server.post("/v2/repository/models/m/load")
        assert reply.status == 400 and named in reply.error, reply
        assert str(repository) not in reply.error, reply
        assert infer() == before


def settled(server, count):
    """Waits until that many models are loaded or have a reason why they are not, and inferences are served; returns
    the reasons by model, empty for those that are."""

    def rows():
        try:
            index = server.post("/v2/repository/index").json
        except (OSError, ValueError):  # it does not listen yet
            return []
        return [m for m in index if m.get("state") == "READY" or m.get("reason")]

    def initialized():  # the last model may be known a moment before inferences are served
        return server.post("/v2/models/none/infer", "{}").status != 503

    # Frameworks are imported one after the other, compilers run: minutes on a busy machine.
    assert until(lambda: len(rows()) == count, timeout=400), server.log()[-3000:]
    assert until(initialized), server.log()[-3000:]
    return {m["name"]: m.get("reason", "") for m in rows()}


def answer(server, model, **kw):
    r = server.infer(model, X, **kw)
    assert r.status == 200, r
    return r.json["outputs"][0]["data"][0]


def metric(server, name, **labels):
    """The value of a metric with exactly these labels, or None."""
    inside = ",".join(f'{k}="{v}"' for k, v in sorted(labels.items()))
    for line in server.metrics().splitlines():
        if line.startswith(f"{name}{{{inside}}} "):
            return float(line.rsplit(" ", 1)[1])
    return None
