"""What the clients of one key do not read is kept from taking the place of others' answers."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from harness import MiB, answer, connect, head, offer
from repository import place, until
from server import BINARY, Server
from test_grpc import INFER as GRPC
from test_grpc import INITIAL_WINDOW, call, clients, setting, window
from tritonclient.grpc import service_pb2
from tritonclient.utils import InferenceServerException

CONFIG = """backend: "python"
input { name: "N" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_UINT8 dims: [ -1 ] }
"""
MODEL = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        n = [int(pb_utils.get_input_tensor_by_name(r, "N").as_numpy()[0]) for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(k, np.uint8))]) for k in n]
"""


@pytest.fixture
def keyed(tmp_path):
    """A server of 64 MiB for answers, and the keys to it."""
    place(tmp_path / "models" / "zeros", {"config.pbtxt": CONFIG, "1/model.py": MODEL})
    keys, entries = {}, []
    for name, options in {
        "greedy": [],
        "other": [],
        "bounded": [f"--queued-bytes={24 * MiB}"],
        "ops": ["--scopes", "read"],
    }.items():
        out = subprocess.run([BINARY, "key", "new", name, *options], capture_output=True, text=True, check=True).stdout
        keys[name] = out.split("key (shown once): ")[1].split("\n")[0]
        entries.append(json.loads(out[out.index("{") :]))
    (tmp_path / "keys.json").write_text(json.dumps({"keys": entries}))
    with Server(tmp_path / "models", f"--max-queued-bytes={64 * MiB}", f"--auth-file={tmp_path / 'keys.json'}") as s:
        yield s, keys
    assert s.process.returncode == 0, s.log()[-3000:]


def number(keyed, name):
    """A metric by its name and labels as the page has them."""
    server, keys = keyed
    page = server.get("/metrics", port=server.metrics_port, headers={"X-API-Key": keys["ops"]}).body.decode()
    return next(float(line.split()[1]) for line in page.splitlines() if line.startswith(name + " "))


def unread(keyed, key):
    return number(keyed, f'neso_auth_unread_bytes{{key="{key}"}}')


def asked(n):
    """A request whose answer has n bytes."""
    q = service_pb2.ModelInferRequest(model_name="zeros")
    q.inputs.add(name="N", datatype="INT32", shape=[1])
    q.raw_input_contents.append(np.array([n], np.int32).tobytes())
    return q


class Http:
    """Requests of one key over connections of their own, whose answers are read when the test wants it."""

    def __init__(self, keyed, stack):
        self.keyed, self.stack = keyed, stack

    def ask(self, key, n):
        server, keys = self.keyed
        body = {
            "inputs": [{"name": "N", "datatype": "INT32", "shape": [1], "data": [n]}],
            "outputs": [{"name": "OUT", "parameters": {"binary_data": True}}],
        }
        text = json.dumps(body).encode()
        fields = f"Content-Length: {len(text)}", f"X-API-Key: {keys[key]}", "Connection: close"
        c = self.stack.enter_context(contextlib.closing(connect(server, receive_buffer=4096)))
        c.sendall(head("/v2/models/zeros/infer", *fields) + text)

        def read():
            c.setsockopt(
                socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20
            )  # what was small so that nothing is taken unread is slow
            return (got := answer(c)).startswith(b"HTTP/1.1 200") and len(got) > n

        return read

    def served(self, key, n):
        return self.ask(key, n)()


class Grpc:
    """The same over connections whose window is nothing until then."""

    def __init__(self, keyed, stack):
        self.keyed, self.stack = keyed, stack

    def ask(self, key, n):
        server, keys = self.keyed
        (c,) = self.stack.enter_context(clients(server, 1, setting(INITIAL_WINDOW, 0)))
        assert offer(c, call(1, asked(n).SerializeToString(), GRPC, ("x-api-key", keys[key])))

        def read():
            assert offer(c, window(0, 1 << 30) + window(1, 1 << 30))
            got = 0
            while got < n and (part := c.recv(1 << 20)):
                got += len(part)
            return got >= n

        return read

    def served(self, key, n):
        server, keys = self.keyed
        with grpcclient.InferenceServerClient(server.grpc) as client:
            x = grpcclient.InferInput("N", [1], "INT32")
            x.set_data_from_numpy(np.array([n], np.int32))
            return client.infer("zeros", [x], headers={"x-api-key": keys[key]}).as_numpy("OUT").nbytes == n


@pytest.fixture(params=[Http, Grpc])
def client(request, keyed):
    with contextlib.ExitStack() as stack:
        yield request.param(keyed, stack)


def refused(keyed):
    return number(keyed, 'neso_ledger_cuts_total{page="answers",reason="key"}')


def test_one_key_leaves_room_for_others(keyed, client):
    """Two answers of 20 MiB fill less than three quarters, a third one more: it is refused, and others have theirs."""
    first = []
    for n in (19 * MiB, 39 * MiB):
        first.append(client.ask("greedy", 20 * MiB))
        assert until(lambda: unread(keyed, "greedy") >= n)  # noqa: B023
    held = number(keyed, 'neso_ledger_held_bytes{page="answers"}')
    assert 39 * MiB <= held <= number(keyed, 'neso_ledger_limit_bytes{page="answers"}') == 64 * MiB
    assert refused(keyed) == 0
    client.ask("greedy", 20 * MiB)
    assert until(lambda: refused(keyed) == 1)
    assert client.served("other", 10 * MiB)  # below seven eighths, where who stands still would give way
    assert all(read() for read in first)  # they have not been given up for it
    assert until(lambda: unread(keyed, "greedy") == 0 and number(keyed, 'neso_ledger_held_bytes{page="answers"}') == 0)
    assert client.served("greedy", 20 * MiB) and refused(keyed) == 1


def test_the_bound_of_a_key(keyed, client):
    """queued_bytes, once more for answers; one that is alone goes out."""
    read = client.ask("bounded", 30 * MiB)
    assert until(lambda: unread(keyed, "bounded") >= 29 * MiB)
    client.ask("bounded", MiB)
    assert until(lambda: refused(keyed) == 1)
    assert client.served("other", 15 * MiB)
    assert read()


def test_the_refusal_says_why(keyed):
    """429 over HTTP, and over gRPC RESOURCE_EXHAUSTED."""
    server, keys = keyed
    with contextlib.ExitStack() as stack:
        Http(keyed, stack).ask("bounded", 30 * MiB)
        assert until(lambda: unread(keyed, "bounded") >= 29 * MiB)
        body = {"inputs": [{"name": "N", "datatype": "INT32", "shape": [1], "data": [MiB]}]}
        reply = server.infer("zeros", body, headers={"X-API-Key": keys["bounded"]})
        assert reply.status == 429 and "for one key beside others" in reply.error, reply
        x = grpcclient.InferInput("N", [1], "INT32")
        x.set_data_from_numpy(np.array([MiB], np.int32))
        with grpcclient.InferenceServerClient(server.grpc) as c, pytest.raises(InferenceServerException) as e:
            c.infer("zeros", [x], headers={"x-api-key": keys["bounded"]})
        assert e.value.status() == "StatusCode.RESOURCE_EXHAUSTED" and "for one key" in str(e.value)
