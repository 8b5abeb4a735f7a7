"""One test for each class of flaw that Triton has had to publish since 2023 (its security bulletins), against this server.

Those of shared-memory regions are beside the other tests of shared memory.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import shutil
import socket
import struct
import tarfile
import threading
import zlib
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from repository import X, identity_model, metric, python_model, until
from server import MODELS, Server, free_port
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

FP32 = "identity_any_fp32"
IO = (
    '"input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1, -1]}], "output": [{"name": "OUTPUT0", '
    '"data_type": "TYPE_FP32", "dims": [-1, -1]}]'
)


@pytest.fixture(scope="module")
def explicit(tmp_path_factory):
    """A server whose models come and go over the API."""
    repo = tmp_path_factory.mktemp("flaws") / "models"
    repo.mkdir()
    identity_model(repo, FP32)
    python_model(repo, "py")
    temporary = tmp_path_factory.mktemp("temporary")
    env = {"TMPDIR": str(temporary)}
    with Server(repo, "--model-control-mode=explicit", "--load-model=*", env=env) as s:
        s.repo, s.temporary = repo, temporary
        yield s
        assert s.infer(FP32, X).status == s.infer("py", X).status == 200
    assert s.process.returncode == 0, s.log()[-3000:]


def memory(s) -> int:
    """Bytes of the server in memory."""
    text = Path(f"/proc/{s.process.pid}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) << 10


# Endless chunks: a body in a great many small chunks took stack or memory for each of them.


@pytest.mark.parametrize("path", [f"/v2/models/{FP32}/infer", "/v2/repository/index", "/v2/logging"])
def test_many_chunks(explicit, path):
    s = explicit
    before = memory(s)
    body = json.dumps(X) if "infer" in path else "{}"
    spaces = 300_000  # far above 65,536
    with socket.create_connection(("127.0.0.1", s.http_port), timeout=120) as c:
        c.sendall(f"POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        c.sendall(b"1\r\n \r\n" * spaces)
        c.sendall(f"{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode())
        head = c.recv(65536)
    assert head.startswith(b"HTTP/1.1 200 "), head
    assert memory(s) - before < 64 << 20


def test_endless_chunks(tmp_path):
    identity_model(tmp_path, FP32)
    with Server(tmp_path, "--http-max-input-size=1000000") as s:
        sent = 0
        with socket.create_connection(("127.0.0.1", s.http_port), timeout=120) as c:
            c.sendall(
                f"POST /v2/models/{FP32}/infer HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
            )
            head = b""
            c.setblocking(False)
            while sent < 300_000_000:  # until the server has had enough
                try:
                    sent += c.send(b"400\r\n" + b" " * 1024 + b"\r\n") // 1031 * 1024
                except BlockingIOError:
                    pass
                except OSError:
                    break
                try:
                    head += c.recv(4096)
                except BlockingIOError:
                    continue
                except OSError:
                    break
                if head:
                    break
        assert head.startswith(b"HTTP/1.1 400 ") or sent < 200_000_000, (head, sent)
        assert memory(s) < 400 << 20
        assert s.infer(FP32, X).status == 200


# Overflow: sizes computed from shapes, of JSON, of binary data, wrapped around.

SHAPES = [
    [1 << 62, 4],
    [1 << 32, 1 << 32],
    [(1 << 63) - 1, 2],
    [6148914691236517206, 3],
    [-1, 1],
    [-(1 << 63), 1],
    [0, 1 << 62, 1 << 62],
    [1] * 5000,
]


@pytest.mark.parametrize("model", [FP32, "py"])
@pytest.mark.parametrize("shape", SHAPES, ids=[str(s)[:40] for s in SHAPES])
def test_shapes_that_overflow(explicit, model, shape):
    s = explicit
    raw = np.ones(4, np.float32).tobytes()
    forms = [
        (json.dumps({"inputs": [{**X["inputs"][0], "shape": shape}]}), {}),
        binary(
            {
                "inputs": [
                    {"name": "INPUT0", "datatype": "FP32", "shape": shape, "parameters": {"binary_data_size": 16}}
                ]
            },
            raw,
        ),
    ]
    for body, headers in forms:
        r = s.infer(model, body, headers)
        assert r.status == 400 and r.error, r
    with grpc.insecure_channel(s.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for use_raw in (True, False):
            q = service_pb2.ModelInferRequest(model_name=model)
            i = q.inputs.add(name="INPUT0", datatype="FP32", shape=shape)
            if use_raw:
                q.raw_input_contents.append(raw)
            else:
                i.contents.fp32_contents.extend([1, 2, 3, 4])
            with pytest.raises(grpc.RpcError) as e:
                stub.ModelInfer(q, timeout=120)
            assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT, e.value


def binary(head, tail):
    head = json.dumps(head).encode()
    return head + tail, {"Inference-Header-Content-Length": str(len(head))}


@pytest.mark.parametrize(
    "size", [-1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 1e30, "16", None]
)
def test_binary_sizes_that_overflow(explicit, size):
    body, headers = binary(
        {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 4], "parameters": {"binary_data_size": size}}]},
        b"\0" * 16,
    )
    r = explicit.infer(FP32, body, headers)
    assert r.status == 400 and r.error, r


@pytest.mark.parametrize(
    "length", ["-1", "4294967296", "9223372036854775807", "18446744073709551616", "0x10", "1e3", " ", "7" * 400]
)
def test_header_lengths_that_overflow(explicit, length):
    r = explicit.infer(FP32, json.dumps(X), {"Inference-Header-Content-Length": length})
    assert r.status == 400 and r.error, r


@pytest.mark.parametrize("length", [b"-1", b"18446744073709551615", b"9223372036854775808", b"1, 2", b"+5"])
def test_content_lengths_that_overflow(explicit, length):
    with socket.create_connection(("127.0.0.1", explicit.http_port), timeout=120) as c:
        c.sendall(b"POST /v2/models/x/infer HTTP/1.1\r\nHost: h\r\nContent-Length: " + length + b"\r\n\r\n{}")
        assert c.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_sizes_of_strings_that_overflow(explicit, server):
    for element in (0xFFFFFFFF, 0x7FFFFFFF, 5):
        tail = struct.pack("<I", element) + b"abc"
        body, headers = binary(
            {
                "inputs": [
                    {
                        "name": "INPUT0",
                        "datatype": "BYTES",
                        "shape": [1, 1],
                        "parameters": {"binary_data_size": len(tail)},
                    }
                ]
            },
            tail,
        )
        for model in ("identity_any_bytes", "python_any_bytes"):
            r = server.infer(model, body, headers)
            assert r.status == 400 and r.error, r


@pytest.mark.parametrize(
    "path", [f"/v2/models/{FP32}/infer", f"/v2/models/{FP32}/generate", "/v2/repository/models/x/load", "/v2/logging"]
)
@pytest.mark.parametrize("open_", ["[", '{"a":', '{"parameters":{"a":['])
def test_nesting_does_not_use_up_the_stack(explicit, path, open_):
    r = explicit.post(path, open_ * 1_000_000)
    assert r.status == 400 and r.error, r


def test_json_counts_as_what_it_becomes(tmp_path):
    """Two bytes of text become eight of FP64: they are counted before there is memory for them."""
    shutil.copytree(MODELS / "identity_any_fp64", tmp_path / "identity_any_fp64")
    with Server(tmp_path, "--max-queued-bytes=100000") as s:

        def request(n):
            head = f'{{"inputs":[{{"name":"INPUT0","datatype":"FP64","shape":[1,{n}],"data":['
            return s.infer("identity_any_fp64", head + "0," * (n - 1) + "0]}]}")

        assert request(12_000).status == 200  # 24,000 bytes of text, 96,000 of tensor
        for _ in range(3):
            r = request(13_000)
            assert r.status == 503 and "--max-queued-bytes" in r.error, r
        body = json.dumps({"INPUT0": [0] * 13_000}).replace(" ", "")
        r = s.post("/v2/models/identity_any_fp64/generate", body)
        assert r.status == 503 and "--max-queued-bytes" in r.error, r
        # Nothing of that still counts, though the first one's bytes may do so for a moment after its answer.
        assert until(lambda: request(12_000).status == 200)


@pytest.mark.parametrize(
    ("option", "limit"), [("--max-queued-bytes=1000000", 1_000_000), ("--grpc-max-message-bytes=500K", 512_000)]
)
def test_grpc_messages_that_can_never_be_admitted(tmp_path, option, limit):
    identity_model(tmp_path, FP32)
    with Server(tmp_path, option) as s, grpc.insecure_channel(s.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as e:
            call(b"\x3a" + varint(limit + (2 << 20)) + b"\0" * (limit + (2 << 20)), timeout=120)
        assert e.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, e.value
        assert "larger than max" in e.value.details()
        assert s.infer(FP32, X).status == 200


def test_answers_may_be_larger_than_requests(tmp_path):
    python_model(
        tmp_path,
        "large",
        execute=(
            "return [pb_utils.InferenceResponse([pb_utils.Tensor('OUTPUT0', __import__('numpy').ones((1, 900000), "
            "'f4'))]) for r in requests]"
        ),
    )
    i = grpcclient.InferInput("INPUT0", [1, 1], "FP32")
    i.set_data_from_numpy(np.ones((1, 1), np.float32))
    with Server(tmp_path, "--grpc-max-message-bytes=100K", "--max-queued-bytes=1M") as s:
        with grpcclient.InferenceServerClient(s.grpc) as client:
            assert client.infer("large", [i]).as_numpy("OUTPUT0").shape == (1, 900_000)


# Bombs: a small compressed body became large in memory.


def test_decompression_bombs(tmp_path):
    identity_model(tmp_path, FP32)
    with Server(tmp_path, "--model-control-mode=explicit", f"--load-model={FP32}") as s:
        before = memory(s)
        for encoding, bomb in (
            ("gzip", gzip.compress(b" " * 300_000_000, 9)),
            ("deflate", zlib.compress(b" " * 300_000_000, 9)),
        ):
            for path in (f"/v2/models/{FP32}/infer", f"/v2/repository/models/{FP32}/load", "/v2/logging"):
                r = s.post(path, bomb, {"Content-Encoding": encoding})
                assert r.status == 400 and "maximum allowed" in r.error, r
        # Layers of it are not undone.
        r = s.infer(FP32, gzip.compress(gzip.compress(json.dumps(X).encode())), {"Content-Encoding": "gzip, gzip"})
        assert r.status >= 400, r
        with grpc.insecure_channel(s.grpc) as channel:
            call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
            with pytest.raises(grpc.RpcError) as e:
                call(
                    b"\x3a" + varint(300_000_000) + b"\0" * 300_000_000, compression=grpc.Compression.Gzip, timeout=120
                )
            assert "expands to more than" in e.value.details(), e.value
        assert memory(s) - before < 1 << 30
        assert s.infer(FP32, X).status == 200


def varint(n):
    b = b""
    while n > 127:
        b, n = b + bytes([n & 127 | 128]), n >> 7
    return b + bytes([n])


# Paths: names of models, of files of a load, of the clouds' directories and of archives led out of their places.

NAMES = [
    "..",
    ".",
    "../x",
    "a/b",
    "/etc",
    "a\\b",
    "..\\x",
    "%2e%2e",
    "%2e%2e%2fx",
    "..%2f..%2fetc",
    "x%00",
    "a%2fb",
    "%252e%252e",
]


@pytest.mark.parametrize("name", NAMES)
def test_model_names_stay_in_the_repository(explicit, name, tmp_path):
    s = explicit
    outside = s.repo.parent / "x"
    if not outside.exists():
        python_model(s.repo.parent, "x")
    for path in (
        f"/v2/repository/models/{name}/load",
        f"/v2/repository/models/{name.replace('/', '%2F').replace(chr(92), '%5C')}/load",
    ):
        r = s.post(path, "{}")
        assert r.status >= 400, (path, r)
        assert "root:" not in r.body.decode()
    with grpcclient.InferenceServerClient(s.grpc) as client:
        for call in (client.load_model, client.get_model_config):
            with pytest.raises(InferenceServerException):
                call(name)
    assert not s.get("/v2/models/x/ready").status == 200


FILES = [
    "../evil",
    "1/../../evil",
    "/../evil",
    "1/..",
    "..",
    ".",
    "",
    "1\\..\\evil",
    "1/evil\0",
    "1/",
    "/",
    "1//../../../evil",
    "./../evil",
]


@pytest.mark.parametrize("file", FILES)
def test_files_of_a_load_stay_in_their_directory(explicit, file, tmp_path):
    s = explicit
    config = f'{{"backend": "identity", {IO}}}'
    load = {"parameters": {"config": config, f"file:{file}": base64.b64encode(b"evil").decode()}}
    r = s.post("/v2/repository/models/fresh/load", load)
    assert r.status in (400, 500) and "file name" in r.error, r  # Triton says 500 to whatever does not load
    with grpcclient.InferenceServerClient(s.grpc) as client, pytest.raises(InferenceServerException):
        client.load_model("fresh", config=config, files={f"file:{file}": b"evil"})
    assert not evil(s.temporary) and not [name for name in os.listdir("/tmp") if name.startswith("evil")]


def evil(directory):
    """Files of that name, wherever they are. A walk does not mind what goes meanwhile, unlike a pattern."""
    return [Path(at) / name for at, _, names in os.walk(directory) for name in names if name.startswith("evil")]


@pytest.mark.parametrize("file", ["/tmp/evil", "//evil"])
def test_files_that_begin_with_a_slash_are_of_the_model(explicit, file):
    """As with Triton."""
    s = explicit
    files = {f"file:{name}": base64.b64encode(b"evil").decode() for name in (file, "/1/data")}
    load = {"parameters": {"config": f'{{"backend": "identity", {IO}}}', **files}}
    assert s.post("/v2/repository/models/slashed/load", load).status == 200
    (placed,) = evil(s.temporary)
    assert str(placed).endswith("/" + file.lstrip("/")) and not Path(file).exists()
    assert s.post("/v2/repository/models/slashed/unload").status == 200
    assert until(lambda: not evil(s.temporary))


@pytest.mark.parametrize(
    ("what", "config"),
    [
        ("default_model_filename", '"backend": "python", "default_model_filename": "../../outside.py"'),
        ("default_model_filename", '"backend": "python", "default_model_filename": "OUTSIDE"'),
        ("default_model_filename", '"backend": "onnxruntime", "default_model_filename": "../../outside.onnx"'),
        ("label", '"backend": "identity"'),
        ("backend", '"backend": "../../../../tmp/evil"'),
        ("backend", '"backend": "/tmp/evil"'),
    ],
)
def test_configurations_stay_in_the_model(explicit, what, config, tmp_path):
    s = explicit
    code = tmp_path / "outside.py"
    code.write_text("open(__file__ + '.ran', 'w')")
    (s.repo / "outside.py").write_text(f"open({str(code) + '.ran'!r}, 'w')")
    io_ = IO
    if what == "label":
        io_ = IO.replace('"OUTPUT0",', '"OUTPUT0", "label_filename": "../../../../../../etc/passwd",')
    load = {"parameters": {"config": "{" + config.replace("OUTSIDE", str(code)) + ", " + io_ + "}"}}
    r = s.post(f"/v2/repository/models/{'py' if 'python' in config else FP32}/load", load)
    assert r.status >= 400 and "root:" not in r.error, r
    assert not (tmp_path / "outside.py.ran").exists()
    (s.repo / "outside.py").unlink()


def test_links_out_of_a_model(tmp_path):
    """A link for labels leads nowhere else, as the file could be shown to clients."""
    (tmp_path / "secret").write_text("top\nsecret\n")
    repo = tmp_path / "models"
    repo.mkdir()
    identity_model(repo, "m")
    (repo / "m" / "labels.txt").symlink_to(tmp_path / "secret")
    config = (repo / "m" / "config.pbtxt").read_text()
    (repo / "m" / "config.pbtxt").write_text(
        config.replace('name: "OUTPUT0"', 'name: "OUTPUT0" label_filename: "labels.txt"')
    )
    s = Server(repo, wait=False)
    assert s.process.wait(120) == 1
    s.stop()
    assert "outside model directory" in s.log() and "secret\n" not in s.log()


def test_sagemaker_paths(tmp_path):
    root = tmp_path / "ml" / "models"
    python_model(root / "good" / "model", "inner")
    python_model(tmp_path / "outside" / "model", "inner")
    (root / "linked").symlink_to(tmp_path / "outside")
    repo = tmp_path / "repo"
    repo.mkdir()
    port = free_port()
    options = ["--model-control-mode=explicit", "--allow-sagemaker=true", f"--sagemaker-port={port}"]
    with Server(repo, *options, f"--sagemaker-model-root={root}") as s:

        def load(name, url):
            return s.post("/models", {"model_name": name, "url": str(url)}, port=port).status

        for url in (
            tmp_path / "outside" / "model",
            f"{root}/../../outside/model",
            f"{root}/good/../../../outside/model",
            root / "linked" / "model",
            f"{root}/%2e%2e/outside/model",
            root,
            "/",
            "",
            "file:///etc",
        ):
            assert load("m", url) == 400, url
        for name in ("../m", "a/b", "..", "", "m\0", "a\\b", "/m"):
            assert load(name, root / "good" / "model") == 400, name
        assert load("m", root / "good" / "model") == 200
        assert s.request("DELETE", "/models/m", port=port).status == 200


def archive(path, *members):
    """A .tar.gz of (name, type, content or target)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content
                tar.addfile(info)


