"""PyTorch models in the built binary: the same answers as torch itself."""

from __future__ import annotations

import concurrent.futures
import io
import pickle
import shutil
import zipfile

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_models as models
from clients import CLIENTS, connected, infer
from repository import settled, until
from server import Server, alive, kill, named
from tritonclient.utils import InferenceServerException

IO = 'input [ {{ name: "{0}" data_type: TYPE_{1} dims: [ {2} ] }} ]\noutput [ {{ name: "{3}" data_type: TYPE_{1} dims: [ {2} ] }} ]\n'
EAGER = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor):
        return {"y": self.layer(x)}
"""


THREADS = """import torch


class Threads(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return x * torch.tensor([torch.get_num_threads(), torch.get_num_interop_threads()])
"""


def put(repo, name, write, file="model.pt", config=None):
    """A model of the repository, written by a function of its path."""
    d = repo / name / "1"
    d.mkdir(parents=True, exist_ok=True)
    if write is not None:
        write(str(d / file))
    if config is not None:
        (repo / name / "config.pbtxt").write_text(config)
    return d


def script(module):
    return lambda path: torch.jit.script(module.eval()).save(path)


def exported(module, *inputs):
    def write(path):
        rows = torch.export.Dim("rows")
        torch.export.save(
            torch.export.export(module.eval(), inputs, dynamic_shapes=tuple({0: rows} for _ in inputs)), path
        )

    return write


@pytest.fixture(scope="module")
def nets():
    torch.manual_seed(0)
    return {"mlp": models.Mlp().eval(), "conv": models.Conv().eval(), "eager": torch.nn.Linear(16, 4).eval()}


@pytest.fixture(scope="module")
def repo(tmp_path_factory, nets):
    repo = tmp_path_factory.mktemp("torch")
    mlp = nets["mlp"]
    put(repo, "script", script(mlp))
    put(repo, "trace", lambda p: torch.jit.trace(mlp, torch.zeros(2, 16)).save(p))
    put(repo, "exported", exported(mlp, torch.zeros(2, 16)), "model.pt2")
    put(repo, "conv", script(nets["conv"]))
    d = put(repo, "eager", None, config='backend: "pytorch"\n')
    (d / "model.py").write_text(EAGER)
    torch.save({f"layer.{k}": v for k, v in nets["eager"].state_dict().items()}, d / "model.pt")
    d = put(
        repo, "threads", None,
        config='backend: "pytorch"\n' + IO.format("x", "FP32", 2, "OUT")
        + "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n' for k,
                  v in {"NUM_THREADS": 3, "NUM_INTEROP_THREADS": 2}.items()),
    )  # fmt: skip
    (d / "model.py").write_text(THREADS)
    convention = (
        "max_batch_size: 8\ninput [ {{ name: \"{0}\" data_type: TYPE_FP32 dims: [ -1 ] }}, {{ name: \"{1}\" "
            "data_type: TYPE_FP32 dims: [ -1 ] }} ]\n"
        "output [ {{ name: \"{2}\" data_type: TYPE_FP32 dims: [ -1 ] }}, {{ name: \"{3}\" data_type: TYPE_FP32 dims: [ -1 ] }} ]\n"
    )  # fmt: skip
    for name, names in {
        "numbered": ("IN__1", "IN__0", "OUT__1", "OUT__0"),
        "ordered": ("FIRST", "SECOND", "SUM", "DIFFERENCE"),
        "arguments": ("b", "a", "SUM", "DIFFERENCE"),
    }.items():
        put(repo, name, script(models.AddSub()), config=convention.format(*names))
    put(
        repo, "summed", script(models.AddSub()),
        config='max_batch_size: 8\ninput [ { name: "INPUT__0" data_type: TYPE_FP32 dims: [ 2 ] } ]\noutput [ { name: '
            '"OUTPUT__1" data_type: TYPE_FP32 dims: [ 2 ] } ]\n'
        'sequence_batching { state { input_name: "INPUT_STATE__1" output_name: "OUTPUT_STATE__0" data_type: TYPE_FP32 dims: [ 2 ] } }\n',
    )  # fmt: skip
    put(
        repo, "named", script(models.Named()),
        config='input [ { name: "a" data_type: TYPE_INT64 dims: [ -1 ] }, { name: "b" data_type: TYPE_INT64 dims: [ -1 '
            '] optional: true } ]\n'
        'output [ { name: "sum" data_type: TYPE_INT64 dims: [ -1 ] }, { name: "double" data_type: TYPE_INT64 dims: [ -1 ] } ]\n',
    )  # fmt: skip
    put(
        repo, "dictionary", script(models.Dictionary()),
        config='max_batch_size: 4\ninput [ { name: "q" data_type: TYPE_FP64 dims: [ 3 ] }, { name: "p" data_type: '
            'TYPE_FP64 dims: [ 3 ] } ]\n'
        'output [ { name: "OUT" data_type: TYPE_FP64 dims: [ 3 ] } ]\n',
    )  # fmt: skip
    put(repo, "texts", script(models.Texts()), config=IO.format("IN", "STRING", -1, "OUT"))
    batched = (
        "max_batch_size: 16\ndynamic_batching { max_queue_delay_microseconds: 200000 preferred_batch_size: [ 3 ] }\n"
    )
    put(repo, "inplace", script(models.InPlace()), config=batched + IO.format("x", "FP32", -1, "OUT"))
    put(repo, "picky", script(models.Picky()), config=batched + IO.format("x", "FP32", -1, "OUT"))
    put(repo, "bf16", script(models.Identity()), config=IO.format("x", "BF16", -1, "OUT"))
    put(
        repo, "tuned", script(mlp),
        config='platform: "pytorch_libtorch"\ninstance_group { count: 2 }\n'
        + "".join(
            f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n'
            for k, v in {
                "INTRA_OP_THREAD_COUNT": 1, "INTER_OP_THREAD_COUNT": 1, "INFERENCE_MODE": "false", "DISABLE_OPTIMIZED_EXECUTION": "true",
                "ENABLE_JIT_PROFILING": "false", "ENABLE_JIT_EXECUTOR": "true", "ENABLE_TENSOR_FUSER": "true", "DISABLE_CUDNN": "true",
                "ENABLE_CACHE_CLEANING": "true", "ENABLE_WEIGHT_SHARING": "true",
            }.items()
        ),
    )  # fmt: skip
    return repo


@pytest.fixture(scope="module")
def torch_server(repo):
    with Server(repo, wait=False) as s:
        s.wait_ready()
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.fixture(params=CLIENTS)
def client(request, torch_server):
    with connected(torch_server, request.param) as c:
        yield c


@pytest.mark.parametrize("model", ["script", "trace", "exported", "tuned"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_file_without_configuration(client, nets, model, rows):
    x = np.random.default_rng(rows).standard_normal((rows, 16), dtype=np.float32)
    (y,) = infer(client, model, {"x": (x, "FP32")}).values()
    with torch.inference_mode():
        np.testing.assert_allclose(y, nets["mlp"](torch.from_numpy(x)).numpy(), atol=1e-5)


def test_completion(torch_server):
    config = torch_server.get("/v2/models/script/config").json
    assert config["max_batch_size"] == 4 and "dynamic_batching" in config and config["platform"] == "pytorch_libtorch"
    assert [(i["name"], i["data_type"], i["dims"]) for i in config["input"]] == [("x", "TYPE_FP32", [16])]
    assert [(o["name"], o["data_type"], o["dims"]) for o in config["output"]] == [("OUTPUT__0", "TYPE_FP32", [4])]
    conv = torch_server.get("/v2/models/conv").json
    assert conv["inputs"][0]["shape"] == [-1, 3, -1, -1] and conv["outputs"][0]["shape"] == [-1, 5]
    assert torch_server.get("/v2/models/exported").json["platform"] == "torch_aoti"


def test_images_of_any_size(client, nets):
    x = np.random.default_rng(0).standard_normal((2, 3, 21, 40), dtype=np.float32)
    (y,) = infer(client, "conv", {"image": (x, "FP32")}).values()
    with torch.inference_mode():
        np.testing.assert_allclose(y, nets["conv"](torch.from_numpy(x)).numpy(), atol=1e-5)


def test_a_module_in_python_with_weights_beside_it(client, nets):
    x = np.random.default_rng(0).standard_normal((2, 16), dtype=np.float32)
    y = infer(client, "eager", {"x": (x, "FP32")})["y"]
    with torch.inference_mode():
        np.testing.assert_allclose(y, nets["eager"](torch.from_numpy(x)).numpy(), atol=1e-5)


def test_threads_by_the_names_of_tritons_python_runtime(client):
    assert infer(client, "threads", {"x": (np.ones(2, np.float32), "FP32")})["OUT"].tolist() == [3, 2]


@pytest.mark.parametrize(
    "model, first, second, sum_, difference",
    [("numbered", "IN__0", "IN__1", "OUT__0", "OUT__1"), ("ordered", "FIRST", "SECOND", "SUM", "DIFFERENCE"),
     ("arguments", "a", "b", "SUM", "DIFFERENCE")],
)  # fmt: skip
def test_naming_conventions(client, model, first, second, sum_, difference):
    a, b = np.float32([[5, 7]]), np.float32([[1, 2]])
    got = infer(client, model, {second: (b, "FP32"), first: (a, "FP32")})
    assert got[sum_].tolist() == [[6, 9]] and got[difference].tolist() == [[4, 5]]


def test_dictionaries_and_optional_arguments(client):
    a, b = np.int64([1, 2]), np.int64([10, 20])
    assert {k: v.tolist() for k, v in infer(client, "named", {"a": (a, "INT64"), "b": (b, "INT64")}).items()} == {
        "sum": [11, 22],
        "double": [2, 4],
    }
    assert infer(client, "named", {"a": (a, "INT64")})["sum"].tolist() == [1, 2]
    p, q = np.float64([[1, 2, 3]]), np.float64([[4, 5, 6]])
    assert infer(client, "dictionary", {"p": (p, "FP64"), "q": (q, "FP64")})["OUT"].tolist() == [[4, 10, 18]]


def test_implicit_state(torch_server):
    """The sum comes back as the second argument."""
    for step, want in enumerate(([1, 2], [0, 0], [-1, -2])):
        body = {"inputs": [{"name": "INPUT__0", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
        body["parameters"] = {"sequence_id": 9, "sequence_start": step == 0, "sequence_end": step == 2}
        assert torch_server.infer("summed", body).json["outputs"][0]["data"] == want


def test_texts(client):
    texts = np.array(["héllo".encode(), b""], np.object_)
    assert infer(client, "texts", {"IN": (texts, "BYTES")})["OUT"].tolist() == ["héllo!".encode(), b"!"]


def test_bfloat16(client):
    x = np.array([1.5, -2.0, 0.0], ml_dtypes.bfloat16)
    np.testing.assert_array_equal(
        infer(client, "bf16", {"x": (x, "BF16")})["OUT"].astype(np.float32), x.astype(np.float32)
    )


def concurrently(server, model, arrays):
    """Each array as a request of its own, all at once; results or errors in order."""

    def one(array):
        with connected(server) as c:
            try:
                return infer(c, model, {"x": (array, "FP32")})["OUT"]
            except InferenceServerException as error:
                return error

    with concurrent.futures.ThreadPoolExecutor(len(arrays)) as pool:
        return list(pool.map(one, arrays))


@pytest.mark.parametrize("width", [4, 40000])
def test_batches_are_gathered_and_models_may_write_to_inputs(torch_server, width):
    arrays = [np.full((k + 1, width), k, np.float32) for k in range(3)]
    for _ in range(3):  # the same memory again
        for array, got in zip(arrays, concurrently(torch_server, "inplace", arrays)):
            np.testing.assert_array_equal(got, array * 2)


def test_a_bad_request_fails_alone(torch_server):
    arrays = [np.full((1, 4), v, np.float32) for v in (1, -1, 2)]
    good, bad, other = concurrently(torch_server, "picky", arrays)
    assert good.tolist() == [[1] * 4] and other.tolist() == [[2] * 4]
    assert "PyTorch execute failure" in str(bad) and "negative" in str(bad)


def test_a_wrong_shape_is_refused(torch_server):
    body = {"inputs": [{"name": "x", "shape": [1, 3, 4, 4], "datatype": "FP32", "data": [0] * 48}]}
    reply = torch_server.infer("script", body)
    assert reply.status == 400 and "Expected [-1,16], got [1,3,4,4]" in reply.error


def test_a_worker_that_dies_is_replaced(tmp_path, nets):
    put(tmp_path, "m", script(nets["mlp"]))
    body = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [1.0] * 16}]}
    with Server(tmp_path) as s:
        before = s.infer("m", body).json["outputs"]
        (worker,) = named(s.process.pid, "m_0")
        kill(worker)
        assert until(lambda: not alive(worker))
        assert until(lambda: s.infer("m", body).status == 200, timeout=180)
        assert s.infer("m", body).json["outputs"] == before


# Loads that fail.


def cut(write):
    def cut_file(path):
        write(path)
        data = open(path, "rb").read()
        open(path, "wb").write(data[: len(data) * 2 // 3])

    return cut_file


def damaged(write):
    """The code of the archive replaced by an operator that does not exist."""

    def replace(path):
        write(path)
        old = zipfile.ZipFile(path)
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as new:
            for item in old.infolist():
                data = old.read(item)
                if (
                    item.filename.endswith("__torch__.py")
                    or "torch_models" in item.filename
                    and item.filename.endswith(".py")
                ):
                    data = data.replace(b"torch.add", b"ops.no_such_library.add")
                new.writestr(item, data)
        open(path, "wb").write(made.getvalue())

    return replace


def bytes_of(data):
    return lambda path: open(path, "wb").write(data)


WRONG = 'input [ { name: "x" data_type: TYPE_INT32 dims: [ 8 ] } ]\noutput [ { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 4 ] } ]\n'
BAD = {
    "empty": (bytes_of(b""), "model.pt", None, ["'empty/1/model.pt' is not a model of the backend 'pytorch': it is empty"]),
    "cut": (cut(script(models.Mlp())), "model.pt", None, ["'cut/1/model.pt' is not a TorchScript", "it is cut off"]),
    "lfs": (bytes_of(b"version https://git-lfs.github.com/spec/v1\n"), "model.pt", None, ["a Git LFS pointer", "git lfs pull"]),
    "pickle": (bytes_of(pickle.dumps({"a": 1})), "model.pt", None, ["a Python pickle", "torch.jit.script or torch.export"]),
    "checkpoint": (lambda p: torch.save(models.Mlp().state_dict(), p), "model.pt", None, ["was written by torch.save", "put a model.py"]),
    "operator": (damaged(script(models.AddSub())), "model.pt", None, ["Unknown builtin op", "an operator that this PyTorch lacks"]),
    "contradiction": (exported(models.Mlp(), torch.zeros(2, 16)), "model.pt2", "max_batch_size: 4\n" + WRONG,
                      ["expects datatype TYPE_INT32 for input 'x', model provides TYPE_FP32 (write data_type: TYPE_FP32)"]),
    "dims": (exported(models.Mlp(), torch.zeros(2, 16)), "model.pt2", "max_batch_size: 4\n" + WRONG.replace("INT32", "FP32"),
             ["shape [-1,16]", "complete shape [-1,8]", "(write dims: [16])"]),
    "arguments": (script(models.AddSub()), "model.pt", WRONG.replace("INT32", "FP32"),
                  ["configuration expects 1 inputs, model provides 2", "forward of 'arguments/1/model.pt' has the arguments: a, b"]),
    "guess": (script(models.Dictionary()), "model.pt", None, ["does not say the datatypes and shapes of its inputs", "Write 'input'"]),
    "parameter": (script(models.Mlp()), "model.pt",
                  'platform: "pytorch_libtorch"\nparameters { key: "INFERENCE_MODE" value { string_value: "maybe" } }\n',
                  ["parameter INFERENCE_MODE is 'maybe', expected true or false"]),
    "gpu": (script(models.Mlp()), "model.pt", 'platform: "pytorch_libtorch"\ninstance_group { kind: KIND_GPU }\n',
            ["KIND_GPU but no GPUs are available"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def bad_server(tmp_path_factory):
    repo = tmp_path_factory.mktemp("bad")
    for name, (write, file, config, _) in BAD.items():
        put(repo, name, write, file, config)
    put(repo, "good", script(models.Mlp()))
    with Server(repo, "--exit-on-error=false", wait=False) as s:
        settled(s, len(BAD) + 1)
        yield s


@pytest.mark.parametrize("name", BAD)
def test_a_load_error_says_what_where_and_what_to_do(bad_server, name):
    (row,) = [m for m in bad_server.post("/v2/repository/index").json if m["name"] == name]
    assert row["state"] == "UNAVAILABLE"
    for text in BAD[name][3]:
        assert text in row["reason"]
    assert str(bad_server.log_path.parent) + "/pytest" not in row["reason"]


def test_other_models_go_on(bad_server):
    body = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.0] * 16}]}
    assert bad_server.infer("good", body).status == 200


def test_a_file_that_is_swapped_under_a_running_server(tmp_path, nets):
    d = put(tmp_path, "m", script(nets["mlp"]))
    body = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [1.0] * 16}]}
    with Server(tmp_path, "--model-control-mode=explicit", "--load-model=m") as s:
        before = s.infer("m", body).json["outputs"]
        (d / "model.pt").write_bytes(b"nonsense")
        assert s.infer("m", body).json["outputs"] == before
        reply = s.post("/v2/repository/models/m/load")
        assert reply.status == 400 and "is not a TorchScript" in reply.error
        assert s.infer("m", body).json["outputs"] == before
        shutil.copy(put(tmp_path / "other", "m", script(models.Mlp())) / "model.pt", d / "model.pt")
        assert s.post("/v2/repository/models/m/load").status == 200
        assert s.infer("m", body).json["outputs"] != before


def test_a_model_that_needs_too_much_memory(tmp_path, nets):
    put(tmp_path, "huge", script(models.Huge()), config=IO.format("x", "FP32", -1, "OUT"))
    put(tmp_path, "good", script(nets["mlp"]))
    with Server(tmp_path) as s:
        reply = s.infer("huge", {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}]})
        assert reply.status == 500 and "there is not enough memory for the model" in reply.error, reply
        assert s.get("/v2/models/huge/ready").status == 200
        body = {"inputs": [{"name": "x", "shape": [1, 16], "datatype": "FP32", "data": [0.0] * 16}]}
        assert s.infer("good", body).status == 200
