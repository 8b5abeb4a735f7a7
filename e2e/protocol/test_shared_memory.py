"""Client shared memory: registration, inference, faults. Who may, and what nobody may, is in test_shared_memory_access.py."""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
import tritonclient.utils.shared_memory as shm
from forms import placed, region
from regions import CUDA, FP32, SYSTEM, Region, infer, infer_grpc, open_files, part, refused, two_regions
from repository import ensemble, until
from server import MODELS, ROOT, Server, descendants
from tritonclient.utils import InferenceServerException

EXAMPLE = """
import time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (pb_utils.get_input_tensor_by_name(request, n).as_numpy().astype(np.int64) for n in ("INPUT0", "INPUT1"))
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor(n, OUT(x)) for n, x in (("OUTPUT0", a + b), ("OUTPUT1", a - b))])
            )
        return responses
"""
# Sends IN, then IN + 1, and so on; as often as its first element says.
COUNT = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x, sender = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy(), request.get_response_sender()
            for i in range(int(x[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x + i)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
# Answers once the file that PATH names is there.
WAIT = """
import os, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            path = pb_utils.get_input_tensor_by_name(request, "PATH").as_numpy()[0].decode()
            open(path + ".begun", "w").close()
            while not os.path.exists(path):
                time.sleep(0.005)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([1, 2], np.float32))]) for _ in requests]
"""
BROKEN = """
class TritonPythonModel:
    def execute(self, requests):
        raise ValueError("it is broken")
"""


def python(repository, name, source, config):
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "1" / "model.py").write_text(source)
    (repository / name / "config.pbtxt").write_text('backend: "python"\n' + config)


def pair(datatype):
    return "max_batch_size: 8\n" + "".join(
        f'{kind} {{ name: "{kind.upper()}{i}" data_type: {datatype} dims: [ 16 ] }}\n'
        for kind in ("input", "output")
        for i in (0, 1)
    )


@pytest.fixture(scope="module")
def s(tmp_path_factory):
    repository = tmp_path_factory.mktemp("memory")
    python(repository, "simple", EXAMPLE.replace("OUT(", "np.int32("), pair("TYPE_INT32"))
    python(
        repository,
        "simple_string",
        EXAMPLE.replace("OUT(x)", "np.array([str(v).encode() for v in x.flat], np.object_).reshape(x.shape)"),
        pair("TYPE_STRING"),
    )
    floats = 'input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }\n'
    python(repository, "count", COUNT, floats + "model_transaction_policy { decoupled: true }\n")
    python(repository, "wait", WAIT, floats.replace("IN", "PATH").replace("TYPE_FP32", "TYPE_STRING", 1))
    python(repository, "broken", BROKEN, floats.replace("IN", "INPUT0").replace("OUT", "OUTPUT0", 1))
    ensemble(repository, "chain", "identity_any_fp32", "python_any_fp32")
    cached = repository / "cached"
    (cached / "1").mkdir(parents=True)
    (cached / "config.pbtxt").write_text(
        (MODELS / FP32 / "config.pbtxt").read_text() + "\nresponse_cache { enable: true }\n"
    )
    with Server([repository, MODELS], "--cache-config=local,size=1048576") as server:
        yield server
    assert server.process.returncode == 0, server.log()[-3000:]
    assert descendants(server.process.pid) == []


@pytest.fixture
def mem(s):
    with two_regions(s) as regions:
        yield regions


def test_extensions(s):
    assert {"system_shared_memory", "cuda_shared_memory"} <= set(s.get("/v2").json["extensions"])


def test_control(s):
    with Region() as a, thttp.InferenceServerClient(s.http) as h, tgrpc.InferenceServerClient(s.grpc) as g:
        h.register_system_shared_memory("control one", "/" + a.name, 16, offset=4)
        g.register_system_shared_memory("control two", "/" + a.name, 64)
        for text, register in [
            ("400", h.register_system_shared_memory),
            ("ALREADY_EXISTS", g.register_system_shared_memory),
        ]:
            with pytest.raises(
                InferenceServerException, match="shared memory region 'control one' already in manager"
            ) as e:
                register("control one", "/" + a.name, 16)
            assert text in str(e.value.status())
        one = {"name": "control one", "key": "/" + a.name, "offset": 4, "byte_size": 16}
        assert h.get_system_shared_memory_status("control one") == [one]
        assert [r["name"] for r in h.get_system_shared_memory_status()] == ["control one", "control two"]
        assert set(g.get_system_shared_memory_status().regions) == {"control one", "control two"}
        got = g.get_system_shared_memory_status("control one", as_json=True)["regions"]["control one"]
        assert got == {"name": "control one", "key": "/" + a.name, "offset": "4", "byte_size": "16"}
        assert h.get_cuda_shared_memory_status() == [] and not g.get_cuda_shared_memory_status().regions
        h.unregister_system_shared_memory("control one")
        g.unregister_system_shared_memory("control one")  # one that is not known is no error
        assert [r["name"] for r in h.get_system_shared_memory_status()] == ["control two"]
        g.unregister_system_shared_memory()
        assert h.get_system_shared_memory_status() == []


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (None, 400, "Shared memory register request has no 'key' field"),
        ({}, 400, "Shared memory register request has no 'key' field"),
        ({"key": "/k"}, 400, "Shared memory register request has no 'byte_size' field"),
        ({"key": 5, "byte_size": 4}, 400, "Unable to parse 'key': attempt to access JSON non-string as string"),
        (
            {"key": "/k", "byte_size": -4},
            400,
            "Unable to parse 'byte_size': attempt to access JSON non-unsigned-integer as unsigned-integer",
        ),
        (
            {"key": "/k", "byte_size": 4, "offset": "1"},
            400,
            "Unable to parse 'offset': attempt to access JSON non-unsigned-integer as unsigned-integer",
        ),
        (
            {"key": "/neso-nobody-has-this", "byte_size": 4},
            500,
            "Unable to open shared memory region: '/neso-nobody-has-this'",
        ),
        ({"key": "/", "byte_size": 4}, 400, "cannot register shared memory region 'x' - invalid shm key '/'"),
    ],
)
def test_bad_registration(s, body, status, text):
    r = s.post(f"{SYSTEM}/region/x/register", body)
    assert (r.status, r.error) == (status, text)
    assert s.get(f"{SYSTEM}/region/x/status").status == 404


