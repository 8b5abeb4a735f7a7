"""Models with sequences, and clients that send them; for the tests of sequences."""

from __future__ import annotations

import contextlib
import json
import queue

import numpy as np
from repository import until
from tritonclient import grpc, http

CONTROLS = """control_input [
  { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
  { name: "END" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] } ] },
  { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY bool_false_true: [ false, true ] } ] },
  { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: %s } ] } ]"""

# Adds up what the requests of a sequence bring; SEEN says what the whole batch looked like.
ACCUMULATE = """
import json, os, time
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        def get(request, name):
            tensor = pb_utils.get_input_tensor_by_name(request, name)
            return None if tensor is None else [v.decode() if isinstance(v, bytes) else v for v in tensor.as_numpy().ravel().tolist()][0]
        rows = [[get(r, name) for name in ("START", "END", "READY", "CORRID", "IN")] for r in requests]
        while os.path.exists("GATE"):
            open("GATE.in", "w").close()
            time.sleep(0.005)
        responses = []
        for request, (start, end, ready, corrid, value) in zip(requests, rows):
            if value == -1:
                os._exit(3)
            key = request.correlation_id()
            total = value + (0 if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START else self.sums.get(key, 0))
            self.sums[key] = total
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("OUT", np.array([[total]], np.int32)),
                pb_utils.Tensor("SEEN", np.array([[json.dumps(rows).encode()]], object))]))
        return responses
"""


def add_model(
    repo,
    name,
    code=ACCUMULATE,
    batch=4,
    strategy="direct { }",
    corrid="TYPE_UINT64",
    idle=3_600_000_000,
    state="",
    controls=True,
    more="",
):
    (repo / name / "1").mkdir(parents=True)
    (repo / name / "1" / "model.py").write_text(code.replace("GATE", str(repo.parent / f"{name}.gate")))
    (repo / name / "config.pbtxt").write_text(
        f"""backend: "python"
max_batch_size: {batch}
input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }}, {{ name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] }} ]
{more}
sequence_batching {{
  max_sequence_idle_microseconds: {idle}
  {strategy}
  {CONTROLS % corrid if controls else ""}
  {state}
}}
"""
    )


def inputs(module, value):
    tensor = module.InferInput("IN", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[value]], np.int32))
    return [tensor]


class Http:
    def __init__(self, server):
        self.client = http.InferenceServerClient(server.http, concurrency=8)

    def infer(self, model, value, corr, start=False, end=False):
        return self.client.infer(model, inputs(http, value), sequence_id=corr, sequence_start=start, sequence_end=end)


class Grpc:
    def __init__(self, server):
        self.client = grpc.InferenceServerClient(server.grpc)

    def infer(self, model, value, corr, start=False, end=False):
        return self.client.infer(model, inputs(grpc, value), sequence_id=corr, sequence_start=start, sequence_end=end)


class Stream:
    def __init__(self, server):
        self.answers = queue.Queue()
        self.client = grpc.InferenceServerClient(server.grpc)
        self.client.start_stream(lambda result, error: self.answers.put((result, error)))

    def send(self, model, value, corr, start=False, end=False, **kw):
        self.client.async_stream_infer(
            model, inputs(grpc, value), sequence_id=corr, sequence_start=start, sequence_end=end, **kw
        )

    def infer(self, *a, **kw):
        self.send(*a, **kw)
        result, error = self.answers.get(timeout=60)
        if error:
            raise error
        return result


def seen(result):
    return json.loads(result.as_numpy("SEEN").ravel()[0])


@contextlib.contextmanager
def held(repo, model):
    """What the model executes from now on waits until the end; the result waits until something has come."""
    gate = repo.parent / f"{model}.gate"
    come = repo.parent / f"{model}.gate.in"
    come.unlink(missing_ok=True)
    gate.touch()
    try:
        yield lambda: until(come.exists)
    finally:
        gate.unlink()


def pending(server, model):
    for line in server.metrics().splitlines():
        if line.startswith("nv_inference_pending_request_count{") and f'model="{model}"' in line:
            return int(float(line.split()[-1]))
    return None
