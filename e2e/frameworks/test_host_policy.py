"""--host-policy: workers of frameworks run on the processors of their instance, with the threads that the framework has made."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import skops.io
import torch
from server import Server, named
from sklearn.linear_model import Ridge
from tritonclient import http

GROUP = 'instance_group { name: "%s" count: 1 kind: KIND_CPU host_policy: "near" }\n'
TENSORFLOW = """import sys
import tensorflow as tf


class Module(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 64], tf.float32, "x")])
    def product(self, x):
        return {"y": tf.reduce_sum(x @ tf.ones([64, 64]), 1)}


m = Module()
tf.saved_model.save(m, sys.argv[1], signatures={"serving_default": m.product})
"""


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return (x @ torch.ones(64, 64)).sum(1)


def pytorch(directory):
    torch.jit.script(Net().eval()).save(str(directory / "model.pt"))
    return (
        'platform: "pytorch_libtorch"\ninput { name: "x" data_type: TYPE_FP32 dims: [ 64 ] }\noutput { name: "y" '
        "data_type: TYPE_FP32 dims: [ 1 ] reshape { } }\n"
    )


def tensorflow(directory):
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run(
        [sys.executable, "-c", TENSORFLOW, directory / "model.savedmodel"], check=True, timeout=180, env=quiet
    )
    return 'platform: "tensorflow_savedmodel"\n'


def sklearn(directory):
    rows = np.random.default_rng(0).random((80, 64)).astype(np.float32)
    skops.io.dump(Ridge().fit(rows, rows.sum(1)), directory / "model.skops")
    return 'backend: "sklearn"\n'


@pytest.mark.full
def test_workers(tmp_path):
    one, *_ = sorted(os.sched_getaffinity(0))
    for make in (pytorch, tensorflow, sklearn):
        version = tmp_path / "models" / make.__name__ / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text(make(version) + "max_batch_size: 64\n" + GROUP % make.__name__)

    def places(instance):
        """The processors of the threads of an instance's worker, which the framework adds to while it works."""
        (pid,) = named(s.process.pid, instance)
        found = set()
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                found.add(tuple(sorted(os.sched_getaffinity(int(task.name)))))
        return found

    with Server(tmp_path / "models", f"--host-policy=near,cpu-cores={one}-{one}") as s:
        with http.InferenceServerClient(s.http) as client:
            for name in ("pytorch", "tensorflow", "sklearn"):
                (given,) = client.get_model_metadata(name)["inputs"]
                tensor = http.InferInput(given["name"], [64, 64], "FP32")
                tensor.set_data_from_numpy(np.ones((64, 64), np.float32))
                for _ in range(3):
                    assert len(client.infer(name, [tensor]).get_response()["outputs"]) == 1
                assert places(f"{name}_0") == {(one,)}, name