def test_larger_than_the_object(s):
    with Region(64) as a:
        for offset, size in ((0, 65), (1, 64), (64, 1), (0, 0), (0, 2**64 - 1), (2**64 - 1, 2)):
            r = s.post(f"{SYSTEM}/region/x/register", {"key": "/" + a.name, "offset": offset, "byte_size": size})
            assert (r.status, r.error) == (400, "failed to register shared memory region 'x': invalid args")


@pytest.mark.parametrize("ask", [infer, infer_grpc])
def test_infer(s, mem, ask):
    a, b = mem
    r = ask(s, part(a, 8, 16), part(b, 4, 32))
    if ask is infer:
        assert r.json["outputs"] == [{"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 4]}]
        assert "inference-header-content-length" not in r.headers
    else:
        assert list(r.raw_output_contents) == [b""] and not r.outputs[0].parameters
    # What is beyond the tensor stays as it is.
    assert b.floats(16) == [0, 2, 3, 4, 5] + [0] * 11
    r = ask(s, part(a, size=8), shape=(1, 2))  # the offset is optional, and so is a place for the output
    assert (
        r.json["outputs"][0]["data"] if ask is infer else np.frombuffer(r.raw_output_contents[0], np.float32).tolist()
    ) == [0, 1]


def test_region_with_an_offset(s):
    """Triton applies the offset of a registration twice."""
    with Region(64, np.arange(16, dtype=np.float32).tobytes()) as a:
        a.register(s, "offset", 16, 32)
        assert infer(s, part("offset", 4, 8), shape=(1, 2)).json["outputs"][0]["data"] == [5, 6]
        refused(s, 400, "Invalid offset + byte size for shared memory region: 'offset'", part("offset", 20, 16))
        assert infer(s, part("offset", 0, 16), part("offset", 16, 16)).status == 200
        assert a.floats(4, 32) == [4, 5, 6, 7]
        s.post(f"{SYSTEM}/region/offset/unregister")


def test_out_of_range(s, mem):
    a, b = mem
    offset, both = (f"Invalid offset{x} for shared memory region: '%s'" for x in ("", " + byte size"))
    good = part(a, 0, 16)
    for at, size, text in [
        (64, 16, offset), (2**63 - 1, 16, offset), (60, 16, both), (0, 65, both), (1, 64, both), (0, 2**63 - 1, both), (1, 2**63 - 1, both),
    ]:  # fmt: skip
        refused(s, 400, text % a.name, part(a, at, size))
        refused(s, 400, text % b.name, good, part(b, at, size))
    refused(s, 404, "Unable to find shared memory region: 'nope'", part("nope", 0, 16))
    refused(s, 404, "Unable to find shared memory region: 'nope'", good, part("nope", 0, 16))
    text = "shared memory size specified with the request for output 'OUTPUT0' (12 bytes) should be at least 16 bytes to hold the results"
    refused(s, 500, text, good, part(b, 0, 12))
    assert b.floats(16) == [0] * 16
    with pytest.raises(grpc.RpcError, match=offset % a.name):
        infer_grpc(s, part(a, -1, 16))
    r = infer(s, part(a, 0, 12))
    assert (
        r.status == 400
        and "input byte size mismatch for input 'INPUT0'" in r.error
        and r.error.endswith("Expected 16, got 12")
    )
    assert infer(s, part(a)).error == both % a.name  # no byte_size


@pytest.mark.parametrize("ask", [infer, infer_grpc])
def test_zero_bytes(s, mem, ask):
    a, b = mem
    r = ask(s, part(a, 0, 0), part(b, 8, 0), shape=(1, 0))
    shape = r.json["outputs"][0]["shape"] if ask is infer else list(r.outputs[0].shape)
    assert shape == [1, 0] and b.floats(16) == [0] * 16


def test_beside_other_inputs(s, mem):
    """Tensors in JSON, in the binary tail and in shared memory go together."""
    a, b = mem
    for first, tail in (
        ({"data": [10, 20, 30, 40]}, b""),
        ({"parameters": {"binary_data_size": 16}}, np.float32([10, 20, 30, 40]).tobytes()),
    ):
        head = json.dumps({
            "inputs": [
                {"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], **first},
                {"name": "INPUT1", "datatype": "FP32", "shape": [1, 4], "parameters": part(a, 4, 16)},
            ],
            "outputs": [{"name": "OUTPUT0", "parameters": part(b, 0, 16)}, {"name": "OUTPUT1", "parameters": {"binary_data": True}}],
        }).encode()  # fmt: skip
        r = s.infer("add_sub", head + tail, {"Inference-Header-Content-Length": str(len(head))})
        n = int(r.headers["inference-header-content-length"])
        assert b.floats(4) == [11, 22, 33, 44]
        assert np.frombuffer(r.body[n:], np.float32).tolist() == [9, 18, 27, 36]


def test_conflicts(s, mem):
    a, b = mem
    for more, text in (({"classification": 1}, "classification"), ({"binary_data": True}, "binary_data")):
        r = infer(s, part(a, 0, 16), {**part(b, 0, 16), **more})
        assert (r.status, r.error) == (400, f"Output can't set both 'shared_memory_region' and '{text}'")
    assert infer(s, part(a, 0, 16), {"classification": 1}).json["outputs"][0]["data"] == ["3.000000:3"]
    # The default for all outputs is no conflict.
    assert infer(s, part(a, 0, 16), part(b, 0, 16), parameters={"binary_data_output": True}).status == 200


def test_ensemble(s, mem):
    a, b = mem
    assert infer(s, part(a, 16, 16), part(b, 0, 16), model="chain").status == 200
    assert b.floats(5) == [4, 5, 6, 7, 0]


def test_batches(s):
    """Requests that run as one batch get their own places."""
    with tgrpc.InferenceServerClient(s.grpc) as client, ThreadPoolExecutor(8) as pool:

        def one(i):
            x, y = np.full((1, 100), i, np.float32), np.full((1, 100), 3, np.float32)
            got = placed(
                tgrpc, client, {"INPUT0": x, "INPUT1": y}, ["OUTPUT0", "OUTPUT1"], 400,
                lambda inputs, outputs: client.infer("add_sub", inputs, outputs=outputs),
            )  # fmt: skip
            return np.array_equal(got["OUTPUT0"], x + y) and np.array_equal(got["OUTPUT1"], x - y)

        assert all(pool.map(one, range(100)))


def test_stream_of_a_decoupled_model(s):
    answers = queue.Queue()
    with (
        tgrpc.InferenceServerClient(s.grpc) as client,
        region(client, 16) as (source, h),
        region(client, 16) as (target, t),
    ):
        shm.set_shared_memory_region(h, [np.float32([3, 0, 0, 0])])
        i, o = tgrpc.InferInput("IN", [4], "FP32"), tgrpc.InferRequestedOutput("OUT")
        i.set_shared_memory(source, 16)
        client.start_stream(lambda result, error: answers.put((result, error)))
        o.set_shared_memory(target, 16)
        client.async_stream_infer("count", [i], outputs=[o], enable_empty_final_response=True)
        for _ in range(3):
            result, error = answers.get(timeout=60)
            assert error is None and list(result.get_response().raw_output_contents) == [b""]
        assert answers.get(timeout=60)[0].get_response().parameters["triton_final_response"].bool_param
        assert shm.get_contents_as_numpy(t, np.float32, [4]).tolist() == [5, 2, 2, 2]
        # A place that is too small is an error of each response, not of the stream.
        o.set_shared_memory(target, 12)
        client.async_stream_infer("count", [i], outputs=[o])
        for _ in range(3):
            assert "(12 bytes) should be at least 16 bytes" in str(answers.get(timeout=60)[1])
        o.set_shared_memory("nope", 12)
        client.async_stream_infer("count", [i], outputs=[o])
        assert "Unable to find shared memory region: 'nope'" in str(answers.get(timeout=60)[1])
        client.stop_stream()


def in_use(client, name):
    """Unregisters a region, or tells that a request uses it."""
    try:
        client.unregister_system_shared_memory(name)
    except InferenceServerException as e:
        assert "currently in use" in e.message()
        return True
    return False


def test_cancelled_streams_let_go(s):
    """Streams that clients leave in mid-flight hold no region: its descriptor is closed in the end."""
    before = open_files(s)
    for _ in range(5):
        with (
            tgrpc.InferenceServerClient(s.grpc) as client,
            region(client, 16) as (source, h),
            region(client, 16) as (target, _),
        ):
            shm.set_shared_memory_region(h, [np.float32([10_000, 0, 0, 0])])
            i, o = tgrpc.InferInput("IN", [4], "FP32"), tgrpc.InferRequestedOutput("OUT")
            i.set_shared_memory(source, 16)
            o.set_shared_memory(target, 16)
            answers = queue.Queue()
            client.start_stream(lambda result, error, answers=answers: answers.put((result, error)))
            client.async_stream_infer("count", [i], outputs=[o])
            assert answers.get(timeout=60)[1] is None
            client.stop_stream(cancel_requests=True)
            # The model sends all of it all the same.
            assert until(lambda client=client, source=source: not in_use(client, source), timeout=400)
            assert not in_use(client, target)
    assert until(lambda: set(open_files(s)) <= set(before), timeout=400), open_files(s)


@pytest.mark.parametrize("ask", ["http", "grpc", "stream"])
def test_unregister_in_flight(s, tmp_path, ask):
    """The regions of a running request, of inputs and outputs, stay registered until its answer is there, and not a moment longer."""
    go = tmp_path / "go"
    path = str(go).encode()
    api = thttp if ask == "http" else tgrpc
    with (
        Region(512, len(path).to_bytes(4, "little") + path) as a,
        Region(64) as b,
        Region(64) as idle,
        thttp.InferenceServerClient(s.http) as h,
        tgrpc.InferenceServerClient(s.grpc) as g,
        ThreadPoolExecutor(1) as pool,
    ):
        for r in (a, b, idle):
            r.register(s)
        file = b.path.open("rb")  # to read after the name is gone
        i, o = api.InferInput("PATH", [1], "BYTES"), api.InferRequestedOutput("OUT")
        i.set_shared_memory(a.name, 4 + len(path))
        o.set_shared_memory(b.name, 8, offset=8)
        answers = queue.Queue()
        if ask == "stream":
            g.start_stream(lambda result, error: answers.put((result, error)))
            g.async_stream_infer("wait", [i], outputs=[o])
        else:

            def call():
                with api.InferenceServerClient(s.http if api is thttp else s.grpc) as client:
                    client.infer("wait", [i], outputs=[o])

            pool.submit(call).add_done_callback(lambda f: answers.put((None, f.exception())))
        assert until(Path(f"{go}.begun").exists)
        for name in (a.name, b.name):
            for other in (h, g):
                with pytest.raises(InferenceServerException) as e:
                    other.unregister_system_shared_memory(name)
                assert e.value.message() == f"Cannot unregister shared memory region '{name}', it is currently in use."
                assert e.value.status() == ("500" if other is h else "StatusCode.INTERNAL")
        names = sorted((a.name, b.name))
        for other in (h, g):  # the others go
            with pytest.raises(InferenceServerException) as e:
                other.unregister_system_shared_memory()
            text = "Failed to unregister the following system shared memory regions: "
            assert e.value.message() == text + "".join(f"{name} ," for name in names)
            assert [r["name"] for r in h.get_system_shared_memory_status()] == names
            other.unregister_cuda_shared_memory()
        b.path.unlink()
        assert {Path(f.split()[0]).name for f in open_files(s)} == set(names)
        go.touch()
        assert answers.get(timeout=120)[1] is None
        for name in names:
            g.unregister_system_shared_memory(name)
        assert h.get_system_shared_memory_status() == [] and open_files(s) == []
        with file:
            assert np.frombuffer(file.read(), np.float32, 2, 8).tolist() == [1, 2]


def test_what_is_refused_holds_no_region(s, mem, tmp_path):
    """A client that is answered with an error, by the server or by the model, can unregister its regions."""
    a, b = mem
    broken = {"model": "broken", "shape": (4,)}
    for text, *wrong, kw in (
        ("input byte size mismatch", part(a, 0, 16), part(b, 0, 16), {"shape": (1, 5)}),
        ("should be at least 16 bytes", part(a, 0, 16), part(b, 0, 8), {}),
        ("it is broken", part(a, 0, 16), part(b, 0, 16), broken),
    ):
        for over in (infer, infer_grpc):
            try:
                r = over(s, *wrong, **kw)
                said = r.error
            except grpc.RpcError as e:
                said = e.details()
            assert text in said
            for r in mem:
                assert s.post(f"{SYSTEM}/region/{r.name}/unregister").status == 200
                r.register(s)


@pytest.mark.parametrize("left", [0, 4096, 2 * 2**20 - 4])
def test_truncated(s, left):
    """A client that takes its memory away gets an error; a server that had mapped it would get a SIGBUS."""
    n = 2**20
    with Region(4 * n) as a, Region(4 * n) as b:
        a.register(s)
        b.register(s)
        for model in (FP32, "python_any_fp32"):
            assert infer(s, part(a, 0, 4 * n), part(b, 0, 4 * n), model=model, shape=(1, n)).status == 200
            why = "shared memory region: '%s': the client has made it smaller than it was when it was registered"
            os.truncate(a.path, left)
            refused(
                s,
                400,
                f"Unable to read {why % a.name}",
                part(a, 0, 4 * n),
                part(b, 0, 4 * n),
                model=model,
                shape=(1, n),
            )
            os.truncate(a.path, 4 * n)
            os.truncate(b.path, left)
            refused(
                s,
                400,
                f"Unable to write {why % b.name}",
                part(a, 0, 4 * n),
                part(b, 0, 4 * n),
                model=model,
                shape=(1, n),
            )
            assert b.path.stat().st_size == left
            os.truncate(b.path, 4 * n)
        for r in (a, b):
            s.post(f"{SYSTEM}/region/{r.name}/unregister")


def test_truncated_again_and_again(s):
    n = 2**18
    with Region(4 * n) as a:
        a.register(s)
        end = time.monotonic() + 1

        def flip():
            while time.monotonic() < end:
                os.truncate(a.path, 0)
                os.truncate(a.path, 4 * n)

        with ThreadPoolExecutor(1) as pool:
            flipping = pool.submit(flip)
            while time.monotonic() < end:
                assert infer(s, part(a, 0, 4 * n), part(a, 0, 4 * n), model="python_any_fp32", shape=(1, n)).status in (
                    200,
                    400,
                )
            flipping.result()
        s.post(f"{SYSTEM}/region/{a.name}/unregister")
    assert s.get("/v2/health/ready").status == 200


def test_response_cache_takes_what_was_read(s, mem):
    """The key is made of the copy that the model gets: changing the memory changes the answer."""
    a, b = mem
    for value in (1, 2, 1):
        a.path.write_bytes(np.full(16, value, np.float32).tobytes())
        assert infer(s, part(a, 0, 16), part(b, 0, 16), model="cached").status == 200
        assert b.floats(5) == [value] * 4 + [0]
    # Whoever asks over another form gets the same entry, with the bytes.
    r = s.infer("cached", {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "data": [2, 2, 2, 2]}]})
    assert r.json["outputs"][0]["data"] == [2, 2, 2, 2]
    stats = s.get("/v2/models/cached/stats").json["model_stats"][0]["inference_stats"]
    assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (2, 2)


def test_bytes_must_be_well_formed(s):
    for data in (b"\x05\0\0\0ab", b"\x02\0\0\0ab\xff\xff\xff\x7f", b"\x02\0\0"):
        with Region(len(data), data) as a:
            a.register(s)
            body = {
                "inputs": [
                    {"name": "INPUT0", "datatype": "BYTES", "shape": [1, 1], "parameters": part(a, 0, len(data))}
                ]
            }
            for model in ("identity_any_bytes", "python_any_bytes"):
                assert s.infer(model, body).status == 400
            s.post(f"{SYSTEM}/region/{a.name}/unregister")


# -- CUDA


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "Shared memory register request has no 'raw_handle' field"),
        ({"raw_handle": {"b64": "AAAA"}}, 400, "Shared memory register request has no 'byte_size' field"),
        (
            {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 64},
            400,
            "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t",
        ),
        (
            {"raw_handle": {"b64": "%"}, "device_id": 0, "byte_size": 64},
            400,
            "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t",
        ),
    ],
)
def test_bad_cuda_registration(s, body, status, text):
    r = s.post(f"{CUDA}/region/c/register", body)
    assert (r.status, r.error) == (status, text)
    r = s.post(f"{CUDA}/register", body)
    assert (r.status, r.error) == (400, "'region name' is necessary to register cuda shared memory region")


