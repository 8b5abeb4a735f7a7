"""ONNX models in the built binary under the official clients: the same answers as ONNX Runtime's own Python package."""

from __future__ import annotations

import concurrent.futures
import json
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from clients import CLIENTS, connected, infer
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper
from repository import settled, until
from server import BINARY, ROOT, Server, alive, free_port, isolated, kill, open_files
from tritonclient import http
from tritonclient.utils import InferenceServerException

DATA = ROOT / "backend" / "onnxruntime" / "testdata"
TYPES = {
    "bool": np.bool_, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "int8": np.int8, "int16": np.int16,
    "int32": np.int32, "int64": np.int64, "fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "bytes": np.object_,
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip

RAGGED = """max_batch_size: 8
input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "ENDS" data_type: TYPE_INT32 source_input: "IN" }
dynamic_batching { max_queue_delay_microseconds: 3600000000 preferred_batch_size: [ 3 ] }
instance_group { count: 1 }
"""


def put(repo, name, source=None, config=None, version=1):
    """A model of the Go tests, or of a path, as a model of the repository."""
    d = repo / name / str(version)
    d.mkdir(parents=True, exist_ok=True)
    shutil.copy(
        source if source is not None and not isinstance(source, str) else DATA / f"{source or name}.onnx",
        d / "model.onnx",
    )
    if config is not None:
        (repo / name / "config.pbtxt").write_text(config)
    return d / "model.onnx"


def mlp(path, width=64, layers=3, seed=0):
    """A perceptron with seeded weights."""
    random = np.random.default_rng(seed)
    nodes, weights, at = [], [], "IN"
    for i in range(layers):
        w = numpy_helper.from_array(
            (random.standard_normal((width, width)) / np.sqrt(width)).astype(np.float32), f"w{i}"
        )
        b = numpy_helper.from_array(random.standard_normal(width).astype(np.float32), f"b{i}")
        weights += [w, b]
        nodes += [
            h.make_node("Gemm", [at, f"w{i}", f"b{i}"], [f"g{i}"]),
            h.make_node("Relu", [f"g{i}"], [f"r{i}" if i < layers - 1 else "OUT"]),
        ]
        at = f"r{i}"
    value = h.make_tensor_value_info
    graph = h.make_graph(
        nodes, "mlp", [value("IN", T.FLOAT, ["n", width])], [value("OUT", T.FLOAT, ["n", width])], initializer=weights
    )
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    model.ir_version = 9
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    repo = tmp_path_factory.mktemp("onnx")
    for word in TYPES:
        put(repo, f"identity_{word}")
    for name in ("add_sub", "optional", "nonzero", "scalar", "column", "constant"):
        put(repo, name)
    put(
        repo,
        "table",
        config=(
            "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 3600000000 preferred_batch_size: [ "
            "3 ] }\ninstance_group { count: 1 }\n"
        ),
    )
    put(
        repo, "optional_b", "optional",
        'input [ { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "B" data_type: TYPE_FP32 dims: [ 1 ] optional: true } ]\n'
        'output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }\n',
    )  # fmt: skip
    put(
        repo, "accumulate",
        config='max_batch_size: 4\ninput { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }\noutput { name: "SUM" '
            'data_type: TYPE_INT32 dims: [ 1 ] }\n'
        'sequence_batching { oldest { } state { input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_INT32 dims: [ 1 ] '
        'initial_state { name: "zero" data_type: TYPE_INT32 dims: [ 1 ] zero_data: true } } }\n',
    )  # fmt: skip
    put(repo, "ragged", config=RAGGED)
    mlp(repo / "mlp" / "1" / "model.onnx")
    return repo


@pytest.fixture(scope="module")
def onnx_server(models):
    with Server(models) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture(params=CLIENTS)
def client(request, onnx_server):
    with connected(onnx_server, request.param) as c:
        yield c


def own(models, name, inputs):
    """What ONNX Runtime itself answers."""
    session = onnxruntime.InferenceSession(models / name / "1" / "model.onnx")
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))


