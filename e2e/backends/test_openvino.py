"""OpenVINO models in the built binary under the official clients: the same answers as OpenVINO's own Python package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import clients
import ml_dtypes
import numpy as np
import openvino
import pytest
from clients import CLIENTS, connected
from openvino import opset13 as ops
from repository import settled, until
from server import BINARY, ROOT, Server
from tritonclient import http
from tritonclient.utils import InferenceServerException

ONNX = ROOT / "backend" / "onnxruntime" / "testdata"
TYPES = {
    "boolean": np.bool_, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "i8": np.int8,
    "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip


def parameters(**values):
    return "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n' for k, v in values.items())


def save(repo, name, outputs, inputs, config=None, **values):
    """A model of the repository; outputs and inputs are nodes, which get their own names as tensor names."""
    d = repo / name / "1"
    d.mkdir(parents=True, exist_ok=True)
    for node in [*outputs, *inputs]:
        node.output(0).set_names({node.get_friendly_name()})
    openvino.save_model(
        openvino.Model([o.output(0) for o in outputs], list(inputs), name), d / "model.xml", compress_to_fp16=False
    )
    if config is not None or values:
        (repo / name / "config.pbtxt").write_text('backend: "openvino"\n' + (config or "") + parameters(**values))
    return d / "model.xml"


def identity(repo, name, element, shape=(-1, -1), config=None, **values):
    x = ops.parameter(list(shape), getattr(openvino.Type, element), name="IN")
    y = ops.reshape(x, ops.shape_of(x), special_zero=False, name="OUT")
    return save(repo, name, [y], [x], config, **values)


def linear(repo, name, rows=-1, config=None, **values):
    x = ops.parameter([rows, 4], np.float32, name="X")
    w = ops.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
    return save(repo, name, [ops.softmax(ops.matmul(x, w, False, False), 1, name="Y")], [x], config, **values)


IO = 'input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 3 ] }\n'


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    repo = tmp_path_factory.mktemp("openvino")
    for word in TYPES:
        identity(repo, f"identity_{word}", word)
    linear(repo, "linear")
    linear(repo, "fixed", rows=2)
    linear(repo, "rebatched", 1, "max_batch_size: 8\n" + IO)
    linear(repo, "padded", 1, "max_batch_size: 8\n" + IO, ENABLE_BATCH_PADDING="YES")
    linear(repo, "skipped", -1, "max_batch_size: 8\n" + IO, SKIP_OV_DYNAMIC_BATCHSIZE="YES")
    linear(
        repo,
        "tuned",
        -1,
        None,
        NUM_STREAMS="1",
        INFERENCE_NUM_THREADS="1",
        PERFORMANCE_HINT="LATENCY",
        TARGET_DEVICE="cpu",
        CACHE_DIR="",
    )
    linear(repo, "auto", -1, None, TARGET_DEVICE="AUTO:CPU")
    linear(repo, "isolated", -1, None, isolation="process")
    linear(repo, "two", -1, "instance_group { count: 2 }\n")
    linear(
        repo, "batched", 1,
        "max_batch_size: 8\n" + IO
        + ("dynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: [ 6 ] }\ninstance_group { "
            "count: 1 }\n"),
    )  # fmt: skip
    linear(
        repo, "gathers", 1,
        "max_batch_size: 8\n" + IO
        + ("dynamic_batching { max_queue_delay_microseconds: 3600000000 preferred_batch_size: [ 6 ] }\n"
            "instance_group { count: 1 }\n"),
    )  # fmt: skip
    x = ops.parameter([1, 4], np.float32, name="X")
    save(
        repo, "reshaped", [ops.relu(x, name="Y")], [x],
        ('input { name: "X" data_type: TYPE_FP32 dims: [ -1, 7 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: '
            '[ -1, 7 ] }\n'), RESHAPE_IO_LAYERS="yes",
    )  # fmt: skip
    a, b = (ops.parameter([-1, 16], np.int32, name=n) for n in ("INPUT0", "INPUT1"))
    save(repo, "add_sub", [ops.add(a, b, name="OUTPUT0"), ops.subtract(a, b, name="OUTPUT1")], [a, b])
    s = ops.parameter([], np.float32, name="S")
    save(repo, "scalar", [ops.sqrt(s, name="R")], [s])
    n = ops.parameter([-1], np.float32, name="V")
    save(repo, "nonzero", [ops.non_zero(n, "i64", name="PLACES")], [n])
    d = repo / "onnx" / "1"
    d.mkdir(parents=True)
    shutil.copy(ONNX / "add_sub.onnx", d / "model.onnx")
    (repo / "onnx" / "config.pbtxt").write_text('backend: "openvino"\ndefault_model_filename: "model.onnx"\n')
    d = repo / "tflite" / "1"
    d.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "tflite" / "unsigned.tflite", d / "model.tflite")
    (repo / "tflite" / "config.pbtxt").write_text('backend: "openvino"\ndefault_model_filename: "model.tflite"\n')
    return repo


@pytest.fixture(scope="module")
def ov_server(models):
    with Server(models) as s:
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture(params=CLIENTS)
def client(request, ov_server):
    with connected(ov_server, request.param) as c:
        yield c


def infer(client, model, outputs=None, **inputs):
    return clients.infer(client, model, inputs, outputs)


def own(models, name, *inputs, file="model.xml"):
    return list(openvino.compile_model(models / name / "1" / file, "CPU")(inputs).values())


@pytest.mark.parametrize("word", TYPES)
def test_datatypes(client, word):
    values = (np.arange(24) % 7).reshape(4, 6).astype(TYPES[word])
    np.testing.assert_array_equal(infer(client, f"identity_{word}", IN=values)["OUT"], values)
    assert infer(client, f"identity_{word}", IN=values[:1, :0])["OUT"].shape == (1, 0)


ROWS = np.random.default_rng(0).random((8, 4), dtype=np.float32)


@pytest.mark.parametrize(
    "model", ["linear", "rebatched", "padded", "skipped", "tuned", "auto", "isolated", "two", "batched"]
)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_answers_are_openvinos_own(client, models, model, n):
    np.testing.assert_allclose(infer(client, model, X=ROWS[:n])["Y"], own(models, "linear", ROWS[:n])[0], atol=1e-6)


def test_shapes(client, models):
    np.testing.assert_allclose(infer(client, "fixed", X=ROWS[:2])["Y"], own(models, "fixed", ROWS[:2])[0], atol=1e-6)
    wide = np.linspace(-1, 1, 21, dtype=np.float32).reshape(3, 7)
    np.testing.assert_array_equal(infer(client, "reshaped", X=wide)["Y"], np.maximum(wide, 0))
    np.testing.assert_array_equal(infer(client, "scalar", S=np.array([9], np.float32))["R"], [3])
    values = np.array([[0, 2, 0, 3]], np.float32)
    with pytest.raises(InferenceServerException, match="shape"):
        infer(client, "fixed", X=ROWS[:3])
    assert infer(client, "nonzero", V=values[0])["PLACES"].tolist() == [[1, 3]]


def test_tensorflow_lite_files(client):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(infer(client, "tflite", INPUT0=x, INPUT1=x)["Identity"], 2 * x)


def test_several_tensors_and_onnx_files(client, models):
    a, b = np.arange(32, dtype=np.int32).reshape(2, 16), np.full((2, 16), 3, np.int32)
    for model in ("add_sub", "onnx"):
        inputs = {"INPUT0": a, "INPUT1": b}
        if model == "onnx":
            meta = client.get_model_metadata("onnx")
            ins = meta["inputs"] if isinstance(meta, dict) else meta.inputs
            get = (lambda i, k: i[k]) if isinstance(meta, dict) else getattr
            inputs = {
                get(i, "name"): v.astype(np.float32 if get(i, "datatype") == "FP32" else np.int32)
                for i, v in zip(ins, (a, b))
            }
        got = infer(client, model, **inputs)
        np.testing.assert_array_equal(sorted(got.items())[0][1], a + b)
        np.testing.assert_array_equal(sorted(got.items())[1][1], a - b)
    assert list(infer(client, "add_sub", ["OUTPUT1"], INPUT0=a, INPUT1=b)) == ["OUTPUT1"]


def test_requests_are_gathered(ov_server, models):
    with http.InferenceServerClient(ov_server.http, concurrency=3) as c:
        waiting = []
        for i in range(3):
            t = http.InferInput("X", [2, 4], "FP32")
            t.set_data_from_numpy(ROWS[2 * i : 2 * i + 2])
            waiting.append(c.async_infer("gathers", [t]))
        got = np.concatenate([w.get_result().as_numpy("Y") for w in waiting])
        np.testing.assert_allclose(got, own(models, "linear", ROWS[:6])[0], atol=1e-6)

        def sizes():
            return [b["batch_size"] for b in c.get_inference_statistics("gathers")["model_stats"][0]["batch_stats"]]

        assert until(lambda: sizes() == [6]), sizes()  # counted when the requests have been answered


def test_completion(client):
    config = client.get_model_config("linear")
    if client.module is http:
        assert config["max_batch_size"] == 4 and "dynamic_batching" in config
        assert config["input"][0]["dims"] == [4] and config["output"][0]["dims"] == [3]
        fixed = client.get_model_config("fixed")
        assert fixed["max_batch_size"] == 0 and fixed["input"][0]["dims"] == [2, 4]


def test_bad_models_say_what_is_wrong(tmp_path, models):
    good = models / "linear" / "1"
    xml, weights = (good / "model.xml").read_bytes(), (good / "model.bin").read_bytes()
    assert len(weights) > 8

    def put(name, content, bin=weights, config=None, file="model.xml", **values):
        d = tmp_path / name / "1"
        d.mkdir(parents=True)
        if content is not None:
            (d / file).write_bytes(content)
        if bin is not None:
            (d / "model.bin").write_bytes(bin)
        (tmp_path / name / "config.pbtxt").write_text('backend: "openvino"\n' + (config or "") + parameters(**values))

    want = {
        "empty": "'model.xml' is empty", "missing": "unable to find 'model.xml'", "truncated": "cannot be read", "noise": "cannot be read",
        "no_weights": "beside each other", "short_weights": "cannot be read", "onnx": "cannot be read",
        "gpu": "OpenVINO has no device 'GPU.7' here; it has CPU",
        "threads": ("expected the parameter 'INFERENCE_NUM_THREADS' to be a non-negative number, got many; unable to load "
            "model 'threads': expected the parameter 'PERFORMANCE_HINT'"),
        "streams": "expected the parameter 'NUM_STREAMS' to be either AUTO/NUMA/<int_value>, got few",
        "hint": "expected the parameter 'PERFORMANCE_HINT' to be LATENCY/THROUGHPUT/CUMULATIVE_THROUGHPUT, got fast",
        "extension": "CPU_EXTENSION_PATH '/nowhere.so' cannot be loaded",
        "names": ("model provides 1 (the configuration lacks 'X' (data_type: TYPE_FP32, dims: [ 4 ])); unexpected "
            "inference input 'Z', allowed inputs are: X"),
        "batch_input": "tensor 'LEN': batch_input is not supported by the openvino backend",
        "types": ("expects datatype TYPE_INT32 for input 'X', model provides TYPE_FP32 (write data_type: TYPE_FP32); model "
            "'types', tensor 'Y'"),
        "library": "OpenVINO is not found at '/nowhere'", "old": "has no function ov_get_last_err_msg",
    }  # fmt: skip
    put("empty", b"")
    put("missing", None)
    put("truncated", xml[: len(xml) // 2])
    put("noise", bytes(range(256)) * 4)
    put("no_weights", xml, None)
    put("short_weights", xml, weights[:5])
    put("onnx", b"\x08\x07 not a model", None, 'default_model_filename: "model.onnx"\n', "model.onnx")
    put("gpu", xml, TARGET_DEVICE="GPU.7")
    put("threads", xml, INFERENCE_NUM_THREADS="many", PERFORMANCE_HINT="slow")
    put("streams", xml, NUM_STREAMS="few")
    put("hint", xml, PERFORMANCE_HINT="fast")
    put("extension", xml, CPU_EXTENSION_PATH="/nowhere.so")
    put("names", xml, config="max_batch_size: 4\n" + IO.replace('"X"', '"Z"'))
    put(
        "types",
        xml,
        config="max_batch_size: 4\n"
        + IO.replace('"X" data_type: TYPE_FP32', '"X" data_type: TYPE_INT32').replace("[ 3 ]", "[ 5 ]"),
    )
    put("library", xml, openvino_library="/nowhere")
    libc = next(
        p
        for p in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6", "/lib64/libc.so.6")
        if shutil.os.path.exists(p)
    )
    put("old", xml, openvino_library=libc)
    put(
        "batch_input",
        xml,
        config="max_batch_size: 4\n"
        + IO
        + 'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "LEN" data_type: TYPE_INT32 source_input: "X" }\n',
    )
    put("good", xml)
    with Server(tmp_path, "--exit-on-error=false", "--strict-readiness=false", wait=False) as s:
        got = settled(s, len(want) + 1)
        assert not {name: got[name] for name, text in want.items() if text not in got[name]}
        assert s.get("/v2/models/good/ready").status == 200
        assert not [m for m in got.values() if str(tmp_path) in m], "paths of the server are told"


def test_one_file_is_served(models):
    done = subprocess.run(
        [BINARY, "config", "init", models / "linear" / "1" / "model.xml", "--output=-"],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "dims: [ 4 ]" in done.stdout and "dims: [ 3 ]" in done.stdout