def test_cuda_without_a_gpu(s):
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a GPU")
    text = "failed to register CUDA shared memory region: 'a', GPUs not supported"
    r = s.post(f"{CUDA}/region/a/register", {"raw_handle": {"b64": "A" * 86 + "=="}, "device_id": 0, "byte_size": 64})
    assert (r.status, r.error) == (400, text)
    with tgrpc.InferenceServerClient(s.grpc) as client, pytest.raises(InferenceServerException) as e:
        client.register_cuda_shared_memory("a", b"A" * 86 + b"==", 0, 64)
    assert e.value.message() == text


@pytest.fixture(scope="module")
def fake_gpu(tmp_path_factory):
    """A server that finds a driver with one GPU of ordinary memory."""
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("there is no C compiler for the fake driver")
    directory = tmp_path_factory.mktemp("driver")
    source = ROOT / "internal" / "cuda" / "testdata" / "fakecuda.c"
    subprocess.run([cc, "-shared", "-fPIC", "-o", directory / "libcuda.so.1", source], check=True)
    options = ["--model-control-mode=explicit", f"--load-model={FP32}", "--load-model=python_any_fp32"]
    with Server(MODELS, *options, env={"LD_LIBRARY_PATH": str(directory)}) as server:
        yield server
    assert server.process.returncode == 0, server.log()[-3000:]