@pytest.mark.parametrize("word", TYPES)
def test_every_datatype(client, word):
    if word == "bytes":
        x = np.array([[b"a", b""], ["größer".encode(), b"\x00\xff\x00"]], object)
    else:
        x = np.array([[0, 1, 1], [1, 0, 100]]).astype(TYPES[word])
    got = infer(client, f"identity_{word}", {"IN": x})["OUT"]
    assert got.shape == x.shape and (got == x).all(), got


@pytest.mark.parametrize("name", ["add_sub", "nonzero", "mlp", "constant"])
def test_same_answers_as_the_library(client, models, name):
    random = np.random.default_rng(1)
    shapes = {"add_sub": {"INPUT0": (3, 16), "INPUT1": (3, 16)}, "mlp": {"IN": (4, 64)}}.get(name, {"IN": (7,)})
    inputs = {k: random.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
    want = own(models, name, inputs)
    got = infer(client, name, inputs)
    assert sorted(got) == sorted(want)
    for k in want:
        np.testing.assert_array_equal(got[k], want[k])


def test_scalars_and_empty_reshapes(client):
    assert infer(client, "scalar", {"IN": np.array([1, 2, 3], np.float32), "K": np.array([2], np.float32)})[
        "OUT"
    ].tolist() == [12]
    assert infer(client, "column", {"IN": np.array([[1], [2]], np.float32)})["OUT"].tolist() == [[1], [2]]


def test_optional_input(client):
    a = np.array([1, 2], np.float32)
    assert infer(client, "optional_b", {"A": a})["OUT"].tolist() == [11, 12]
    assert infer(client, "optional_b", {"A": a, "B": np.array([1], np.float32)})["OUT"].tolist() == [2, 3]


def test_empty_tensors(client):
    assert infer(client, "identity_fp32", {"IN": np.zeros((2, 0), np.float32)})["OUT"].shape == (2, 0)


def test_one_output_of_two(client):
    x = {k: np.ones((1, 16), np.float32) for k in ("INPUT0", "INPUT1")}
    assert list(infer(client, "add_sub", x, ["OUTPUT1"])) == ["OUTPUT1"]


def test_configuration_of_a_bare_model(onnx_server):
    config = onnx_server.get("/v2/models/add_sub/config").json
    assert (config["backend"], config["platform"], config["max_batch_size"], config["default_model_filename"]) == (
        "onnxruntime",
        "onnxruntime_onnx",
        4,
        "model.onnx",
    )
    assert config["dynamic_batching"]["preferred_batch_size"] == [4]
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [
        ("INPUT0", "TYPE_FP32", [16]),
        ("INPUT1", "TYPE_FP32", [16]),
    ]
    assert config["instance_group"][0]["count"] == 2
    column = onnx_server.get("/v2/models/column/config").json
    assert column["output"][0]["dims"] == [1] and column["output"][0]["reshape"] == {"shape": []}
    assert onnx_server.get("/v2/models/nonzero/config").json["max_batch_size"] == 0


def together(onnx_server, model, rows):
    """One request a row, at the same time; the answers or errors in that order."""

    def one(row):
        with connected(onnx_server) as c:
            try:
                return infer(c, model, {"IN": row})["OUT"].ravel().tolist()
            except InferenceServerException as e:
                return str(e)

    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        return list(pool.map(one, rows))


def test_a_bad_request_fails_alone(onnx_server):
    got = together(onnx_server, "table", [np.array([[v]], np.int32) for v in (3, -1, 4)])
    assert got[0] == [3] and got[2] == [4]
    assert "onnx runtime error" in got[1] and "out of data bounds" in got[1], got


def test_ragged_batch(onnx_server):
    before = onnx_server.get("/v2/models/ragged/stats").json["model_stats"][0]["execution_count"]
    got = together(onnx_server, "ragged", [np.array([row], np.float32) for row in ([1, 2, 3], [10], [100, 200])])
    assert got == [[6], [10], [300]]
    # An execution is counted when its requests have been answered.
    assert until(
        lambda: onnx_server.get("/v2/models/ragged/stats").json["model_stats"][0]["execution_count"] == before + 1
    )


def test_implicit_state(client):
    def step(sequence, value, **kw):
        return infer(client, "accumulate", {"IN": np.array([[value]], np.int32)}, sequence_id=sequence, **kw)

    start = {"sequence_start": True}
    first = [
        step(1, 5, **start),
        step(2, 100, **start),
        step(1, 6),
        step(2, 1),
        step(1, 7, sequence_end=True),
        step(1, 1, **start),
        step(2, 1, sequence_end=True),
    ]
    assert [int(f["SUM"][0, 0]) for f in first] == [5, 100, 11, 101, 18, 1, 102]
    assert all(list(f) == ["SUM"] for f in first)


def test_load_errors(tmp_path):
    put(tmp_path, "good", "add_sub")
    put(tmp_path, "wrong", "add_sub", 'max_batch_size: 4\ninput [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "INPUT1" '
        'data_type: TYPE_FP32 dims: [ 8 ] } ]\n'
        'output { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 16 ] }\n')  # fmt: skip
    for name, content in {"empty": b"", "text": b"a model", "cut": (DATA / "ragged.onnx").read_bytes()[:200]}.items():
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "model.onnx").write_bytes(content)
    for name in ("opset", "custom", "external", "sequence"):
        put(tmp_path, name)
    want = {
        "wrong": ["configuration expects datatype TYPE_INT32 for input 'INPUT0', model provides TYPE_FP32 (write data_type: TYPE_FP32)",
                  "tensor 'INPUT1': the model expects 2 dimensions (shape [-1,16])",
                  "unexpected inference output 'OUTPUT', allowed outputs are: OUTPUT0, OUTPUT1"],
        "empty": ["'empty/1/model.onnx' is not an ONNX model: the file is empty"], "text": ["onnx runtime error 7"], "cut": ["cut off"],
        "opset": ["needs a newer ONNX Runtime than"], "custom": ["op_library_filename"], "external": ["weights.bin"],
        "sequence": ["ONNX_TYPE_SEQUENCE"],
    }  # fmt: skip
    with Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        reasons = settled(s, len(want) + 1)
        assert reasons.pop("good") == ""
        for name, reason in reasons.items():
            for text in want[name]:
                assert text in reason, (name, reason)
            assert str(tmp_path) not in reason
        x = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [1] * 16}
        assert s.infer("good", {"inputs": [x, {**x, "name": "INPUT1"}]}).status == 200


