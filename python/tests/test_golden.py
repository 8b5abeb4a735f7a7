"""The golden frames of proto/worker/frames, which the server's tests read too."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from neso._bound.inputs import decode_requests
from neso._bound.outputs import OutputTables, Responses
from neso_runtime import frames, inferbody
from neso_runtime.batchshape import decode_batch, pack_batch
from neso_runtime.channel import Reader
from neso_runtime.encode import ResponseFrame
from neso_runtime.gpu import cuda, devices
from neso_runtime.tensor import DeviceTensor
from neso_worker import triton_python_backend_utils as pb_utils
from neso_worker.received import decode

FRAMES = Path(__file__).resolve().parents[2] / "proto" / "worker" / "frames"
CASES = sorted(path.stem for path in FRAMES.glob("*.json"))
INPUTS, OUTPUTS = ["IN0", "IN1", "TEXT"], ["OUT0", "OUT1"]


def load(name):
    return json.loads((FRAMES / f"{name}.json").read_text()), (FRAMES / f"{name}.bin").read_bytes()


def test_there_are_golden_frames():
    assert len(CASES) > 20


class _Bytes:
    """A socket that gives these bytes, at most so many at once."""

    def __init__(self, data, step):
        self.data, self.step = data, step

    def recv(self, size, flags=0):
        got, self.data = self.data[: self.step], self.data[self.step :]
        return got


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("step", [1, 7, 65536])
def test_header(name, step):
    want, data = load(name)
    reader = Reader(_Bytes(data, step))
    got = []
    while not got:
        got = reader.read()
    ((kind, instance, number, body, start, end),) = got
    assert kind == getattr(frames, want["kind"])
    assert (instance, number, end - start) == (want["instance"], want["id"], want["length"])
    assert body[start:end] == data[24:]
    assert frames.frame(kind, instance, number, data[24:]) == data


@pytest.mark.parametrize("name", [name for name in CASES if load(name)[0]["kind"] in (
    "HELLO", "LOAD", "INIT", "READY", "FAILED", "METRIC", "CONTROL", "BIND", "UNBIND", "FORK")])  # fmt: skip
def test_json_bodies(name):
    want, data = load(name)
    assert frames.json_body(data, 24, len(data)) == want["body"]


class _Mine(np.ndarray):
    pass


class _Memory:
    """Stands for the shared memory that a golden frame names but does not hold."""

    def view(self, segment, offset, size):
        return np.zeros(size, np.uint8)

    private = SimpleNamespace(untouched=lambda segment, offset: True)

    def mine(self, segment, offset, size, name):
        """A private view; here one that says so."""
        return self.view(segment, offset, size).view(_Mine), False

    def words(self, offset):
        """No board."""
        return None


def batch(instance=0):
    leases = SimpleNamespace(
        lease=lambda view, segment, offset: (segment, offset), held=lambda leases: True, owe=lambda *_: None
    )
    tables = SimpleNamespace(
        input_names=INPUTS, output_names=OUTPUTS, output_index={n: i for i, n in enumerate(OUTPUTS)}, segments=_Memory(),
        leases=leases, inline_limit=8192, instance=instance, store=SimpleNamespace(put=lambda data: (2147483648, 128)),
        devices=SimpleNamespace(lent={}),
    )  # fmt: skip
    return SimpleNamespace(tables=tables, leases=None, number=0)


class _Devices:
    """Stands for a GPU that golden frames name, and for the worker's driver."""

    def __init__(self, block=None):
        self.lent, self.sent = {0x40000000: None}, []
        self._block = block

    def view(self, segment, offset, size):
        return cuda.Memory(offset, size, 2, 0, None), "device", ""

    def put(self, memory):
        return self._block

    def tell(self, uuids):
        """DEVICES of a worker that sees these."""
        made = devices.Devices(SimpleNamespace(writer=SimpleNamespace(send=self.sent.append)), None)
        seen = SimpleNamespace(devices=lambda: [SimpleNamespace(uuid=uuid) for uuid in uuids])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuda, "_driver", seen)
            assert made.tell() and made.tell()
        return b"".join(self.sent)


EXECUTE = [name for name in CASES if load(name)[0]["kind"] == "EXECUTE"]