HANDLE = base64.b64encode(bytes(range(1, 65)))


@pytest.mark.parametrize("model", [FP32, "python_any_fp32"])
def test_cuda(fake_gpu, model):
    with (
        thttp.InferenceServerClient(fake_gpu.http) as h,
        tgrpc.InferenceServerClient(fake_gpu.grpc) as g,
        Region(16) as a,
    ):
        h.register_cuda_shared_memory("one", HANDLE, 0, 64)
        g.register_cuda_shared_memory("two", HANDLE, 0, 240)
        for register in (h.register_cuda_shared_memory, g.register_cuda_shared_memory):
            for name, handle, device, size, text in [
                ("one", HANDLE, 0, 64, "shared memory region 'one' already in manager"),
                ("x", HANDLE, 1, 64, "cuDeviceGet: CUDA error 101"),
                ("x", HANDLE, 0, 241, "byte_size is larger than the memory"),
                ("x", base64.b64encode(bytes(64)), 0, 64, "cuIpcOpenMemHandle_v2: CUDA error 1"),
            ]:
                with pytest.raises(InferenceServerException, match=text):
                    register(name, handle, device, size)
        assert h.get_cuda_shared_memory_status("one") == [{"name": "one", "device_id": 0, "byte_size": 64}]
        assert {n: r.byte_size for n, r in g.get_cuda_shared_memory_status().regions.items()} == {"one": 64, "two": 240}
        r = fake_gpu.get(f"{SYSTEM}/region/one/status")
        assert r.status == 404 and "registered as CUDA shared memory, not system shared memory" in r.error
        a.path.write_bytes(np.float32([1, 2, 3, 4]).tobytes())
        a.register(fake_gpu)
        # From system memory to the GPU over HTTP, within the GPU over gRPC, and back.
        assert infer(fake_gpu, part(a, 0, 16), part("one", 8, 16), model=model).status == 200
        assert list(
            infer_grpc(fake_gpu, part("two", 8, 16), part("two", 100, 16), model=model).raw_output_contents
        ) == [b""]
        assert infer(fake_gpu, part("two", 100, 16), model=model).json["outputs"][0]["data"] == [1, 2, 3, 4]
        refused(fake_gpu, 400, "Invalid offset + byte size for shared memory region: 'one'", part("one", 60, 16))
        h.unregister_cuda_shared_memory("one")
        g.unregister_cuda_shared_memory()
        assert h.get_cuda_shared_memory_status() == [] and len(h.get_system_shared_memory_status()) == 1
        h.unregister_system_shared_memory()


# -- the client's own examples


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("kind", ["shm", "shm_string", "cudashm"])
def test_examples_of_the_client(s, protocol, kind):
    """They run unchanged: NESO_CLIENT_EXAMPLES names src/python/examples of a checkout of Triton's client."""
    directory = os.environ.get("NESO_CLIENT_EXAMPLES")
    if not directory:
        pytest.skip("NESO_CLIENT_EXAMPLES is not set; the same calls are made by the other tests here")
    if kind == "cudashm" and not Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has no GPU")
    r = subprocess.run(
        [
            sys.executable,
            str(Path(directory) / f"simple_{protocol}_{kind}_client.py"),
            "-u",
            s.http if protocol == "http" else s.grpc,
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert r.returncode == 0 and "PASS" in r.stdout, r.stdout + r.stderr