def test_external_data_stays_in_its_directory(tmp_path):
    """Weights in files of their own lie beside the model: a path to anything else is refused by its name, before it is read."""
    secret = tmp_path / "secret.bin"
    repo = tmp_path / "models"

    def external(name, location, content=None):
        w = onnx.TensorProto(name="W", data_type=T.FLOAT, dims=[4], data_location=T.EXTERNAL)
        for key, value in (("location", location), ("length", "16")):
            w.external_data.add(key=key, value=value)
        value = [h.make_tensor_value_info(n, T.FLOAT, [4]) for n in ("X", "Y")]
        graph = h.make_graph([h.make_node("Add", ["X", "W"], ["Y"])], "g", value[:1], value[1:], [w])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=8)
        directory = repo / name / "1"
        directory.mkdir(parents=True)
        (directory / "model.onnx").write_bytes(model.SerializeToString())
        return directory

    data = np.arange(4, dtype=np.float32).tobytes()
    secret.write_bytes(data)
    (external("beside", "w.bin") / "w.bin").write_bytes(data)
    (external("up", "../w.bin").parent / "w.bin").write_bytes(data)
    external("absolute", str(secret))
    (external("link", "w.bin") / "w.bin").symlink_to(secret)
    (external("directory", "d/secret.bin") / "d").symlink_to(tmp_path)
    external("address", "*/_ORT_MEM_ADDR_/*")
    said = {
        "up": "'../w.bin', which leads out of its directory", "absolute": f"'{secret}', which is absolute",
        "link": "'w.bin', which is a link out of its directory", "directory": "'d/secret.bin', which is a link out of its directory",
        "address": "which means an address in memory",
    }  # fmt: skip
    with Server(repo, "--exit-on-error=false", wait=False) as s:
        reasons = settled(s, 6)
        assert reasons.pop("beside") == ""
        x = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [4], "data": [1] * 4}]}
        assert s.infer("beside", x).json["outputs"][0]["data"] == [1, 2, 3, 4]
        for name, reason in reasons.items():
            assert f"'model.onnx' of model '{name}' has external data in " in reason and said[name] in reason, reason
            assert name == "absolute" or str(tmp_path) not in reason