@pytest.mark.parametrize("name", EXECUTE)
def test_execute(name):
    want, data = load(name)
    got = batch()
    requests = decode(got, data, 24, len(data))
    assert len(requests) == len(want["body"]["requests"])
    for request, fields in zip(requests, want["body"]["requests"]):
        assert request._head[0] == fields["handle"]
        assert request.request_id() == fields["id"]
        assert request.correlation_id() == (fields["correlation_text"] or fields["correlation"])
        assert request.flags() == fields["flags"] & 3
        assert request.timeout() == fields["timeout"]
        assert request._head[3] == fields["priority"] and request._head[5] == fields["batch_size"]
        assert request.parameters() == (fields["parameters"] or "{}")
        assert (request.trace().get_context() or "") == fields["trace"]
        wanted = {OUTPUTS[i] for i in fields["requested"]} if fields["flags"] & 4 else set(OUTPUTS)
        assert request.requested_output_names() == wanted
        assert len(request.inputs()) == len(fields["inputs"])
        leases = []
        for tensor, entry in zip(request.inputs(), fields["inputs"]):
            assert tensor.name() == entry.get("name", INPUTS[entry["index"]] if entry["index"] >= 0 else "")
            assert tensor.shape() == entry["shape"]
            assert "TYPE_" + entry["datatype"].replace("BYTES", "STRING") == config_name(tensor.triton_dtype())
            if "data_hex" in entry:
                assert bytes(tensor._payload()).hex() == entry["data_hex"]
            else:
                leases.append((entry["segment"], entry["offset"]))
                assert tensor._size == entry["length"]
                # Blocks are given to the model itself only where the server says so, BYTES are read there.
                own = entry.get("own", False) or entry["datatype"] == "BYTES"
                assert isinstance(tensor._source, _Mine) is not own
        assert ((got.leases or {}).get(fields["handle"]) or []) == leases


def test_execute_on_a_device():
    want, data = load("execute_device")
    got = batch()
    got.tables.devices = _Devices()
    taken = []
    got.tables.leases.lease = lambda *lease: taken.append(lease)
    (request,) = decode(got, data, 24, len(data))
    (entry,) = want["body"]["requests"][0]["inputs"]
    (tensor,) = request.inputs()
    assert (tensor.name(), tensor.shape(), tensor.triton_dtype()) == ("IN0", entry["shape"], 11) and not tensor.is_cpu()
    assert (tensor._memory.address, tensor._size) == (entry["offset"], entry["length"])
    assert taken == [(tensor._memory, entry["segment"], entry["offset"], "device")]


class _Leases:
    """Notes which blocks are taken."""

    def __init__(self):
        self.blocks = []

    def lease(self, view, segment, offset):
        self.blocks.append((segment, offset))
        return self.blocks[-1]

    def held(self, leases):
        return True


def callable_tables(instance):
    """The tables of a bound callable's instance, without a connection."""
    connection = SimpleNamespace(
        link=None, segments=_Memory(), leases=_Leases(), store=SimpleNamespace(place=lambda data: (2147483648, 128)),
        devices=None, inline_limit=4096,
    )  # fmt: skip
    return OutputTables(connection, instance, {"inputs": INPUTS, "outputs": OUTPUTS, "config": {"name": "m"}})


def check_arrays(arrays, entries):
    assert list(arrays) == [e.get("name", INPUTS[e["index"]] if e["index"] >= 0 else "") for e in entries]
    for array, entry in zip(arrays.values(), entries):
        assert list(array.shape) == entry["shape"]
        if entry["datatype"] == "BYTES":
            continue
        if "data_hex" in entry:
            assert array.tobytes().hex() == entry["data_hex"]
        # Inline data lies in the frame; blocks may be written to.
        assert array.flags.writeable == ("data_hex" not in entry)


@pytest.mark.parametrize("name", EXECUTE)
def test_execute_of_callables(name):
    want, data = load(name)
    tables = callable_tables(want["instance"])
    requests = decode_requests(tables, data, 24, len(data))
    assert [r.handle for r in requests] == [fields["handle"] for fields in want["body"]["requests"]]
    for request, fields in zip(requests, want["body"]["requests"]):
        assert request.wanted == (fields["requested"] if fields["flags"] & 4 else None)
        assert (request.parameters or {}) == json.loads(fields["parameters"] or "{}")
        check_arrays(request.inputs, fields["inputs"])
        assert request.leases == [(e["segment"], e["offset"]) for e in fields["inputs"] if "data_hex" not in e]