FILE, LINK, HARD, FIFO, DEVICE = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE
ARCHIVES = {
    "up": [("../evil", FILE, b"x")],
    "far up": [("a/../../../evil", FILE, b"x")],
    "absolute": [("/tmp/neso-evil", FILE, b"x")],
    "through a link": [("out", LINK, "TARGET"), ("out/evil", FILE, b"x")],
    "through links": [("a", LINK, "."), ("a/b", LINK, "../.."), ("a/b/evil", FILE, b"x")],
    "link up": [("bin/evil", LINK, "../../../evil")],
    "hard link": [("evil", HARD, "../../../../../../etc/passwd")],
    "hard link, absolute": [("evil", HARD, "/etc/passwd")],
    "hard link to a link": [("l", LINK, "/etc/passwd"), ("evil", HARD, "l")],
    "device": [("null", DEVICE, "")],
    "fifo": [("pipe", FIFO, "")],
    "twice": [("a", FILE, b"x"), ("a", LINK, "TARGET"), ("a", FILE, b"evil")],
}


@pytest.mark.parametrize("case", ARCHIVES)
def test_archives_of_environments(tmp_path, case):
    target = tmp_path / "target"
    target.mkdir()
    members = [(n, k, str(target) if c == "TARGET" else c) for n, k, c in ARCHIVES[case]]
    archive(tmp_path / "env.tar.gz", *members)
    extra = f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{tmp_path}/env.tar.gz" }} }}\n'
    repo = tmp_path / "models"
    python_model(repo, "m", extra=extra)
    s = Server(repo, wait=False, env={"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)})
    assert s.process.wait(120) == 1, s.log()
    s.stop()
    assert "env.tar.gz" in s.log() and "unpack" in s.log(), s.log()[-2000:]
    assert not list(target.iterdir())
    assert not [p for p in tmp_path.rglob("*evil*") if p.is_file()]
    assert not Path("/tmp/neso-evil").exists()


# Null: calls that lack what the server took for granted ended it.

PATHS = [
    f"/v2/models/{FP32}/infer",
    f"/v2/models/{FP32}/generate",
    f"/v2/models/{FP32}/generate_stream",
    "/v2/logging",
    "/v2/trace/setting",
    f"/v2/models/{FP32}/trace/setting",
    "/v2/repository/index",
    f"/v2/repository/models/{FP32}/load",
    "/v2/repository/models/nothing/unload",
    "/v2/systemsharedmemory/region/x/register",
    "/v2/systemsharedmemory/region/x/unregister",
    "/v2/systemsharedmemory/unregister",
    "/v2/cudasharedmemory/region/x/register",
    "/v2/cudasharedmemory/unregister",
]
BODIES = [
    "",
    "null",
    "{}",
    "[]",
    "0",
    '""',
    '{"parameters":null}',
    '{"parameters":[]}',
    '{"parameters":{"config":null}}',
    '{"inputs":[null]}',
]
BODIES += [
    '{"inputs":[{}]}',
    '{"inputs":[],"outputs":[null]}',
    '{"inputs":null,"id":null,"parameters":null,"outputs":null}',
    "\0" * 10,
]
BODIES += [
    '{"raw_handle":null}',
    '{"raw_handle":{"b64":null}}',
    '{"key":null,"offset":null,"byte_size":null}',
    '{"log_verbose_level":null}',
]


@pytest.mark.parametrize("path", PATHS)
def test_missing_members(explicit, path):
    s = explicit
    for body in BODIES:
        for headers in (
            {},
            {"Content-Length": str(len(body))},
            {"Content-Encoding": "gzip"},
            {"Inference-Header-Content-Length": "0"},
        ):
            assert s.post(path, body, headers).status < 600
            assert s.process.poll() is None, s.log()[-3000:]


def test_empty_messages(explicit):
    """Every call of the service, with messages that lack everything or hold what is no message."""
    s = explicit
    methods = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    with grpc.insecure_channel(s.grpc) as channel:
        for name in methods:
            for message in (
                b"",
                b"\x0a\x00",
                b"\x12\x00\x1a\x00",
                b"\xff" * 8,
                b"\x0a\xff\xff\xff\xff\x0f",
                b"\x2a\x02\x0a\x00",
            ):
                path = f"/inference.GRPCInferenceService/{name}"
                try:
                    if name == "ModelStreamInfer":
                        list(channel.stream_stream(path)(iter([message, message]), timeout=120))
                    else:
                        channel.unary_unary(path)(message, timeout=120)
                except grpc.RpcError as e:
                    assert e.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED), (
                        name,
                        message,
                        e,
                    )
                assert s.process.poll() is None, s.log()[-3000:]


# Cancel: what belonged to a request was used after it had gone.


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    repo = tmp_path_factory.mktemp("slow")
    python_model(repo, "slow", execute="time.sleep(0.02)", extra="max_batch_size: 0\ninstance_group { count: 2 }\n")
    batched = (
        "dynamic_batching { max_queue_delay_microseconds: 20000 }\ninstance_group { count: 2 }\nmax_batch_size: 8\n"
    )
    python_model(repo, "batched", execute="time.sleep(0.02)")
    config = (repo / "batched" / "config.pbtxt").read_text().replace("[ -1, -1 ]", "[ -1 ]") + batched
    (repo / "batched" / "config.pbtxt").write_text(config)
    with Server(repo) as s:
        yield s
        assert until(
            lambda: all(
                metric(s, "nv_inference_pending_request_count", model=m, version="1") in (0, None)
                for m in ("slow", "batched")
            )
        )
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.mark.parametrize("model", ["slow", "batched"])
@pytest.mark.parametrize("way", ["http", "grpc", "stream"])
def test_cancelled_on_the_way(slow, model, way):
    s = slow
    n = 20_000
    values = np.ones((1, n), np.float32)
    i = grpcclient.InferInput("INPUT0", values.shape, "FP32")
    i.set_data_from_numpy(values)
    head = {
        "inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, n], "parameters": {"binary_data_size": 4 * n}}]
    }
    body, headers = binary(head, values.tobytes())

    def http(pause):
        with socket.create_connection(("127.0.0.1", s.http_port), timeout=120) as c:
            lines = [f"POST /v2/models/{model}/infer HTTP/1.1", "Host: h", f"Content-Length: {len(body)}"]
            lines += [f"{k}: {v}" for k, v in headers.items()]
            c.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            threading.Event().wait(pause)
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST

    def call(pause):
        with grpcclient.InferenceServerClient(s.grpc) as client:
            pending = client.async_infer(model, [i], lambda result, error: None)
            threading.Event().wait(pause)
            pending.cancel()

    def stream(pause):
        with grpcclient.InferenceServerClient(s.grpc) as client:
            client.start_stream(lambda result, error: None)
            for _ in range(5):
                client.async_stream_infer(model, [i])
            threading.Event().wait(pause)
            client.stop_stream(cancel_requests=True)

    run = {"http": http, "grpc": call, "stream": stream}[way]

    def many(k):
        for j in range(10):
            run((k * 10 + j) % 13 * 0.003)

    threads = [threading.Thread(target=many, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert s.process.poll() is None, s.log()[-3000:]
    result = s.infer(model, *binary(head, values.tobytes()))
    assert result.status == 200
    for name in ("panic", "SIGSEGV", "exited with code", "killed by"):
        assert name not in s.log()


# Files: settings over the network named files that the server then wrote.


def test_settings_name_no_files(explicit, tmp_path):
    s = explicit
    target = tmp_path / "written"
    r = s.post("/v2/logging", {"log_file": str(target)})
    assert r.status >= 400, r
    with grpcclient.InferenceServerClient(s.grpc) as client, pytest.raises(InferenceServerException):
        client.update_log_settings({"log_file": str(target)})
    s.post("/v2/trace/setting", {"trace_file": str(target)})
    s.infer(FP32, X)
    assert not target.exists()


# Errors: texts told what only the server should know.


def test_errors_tell_no_secrets(explicit):
    s = explicit
    for path, body in (
        ("/v2/models/nothing/infer", json.dumps(X)),
        ("/v2/models/py/infer", "x"),
        ("/v2/repository/models/nothing/load", "{}"),
        ("/v2/systemsharedmemory/region/x/register", '{"key":"/nothing","offset":0,"byte_size":8}'),
    ):
        text = s.post(path, body).body.decode()
        for secret in ("/dev/shm", "memfd", "goroutine", ".go:", str(s.repo)):
            assert secret not in text, text