def test_memory_of_the_arena(tmp_path):
    """In the server's process: what the library has taken, which grows with what a run needs in between, counted once."""
    config = 'input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }\noutput { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }\n'
    for name, instances in (("one", 1), ("two", 2), ("apart", 2)):
        own = 'parameters { key: "share_session" value { string_value: "0" } }\n' * (name == "apart")
        put(tmp_path, name, "between", f"{config}instance_group {{ count: {instances} kind: KIND_CPU }}\n{own}")
    with Server(tmp_path) as s, http.InferenceServerClient(s.http) as client:

        def used(model):
            usage = s.get(f"/v2/models/{model}/stats").json["model_stats"][0]["memory_usage"]
            return sum(u["byte_size"] for u in usage)

        large = http.InferInput("IN", [16 << 20], "FP32")
        large.set_data_from_numpy(np.zeros(16 << 20, np.float32))
        for model in ("one", "two", "apart"):
            before = used(model)
            assert before < 16 << 20
            client.infer(model, [large])
            assert 64 << 20 <= used(model) - before < 160 << 20, (model, before, used(model))


def test_missing_library(tmp_path):
    """A server whose interpreter has no onnxruntime says what to install; one that --backend-directory leads to it serves."""
    put(tmp_path / "repo", "add_sub")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 0\n")  # a module search path of nothing
    python.chmod(0o755)
    env = {"NESO_PYTHON": str(python), "XDG_DATA_HOME": str(tmp_path / "none")}
    with Server(tmp_path / "repo", "--exit-on-error=false", "--strict-readiness=false", env=env, wait=False) as s:
        reason = settled(s, 1)["add_sub"]
        assert (
            "ONNX Runtime is not found: install it with 'neso backends add onnxruntime' or 'pip install onnxruntime'"
            in reason
        )
    library = next((ROOT / ".venv" / "lib").glob("python*/site-packages/onnxruntime/capi/libonnxruntime.so*"))
    (tmp_path / "backends" / "onnxruntime").mkdir(parents=True)
    (tmp_path / "backends" / "onnxruntime" / library.name).symlink_to(library)
    with Server(tmp_path / "repo", f"--backend-directory={tmp_path / 'backends'}", env=env) as s:
        assert "--backend-directory" in s.log()
    with Server(tmp_path / "repo", env={**env, "NESO_ONNXRUNTIME_LIBRARY": str(library)}) as s:
        assert "NESO_ONNXRUNTIME_LIBRARY" in s.log()


def test_model_swapped_and_reloaded(tmp_path):
    path = put(
        tmp_path,
        "m",
        "optional",
        'input { name: "A" data_type: TYPE_FP32 dims: [ -1 ] }\noutput { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }\n',
    )
    body = {"inputs": [{"name": "A", "datatype": "FP32", "shape": [1], "data": [1]}]}
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        path.write_bytes(b"not a model")
        assert s.infer("m", body).json["outputs"][0]["data"] == [11]
        assert s.post("/v2/repository/models/m/load").status == 400
        assert s.infer("m", body).json["outputs"][0]["data"] == [11]
        model = onnx.load(DATA / "optional.onnx")
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([20], np.float32), "B"))
        path.write_bytes(model.SerializeToString())
        assert s.post("/v2/repository/models/m/load").status == 200
        assert s.infer("m", body).json["outputs"][0]["data"] == [21]


ISOLATED = 'parameters { key: "isolation" value { string_value: "process" } }\n'