@pytest.mark.parametrize("name", [name for name in CASES if load(name)[0]["kind"] == "EXECUTE_BATCH"])
def test_execute_batch_of_callables(name):
    want, data = load(name)
    rows, inputs, leases = decode_batch(callable_tables(want["instance"]), data, 24, len(data))
    assert rows == want["body"]["total"]
    check_arrays(inputs, want["body"]["inputs"])
    assert leases == [(e["segment"], e["offset"]) for e in want["body"]["inputs"] if "data_hex" not in e]


class _Lease:
    """A block of inputs that the callable still holds."""

    def __init__(self, memory, block):
        self.memory, self.block = memory, block

    def __call__(self):
        return self.memory


def test_outputs_in_inputs():
    """An output that lies in an input is named by the input's block, in both shapes, byte for byte."""
    memory = np.zeros(3 * 4096, np.uint8)
    leases = [_Lease(memory, (2, 65536))]
    whole = memory.reshape(3, 4096)

    want, data = load("responses_in_input")
    tables = callable_tables(want["instance"])
    frame = Responses(tables, want["id"])
    ((handle, flags),) = [(r["handle"], r["flags"]) for r in want["body"]["responses"]]
    frame.add_dict(handle, {"OUT0": whole, "OUT1": whole[1:]}, None, flags & ~4, leases)
    assert frame.pack(want["body"]["ends"], {handle: [1]}).hex() == data.hex()

    want, data = load("result_batch_in_input")
    entries = [tables.entry("OUT0", whole, None, leases)]
    assert pack_batch(want["instance"], want["id"], entries, want["body"]["ends"]) == data


def config_name(number):
    from neso_runtime.datatypes import NAMES

    return f"TYPE_{NAMES[number]}"


def tensor(name, entry):
    if entry["datatype"] == "BYTES":
        return pb_utils.Tensor(
            name, pb_utils.deserialize_bytes_tensor(bytes.fromhex(entry["data_hex"])).reshape(entry["shape"])
        )
    dtype = pb_utils.triton_string_to_numpy(f"TYPE_{entry['datatype']}")
    if "data_hex" not in entry:
        return pb_utils.Tensor(name, np.zeros(entry["shape"], dtype))
    return pb_utils.Tensor(name, np.frombuffer(bytes.fromhex(entry["data_hex"]), dtype).reshape(entry["shape"]))


@pytest.mark.parametrize(
    "name", [n for n in CASES if load(n)[0]["kind"] == "RESPONSES" and "in_input" not in n and "device" not in n]
)
def test_responses(name):
    """The worker builds the golden frame, byte for byte."""
    want, data = load(name)
    got = batch(want["instance"])
    frame = ResponseFrame(got.tables, want["id"])
    leases = {}
    for fields in want["body"]["responses"]:
        if fields["flags"] & 4:
            leases[fields["handle"]] = [1]
        if fields["flags"] & 8:
            frame.add_again(fields["handle"])
        elif fields["flags"] & 2:
            frame.add_final(fields["handle"])
        elif fields["code"] != 255:
            frame.add_error(fields["handle"], fields["message"], fields["code"], fields["flags"] & 1)
        else:
            outputs = [tensor(e.get("name") or OUTPUTS[e["index"]], e) for e in fields["outputs"]]
            response = pb_utils.InferenceResponse(outputs)
            response._parameters = fields["parameters"]
            frame.add(fields["handle"], response, None, fields["flags"] & 1)
    assert frame.pack(want["body"]["ends"], leases).hex() == data.hex()


def test_responses_on_a_device():
    want, data = load("responses_device")
    (fields,) = want["body"]["responses"]
    (entry,) = fields["outputs"]
    got = batch(want["instance"])
    got.tables.devices = _Devices((entry["segment"], entry["offset"]))
    frame = ResponseFrame(got.tables, want["id"])
    memory = cuda.Memory(1, entry["length"], 2, 0, None)
    response = pb_utils.InferenceResponse([DeviceTensor(OUTPUTS[entry["index"]], memory, tuple(entry["shape"]), 11)])
    frame.add(fields["handle"], response, None, fields["flags"] & 1)
    assert frame.pack(want["body"]["ends"], {fields["handle"]: [1]}).hex() == data.hex()


