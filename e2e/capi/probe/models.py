"""The model repository of the probe: small Python models, as text, that say what they were given."""

from __future__ import annotations

from pathlib import Path

HEAD = """import json
import os
import time

import numpy as np
import triton_python_backend_utils as pb


def given(r, name):
    return pb.get_input_tensor_by_name(r, name).as_numpy()


def answer(*pairs, **more):
    return pb.InferenceResponse([pb.Tensor(name, np.asarray(value)) for name, value in pairs], **more)


def begun():
    with open(os.environ["PROBE_HOME"] + "/begun", "a") as f:
        f.write("x")


class TritonPythonModel:
"""
ECHO = """
def execute(self, requests):
    return [answer(("Y", given(r, "X"))) for r in requests]
"""
PAIR = """
def execute(self, requests):
    out = []
    for r in requests:
        a, b = given(r, "A"), given(r, "B")
        named = {"SUM": a + b, "DIFF": a - b}
        out.append(answer(*[(n, named[n]) for n in ("SUM", "DIFF") if n in r.requested_output_names()]))
    return out
"""
TOLD = """
def execute(self, requests):
    out = []
    for r in requests:
        said = dict(id=r.request_id(), corr=r.correlation_id(), flags=r.flags(), timeout=r.timeout(),
                    outputs=sorted(r.requested_output_names()), parameters=json.loads(r.parameters()),
                    inputs=[(t.name(), list(t.as_numpy().shape)) for t in r.inputs()])
        out.append(answer(("WHAT", np.array([json.dumps(said, sort_keys=True)], dtype=object))))
    return out
"""
COUNT = """
def execute(self, requests):
    for r in requests:
        n, ms = int(given(r, "N")[0]), int(given(r, "MS")[0])
        s = r.get_response_sender()
        for i in range(n):
            if s.is_cancelled():
                s.send(pb.InferenceResponse(error=pb.TritonError("stopped", pb.TritonError.CANCELLED)))
                break
            s.send(answer(("I", np.array([i], np.int32))))
            time.sleep(ms / 1000)
        s.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
LAST = """
def execute(self, requests):
    for r in requests:
        s = r.get_response_sender()
        s.send(answer(("I", given(r, "N"))))
        s.send(answer(("I", given(r, "N") + 1)), flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
SLOW = """
def execute(self, requests):
    out = []
    for r in requests:
        end, said = time.monotonic() + int(given(r, "MS").flat[0]) / 1000, None
        begun()
        while time.monotonic() < end and said is None and not os.path.exists(os.environ["PROBE_HOME"] + "/go"):
            if r.is_cancelled():
                said = pb.InferenceResponse(error=pb.TritonError("cancelled while running", pb.TritonError.CANCELLED))
            time.sleep(0.005)
        out.append(said or answer(("OK", np.ones_like(given(r, "MS")))))
    return out
"""
ERRS = """
def execute(self, requests):
    out = []
    for r in requests:
        code = given(r, "CODE")[0].decode()
        if code == "raise":
            raise ValueError("raised on purpose")
        out.append(pb.InferenceResponse(error=pb.TritonError("failed with " + code, getattr(pb.TritonError, code))))
    return out
"""
SUMS = """
def initialize(self, args):
    self.sum = {}

def execute(self, requests):
    out = []
    for r in requests:
        who = given(r, "CORR").flat[0]
        self.sum[who] = int(given(r, "X").flat[0]) + (0 if given(r, "START").flat[0] else self.sum.get(who, 0))
        out.append(answer(("SUM", np.array([[self.sum[who]]], np.int32))))
    return out
"""
VERSIONS = """
def initialize(self, args):
    self.v = int(args["model_version"])

def execute(self, requests):
    return [answer(("V", np.array([self.v], np.int32))) for r in requests]
"""
BROKEN = """
def initialize(self, args):
    raise pb.TritonModelException("broken on purpose")

def execute(self, requests):
    return []
"""
WRONG = """
def execute(self, requests):
    return [answer(("OTHER", given(r, "X"))) for r in requests]
"""


def io(kind: str, *tensors: str) -> str:
    out = []
    for t in tensors:
        name, datatype, dims, *more = t.split(maxsplit=3)
        out.append(f'{{ name: "{name}" data_type: TYPE_{datatype} dims: [ {dims} ] {" ".join(more)} }}')
    return f"{kind} [ {', '.join(out)} ]\n"


X, Y = io("input", "X FP32 -1"), io("output", "Y FP32 -1")
N = io("input", "N INT32 1", "MS INT32 1") + io("output", "I INT32 1")
DECOUPLED = "model_transaction_policy { decoupled: true }\n"
SEQUENCE = """max_batch_size: 1
sequence_batching { max_sequence_idle_microseconds: 5000000 control_input [
  { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
  { name: "CORR" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] } ] }
"""
QUEUE = """max_batch_size: 4
dynamic_batching { max_queue_delay_microseconds: 1000 priority_levels: 2 default_priority_level: 2
  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 20000000 allow_timeout_override: true max_queue_size: 2 } }
"""
PYTHON = {
    "echo": ("max_batch_size: 8\n" + X + Y, ECHO),
    "plain": (X + Y, ECHO),
    "placed": ("max_batch_size: 8\n" + X + Y, ECHO),
    "pair": (io("input", "A INT32 4", "B INT32 4") + io("output", "SUM INT32 4", "DIFF INT32 4"), PAIR),
    "told": (io("input", "X INT32 1") + io("output", "WHAT STRING 1"), TOLD),
    "maybe": (io("input", "X INT32 1", "Z INT32 -1 optional: true") + io("output", "WHAT STRING 1"), TOLD),
    "texts": ("max_batch_size: 4\n" + io("input", "X STRING -1") + io("output", "Y STRING -1"), ECHO),
    "one_text": (io("input", "X STRING 1") + io("output", "Y STRING 1"), ECHO),
    "count": (DECOUPLED + N, COUNT),
    "last": (DECOUPLED + N, LAST),
    "slow": (io("input", "MS INT32 1") + io("output", "OK INT32 1"), SLOW),
    "queue": (QUEUE + io("input", "MS INT32 1") + io("output", "OK INT32 1"), SLOW),
    "errs": (io("input", "CODE STRING 1") + io("output", "OK INT32 1"), ERRS),
    "labels": (io("input", "X FP32 3") + io("output", 'Y FP32 3 label_filename: "names.txt"'), ECHO),
    "sums": (SEQUENCE + io("input", "X INT32 1") + io("output", "SUM INT32 1"), SUMS),
    "versions": ("version_policy { all {} }\n" + io("input", "X INT32 1") + io("output", "V INT32 1"), VERSIONS, 1, 3),
    "broken": (X + Y, BROKEN),
    "wrong": (X + Y, WRONG),
    "cached": ("response_cache { enable: true }\n" + X + Y, ECHO),
}
CHAIN = """platform: "ensemble"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
ensemble_scheduling { step [
  { model_name: "echo" model_version: -1 input_map { key: "X" value: "IN" } output_map { key: "Y" value: "mid" } },
  { model_name: "echo" model_version: -1 input_map { key: "X" value: "mid" } output_map { key: "Y" value: "OUT" } } ] }
"""


def write(repository: Path) -> None:
    for name, (config, code, *versions) in PYTHON.items():
        python(repository, name, config, code, versions or (1,))
    placed = repository / "placed" / "config.pbtxt"
    placed.write_text(placed.read_text().replace("KIND_CPU", 'KIND_CPU host_policy: "mine"'))
    (repository / "labels" / "names.txt").write_text("cat\ndog\nowl\n")
    (repository / "chain" / "1").mkdir(parents=True)
    (repository / "chain" / "config.pbtxt").write_text(CHAIN)


def python(repository: Path, name: str, config: str, code: str, versions=(1,)) -> Path:
    folder = repository / name
    for v in versions:
        (folder / str(v)).mkdir(parents=True, exist_ok=True)
        body = HEAD + "".join(f"    {line}\n" for line in code.strip("\n").split("\n"))
        (folder / str(v) / "model.py").write_text(body)
    (folder / "config.pbtxt").write_text(
        f'backend: "python"\n{config}instance_group [ {{ kind: KIND_CPU count: 1 }} ]\n'
    )
    return folder