def test_isolated_model(tmp_path):
    """Models in processes of their own answer alike; a dead worker costs its requests, not the server."""
    put(tmp_path, "plain", "identity_fp32", "max_batch_size: 8\n")
    put(tmp_path, "isolated", "identity_fp32", "max_batch_size: 8\ninstance_group { count: 1 }\n" + ISOLATED)
    put(tmp_path, "unbatched", "nonzero", ISOLATED + "instance_group { count: 1 }\n")
    put(tmp_path, "strings", "identity_bytes", ISOLATED)
    put(tmp_path, "table", config="max_batch_size: 8\ninstance_group { count: 1 }\n" + ISOLATED)
    put(tmp_path, "ragged", config=RAGGED + ISOLATED)
    put(tmp_path, "broken", "opset", ISOLATED)
    with (
        Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false") as s,
        connected(s, "grpc") as c,
    ):
        reasons = settled(s, len(list(tmp_path.iterdir())))
        assert "needs a newer ONNX Runtime than" in reasons["broken"], reasons
        assert s.get("/v2/models/isolated/config").json["input"][0]["dims"] == [-1]
        for width in (4, 5000, 700000):  # in the frame, in shared memory, beyond its first segment
            x = np.arange(3 * width, dtype=np.float32).reshape(3, width)
            assert (infer(c, "isolated", {"IN": x})["OUT"] == x).all()
        assert infer(c, "unbatched", {"IN": np.array([0, 2, 3], np.float32)})["OUT"].tolist() == [[1, 2]]
        words = np.array([[b"a", b"\x00"], [b"", "größer".encode()]], object)
        assert (infer(c, "strings", {"IN": words})["OUT"] == words).all()
        assert together(s, "ragged", [np.array([row], np.float32) for row in ([1, 2, 3], [10], [100, 200])]) == [
            [6],
            [10],
            [300],
        ]
        got = together(s, "table", [np.array([[v]], np.int32) for v in (3, -1, 4)])
        assert got[0] == [3] and got[2] == [4] and "out of data bounds" in got[1], got
        before = isolated(s.process.pid)
        assert len(before) == 6, before  # two for strings, whose configuration says no count
        for pid in before:
            kill(pid, signal.SIGABRT)
        x = np.ones((1, 4), np.float32)
        assert (infer(c, "plain", {"IN": x})["OUT"] == x).all()

        def serves():
            try:
                return (infer(c, "isolated", {"IN": x})["OUT"] == x).all()
            except InferenceServerException as e:
                assert "SIGABRT" in str(e), e
                return False

        assert until(serves)
        assert until(lambda: not set(before) & set(isolated(s.process.pid)))
        pids = isolated(s.process.pid)
    assert until(lambda: not any(map(alive, pids)))