def test_done():
    for name in ("done", "done_error"):
        want, data = load(name)
        body = want.get("body") or {}
        made = frames.done_frame(want["instance"], want["id"], body.get("message", ""), body.get("traceback", ""))
        assert made.hex() == data.hex()


def test_release():
    want, data = load("release")
    blocks = frames.release_blocks(data, 24, len(data))
    assert [{"offset": o, "segment": s} for s, o in blocks] == (
        want["body"] if isinstance(want["body"], list) else want["body"]["blocks"]
    )
    assert frames.release_frame(blocks) == data


def test_segments():
    for name in ("segment_inputs", "segment_outputs", "segment_lent", "segment_board", "segment_bell"):
        want, data = load(name)
        assert frames.SEGMENT_BODY.unpack_from(data, 24) == tuple(want["body"][f] for f in ("segment", "kind", "bytes"))
    for name in ("segment_device", "segment_device_lent"):
        want, data = load(name)
        number, kind, size, uuid, handle = frames.DEVICE_SEGMENT_BODY.unpack(data[24:])
        got = {"segment": number, "kind": kind, "bytes": size, "device": uuid.hex(), "handle": handle.hex()}
        assert got == want["body"]
    want, data = load("grow_device")
    body = frames.GROW_DEVICE.pack(want["body"]["bytes"], bytes.fromhex(want["body"]["device"]))
    assert frames.frame(frames.GROW, 0, want["id"], body) == data
    want, data = load("dropped")
    assert frames.frame(frames.DROPPED, 0, 0, frames.COUNT.pack(want["body"]["segment"])) == data
    want, data = load("devices")
    assert _Devices().tell([bytes.fromhex(text) for text in want["body"]["devices"]]) == data
    want, data = load("drop")
    assert frames.HEADER_WORDS.unpack_from(data)[0] >> 24 == frames.DROP
    assert frames.COUNT.unpack_from(data, 24) == (want["body"]["segment"],)


@pytest.mark.parametrize(("name", "kind"), [("not_begun", frames.NOT_BEGUN), ("free", frames.FREE)])
def test_batches_on_the_way(name, kind):
    want, data = load(name)
    assert frames.frame(kind, want["instance"], want["id"]) == data


@pytest.mark.parametrize(
    ("name", "kind"), [("times", frames.TIMES), ("activity", frames.ACTIVITY), ("pinned", frames.PINNED)]
)
def test_what_only_others_send(name, kind):
    """Python workers know the number, and neither send nor take these frames."""
    want, data = load(name)
    assert frames.HEADER.unpack_from(data)[2] == kind and want["kind"] == name.upper()


@pytest.mark.parametrize("name", ["infer", "infer_device"])
def test_infer(name):
    want, data = load(name)
    body, fields = want["body"], want["body"]["request"]
    request = pb_utils.InferenceRequest(
        request_id=fields["id"], correlation_id=fields["correlation"], flags=fields["flags"], timeout=fields["timeout"],
        inputs=[tensor(e["name"], e) for e in fields["inputs"]], requested_output_names=body["requested"],
        model_name=body["model"], model_version=body["version"],
    )  # fmt: skip
    request._parameters = fields["parameters"]
    hints = (frames.ALONE if body["alone"] else 0) | (frames.DEVICE_OUTPUTS if body["device"] else 0)
    made = inferbody.encode(SimpleNamespace(inline_limit=8192), request, body["decoupled"], hints)
    assert frames.frame(frames.INFER, want["instance"], want["id"], made).hex() == data.hex()


def test_infer_responses():
    want, data = load("infer_responses")
    got = inferbody.decode(batch().tables, data, 24, len(data))
    assert [flags for flags, _ in got] == [r["flags"] for r in want["body"]["responses"]]
    for (_, response), fields in zip(got, want["body"]["responses"]):
        assert response.has_error() == (fields["code"] != 255)
        assert [(t.name(), t.shape(), bytes(t._payload()).hex()) for t in response.output_tensors()] == [
            (e["name"], e["shape"], e["data_hex"]) for e in fields["outputs"]
        ]