def test_custom_operators(tmp_path):
    """An operator of the user's own; where it aborts, an isolated model costs a worker and the server lives."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler for the operator (Debian: gcc)")
    library = tmp_path / "acme.so"
    source = Path(__file__).parent / "custom_op.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True, timeout=300)
    repo = tmp_path / "repo"
    for name, more in {"inside": "", "isolated": ISOLATED}.items():
        model = put(
            repo,
            name,
            "custom",
            'model_operations { op_library_filename: "acme.so" }\ninstance_group { count: 1 }\n' + more,
        )
        shutil.copy(
            library, (model.parent if more else model.parent.parent) / "acme.so"
        )  # of the version, of the model
    with Server(repo) as s:

        def ask(model, value):
            return s.infer(model, {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [value]}]})

        assert ask("inside", 21).json["outputs"][0]["data"] == [42]
        assert ask("isolated", 4).json["outputs"][0]["data"] == [8]
        broken = ask("isolated", 666)
        assert broken.status == 500 and "SIGABRT" in broken.error, broken
        assert until(lambda: ask("isolated", 5).status == 200)
        assert ask("inside", 1).json["outputs"][0]["data"] == [2]


def neso(*args, **kw):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, timeout=120, **kw)


def test_serve_a_file(tmp_path):
    """`neso serve model.onnx` prints the completed configuration and a command line that works."""
    model = tmp_path / "some name.onnx"
    shutil.copy(DATA / "add_sub.onnx", model)
    mlp(tmp_path / "net" / "model.onnx")
    port = free_port()
    options = [
        f"--http-port={port}",
        "--http-address=127.0.0.1",
        "--allow-grpc=false",
        "--allow-metrics=false",
        f"--python={sys.executable}",
    ]
    p = subprocess.Popen(
        [BINARY, "serve", model, tmp_path / "net", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        out = []
        for line in p.stdout:
            out.append(line)
            if sum("# call it" in text for text in out) == 2 and not line.startswith("#"):
                break
        calls = [line for line in out if line.startswith(("curl", "(printf"))]
        assert 'name: "INPUT0"' in "".join(out) and len(calls) == 2, "".join(out)
        for call, outputs in zip(calls, (2, 1)):
            got = subprocess.run(["bash", "-c", call], capture_output=True, timeout=180, check=True).stdout
            assert len(json.loads(got)["outputs"]) == outputs, got
        names = json.load(
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v2/repository/index", b"{}"))
        )
        assert sorted(m["name"] for m in names) == ["net", "some_name"]
    finally:
        p.terminate()
        p.stdout.close()
        assert p.wait(120) == 0
    assert model.exists() and (tmp_path / "net" / "model.onnx").exists()


def test_config_init(tmp_path):
    path = put(tmp_path, "m", "add_sub")
    r = neso("config", "init", str(path), f"--python={sys.executable}")
    config = tmp_path / "m" / "config.pbtxt"
    assert r.returncode == 0 and r.stdout == f"wrote {config}\n", r
    assert "max_batch_size: 4" in config.read_text() and neso("config", "check", str(config)).returncode == 0
    r = neso("config", "init", str(path), f"--python={sys.executable}")
    assert r.returncode == 1 and "exists: give --force" in r.stderr, r
    r = neso("config", "init", str(DATA / "ragged.onnx"), f"--python={sys.executable}")
    assert r.returncode == 0 and 'name: "ENDS"' in r.stdout, r
    r = neso("config", "init", str(DATA / "opset.onnx"), f"--python={sys.executable}")
    assert r.returncode == 1 and "older opset" in r.stderr, r
    assert neso("config", "init", str(DATA / "make.zip"), f"--python={sys.executable}").returncode == 1


def test_backends(tmp_path):
    r = neso("backends", f"--python={sys.executable}")
    assert r.returncode == 0 and onnxruntime.__version__ in r.stdout and "CPU" in r.stdout, r
    r = neso("backends", "--python=/bin/true", env={"HOME": str(tmp_path)})
    assert "ONNX Runtime is not found: install it with 'neso backends add onnxruntime'" in r.stdout, r


LIBRARIES = {
    "onnxruntime": ("onnxruntime/capi", "libonnxruntime*"),
    "fil": ("treelite/lib", "libtreelite*"),
    "openvino": ("openvino/libs", "*"),
}


@pytest.mark.parametrize("backend", LIBRARIES)
def test_backends_add(tmp_path, backend):
    """A library out of a wheel is found and opened, also where the interpreter has no packages."""
    folder, pattern = LIBRARIES[backend]
    (site,) = (ROOT / ".venv" / "lib").glob("python*/site-packages")
    files = sorted(f for f in (site / folder).glob(pattern) if f.is_file())
    wheel = tmp_path / f"{folder.split('/')[0]}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as z:
        for file in files:
            z.write(file, f"{folder}/{file.name}")
        for file in (site / "treelite.libs").glob("*") if backend == "fil" else ():
            z.write(file, f"treelite.libs/{file.name}")
    env = {"HOME": str(tmp_path)}

    def row():
        lines = neso("backends", "--python=/bin/true", env=env).stdout.splitlines()
        return next(line for line in lines if line.startswith(f"{backend} "))

    assert "is not found: install it with" in row()
    r = neso("backends", "add", backend, "--wheel", str(wheel), env=env)
    assert r.returncode == 0 and f"backends/{backend}/" in r.stdout, r
    assert f"{tmp_path}/.local/share/neso/backends/{backend}/" in row() and " CPU " in row(), row()
    r = neso("backends", "add", backend, "--wheel", str(tmp_path / "missing.whl"), env=env)
    assert r.returncode == 1 and "missing.whl" in r.stderr, r


def test_committed_models_are_those_of_the_script(tmp_path):
    subprocess.run([sys.executable, DATA / "make.py", tmp_path], check=True, timeout=300)
    made = sorted(p.name for p in tmp_path.iterdir())
    assert made == sorted(p.name for p in DATA.glob("*.onnx"))
    for name in made:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes(), name


def test_the_library_reports_nothing_home(models, tmp_path):
    """ONNX Runtime 1.31 and later open a database below the home directory to report their use, unless told not to."""
    with Server(models, env={"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}) as s:
        assert s.get("/v2/models/add_sub/ready").status == 200
        assert not [path for path in open_files(s.process.pid) if "onnxruntime.db" in path]
    assert not list(tmp_path.rglob("*onnxruntime*"))
