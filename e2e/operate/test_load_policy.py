"""What a load may bring, whoever asks for it: a client over HTTP or gRPC, or a model."""

from __future__ import annotations

import base64
import json
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nobody
import pytest
from repository import X, identity_model, place
from server import Server
from tritonclient import grpc
from tritonclient.utils import InferenceServerException

EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")

LOADER = """import base64, json
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            order = json.loads(pb_utils.get_input_tensor_by_name(r, "ORDER").as_numpy()[0])
            files = {k: base64.b64decode(v) for k, v in order.get("files", {}).items()}
            try:
                if order.get("unload"):
                    pb_utils.unload_model(order["unload"])
                else:
                    more = {"files": files} if files else {}
                    pb_utils.load_model(model_name=order["name"], config=order.get("config", ""), **more)
                told = "done"
            except Exception as e:
                told = f"{type(e).__name__}: {e}"
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("TOLD", np.array([told], dtype=object))]))
        return answers
"""
CONFIG = """backend: "python"
input { name: "ORDER" data_type: TYPE_STRING dims: [ 1 ] }
output { name: "TOLD" data_type: TYPE_STRING dims: [ 1 ] }
"""

# Says who runs it, and in which process, as soon as it is opened.
EVIL = r"""#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) {
  FILE *f = fopen(TOLD, "a");
  if (f) { fprintf(f, "%d %d\n", (int)getuid(), (int)getpid()); fclose(f); }
}
void *RegisterCustomOps(void *options, const void *api) { return 0; }
"""


def loader(repo):
    place(repo / "loader", {"config.pbtxt": CONFIG, "1/model.py": LOADER})


def ask(s, **order):
    body = {"inputs": [{"name": "ORDER", "datatype": "BYTES", "shape": [1], "data": [json.dumps(order)]}]}
    r = s.infer("loader", body)
    assert r.status == 200, r
    return r.json["outputs"][0]["data"][0]


def evil(directory, told):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler for the library")
    source, library = directory / "evil.c", directory / "evil.so"
    source.write_text(EVIL)
    command = ["cc", "-shared", "-fPIC", f'-DTOLD="{told}"', "-o", library, source]
    subprocess.run(command, check=True, timeout=300)
    return library


def onnx_files(library=None):
    data = Path(__file__).resolve().parents[2] / "backend" / "onnxruntime" / "testdata" / "add_sub.onnx"
    files = {"1/model.onnx": data.read_bytes()}
    if library:
        files["1/evil.so"] = library.read_bytes()
    return {k: base64.b64encode(v).decode() for k, v in files.items()}


def onnx_config(name, library):
    return json.dumps(
        {"name": name, "backend": "onnxruntime", "model_operations": {"op_library_filename": [str(library)]}}
    )


@pytest.fixture
def repo(tmp_path):
    repo = tmp_path / "models"
    repo.mkdir()
    loader(repo)
    return repo


def test_files_of_a_model(repo):
    """A model that loads another one brings no files either where the server takes none."""
    config = json.dumps({"backend": "identity", "input": [{"name": "I", "data_type": "TYPE_FP32", "dims": [1]}]})
    with Server(repo, *EXPLICIT, "--allow-model-files=false") as s:
        told = ask(s, name="n", config=config, files={"1/x": "aGk="})
        assert "--allow-model-files=false" in told, told
        assert s.get("/v2/models/n/ready").status == 400


def test_loads_of_models(repo):
    """With an admin listener models load nothing, unless the option says so."""
    identity_model(repo, "m")
    with Server(repo, *EXPLICIT, f"--admin-address=unix:{repo.parent / 'admin'}") as s:
        assert "--allow-model-loads" in ask(s, name="m")
        assert "--allow-model-loads" in ask(s, unload="m")
        assert s.infer("m", X).status == 200
    options = (f"--admin-address=unix:{repo.parent / 'admin'}", "--allow-model-loads=true")
    with Server(repo, *EXPLICIT, *options) as s:
        assert ask(s, name="m") == "done"
    with Server(repo, *EXPLICIT, "--allow-model-loads=false") as s:
        assert "--allow-model-loads" in ask(s, name="m")
        assert s.post("/v2/repository/models/m/load", {}).status == 200


@nobody.needs_root
def test_operator_library(repo, tmp_path):
    """A library of operators that a model brings along runs in a worker, with the worker's rights."""
    told = nobody.writable(tmp_path / "out") / "told"
    library = evil(tmp_path, told)
    with nobody.served(repo, *EXPLICIT, env={"NESO_ONNXRUNTIME_LIBRARY": nobody.onnxruntime_for_all(tmp_path)}) as s:
        # Whether the session comes about does not matter: the library has been opened.
        said = ask(s, name="e", config=onnx_config("e", "evil.so"), files=onnx_files(library))
        assert told.exists(), (said, s.log()[-3000:])
        lines = told.read_text().split()
        assert set(lines[::2]) == {str(pwd.getpwnam("nobody").pw_uid)}, lines
        assert str(s.process.pid) not in lines[1::2]


def test_operator_library_in_the_server(repo, tmp_path):
    """Who starts the server can have such libraries in its own process."""
    told = nobody.writable(tmp_path / "out") / "told"
    library = evil(tmp_path, told)
    with Server(repo, *EXPLICIT) as s:
        assert s.get("/v2/models/loader/ready").status == 200
        r = s.post("/v2/repository/models/e/load", load("e", onnx_config("e", "evil.so"), onnx_files(library)))
        assert told.exists(), r
        assert str(s.process.pid) not in told.read_text().split()[1::2]
    told.unlink()
    with Server(repo, *EXPLICIT, "--backend-config=onnxruntime,own-code=server") as s:
        r = s.post("/v2/repository/models/e/load", load("e", onnx_config("e", "evil.so"), onnx_files(library)))
        assert told.read_text().split()[1::2] == [str(s.process.pid)], r


def load(name, config, files=None):
    parameters = {"config": config, **{f"file:{k}": v for k, v in (files or {}).items()}}
    return {"parameters": parameters}


IO = {
    "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [1]}],
}


def parameters(**values):
    return {"parameters": {k: {"string_value": v} for k, v in values.items()}}


def accelerator(name, **values):
    return {
        "optimization": {
            "execution_accelerators": {"cpu_execution_accelerator": [{"name": name, "parameters": values}]}
        }
    }


OUTSIDE = [
    ("model_operations.op_library_filename[0]", "onnxruntime", {"model_operations": {"op_library_filename": ["/tmp/x.so"]}}),
    ("model_operations.op_library_filename[0]", "onnxruntime", {"model_operations": {"op_library_filename": ["../../x.so"]}}),
    ('parameters["onnxruntime_library"]', "onnxruntime", parameters(onnxruntime_library="/tmp/x.so")),
    ('parameters["session.model_external_initializers_file_folder_path"]', "onnxruntime",
     parameters(**{"session.model_external_initializers_file_folder_path": "etc"})),
    ('parameters["ep.context_file_path"]', "onnxruntime", parameters(**{"ep.context_file_path": "/etc/x"})),
    ('optimization.execution_accelerators.cpu_execution_accelerator[0].parameters["backend_path"]', "onnxruntime",
     accelerator("qnn", backend_path="libx.so")),
    ('parameters["openvino_library"]', "openvino", parameters(openvino_library="/tmp")),
    ('parameters["CPU_EXTENSION_PATH"]', "openvino", parameters(CPU_EXTENSION_PATH="/tmp/x.so")),
    ('parameters["CACHE_DIR"]', "openvino", parameters(CACHE_DIR="here")),
    ('parameters["treelite_library"]', "fil", parameters(treelite_library="/tmp/x.so")),
    ('parameters["EXECUTION_ENV_PATH"]', "python", parameters(EXECUTION_ENV_PATH="/usr/bin/python3")),
    ('parameters["EXECUTION_ENV_PATH"]', "python", parameters(EXECUTION_ENV_PATH="env.tar.gz")),
    ('parameters["EXECUTION_ENV_PATH"]', "python", parameters(EXECUTION_ENV_PATH="$$TRITON_MODEL_DIRECTORY/../../x")),
    ('parameters["EXECUTION_ENV_PATH"]', "pytorch", parameters(EXECUTION_ENV_PATH="/usr/bin/python3")),
    ('parameters["TF_INIT_OPS_FILE"]', "tensorflow", {"platform": "tensorflow_savedmodel", **parameters(TF_INIT_OPS_FILE="/etc/shadow")}),
    ("default_model_filename", "onnxruntime", {"default_model_filename": "/etc/shadow"}),
    ('cc_model_filenames["8.6"]', "onnxruntime", {"cc_model_filenames": {"8.6": "../../x"}}),
    ("runtime", "identity", {"runtime": "/tmp/libtriton_identity.so"}),
]  # fmt: skip


def test_paths_outside_of_the_model(repo):
    """The configuration of a load request names no file outside of the model, in no field; the answer says which."""
    identity_model(repo, "m")
    with Server(repo, *EXPLICIT) as s:
        for field, backend, more in OUTSIDE:
            config = json.dumps({"backend": backend, **IO, **more})
            for files in ({}, {"1/x": "aGk="}):
                r = s.post("/v2/repository/models/m/load", load("m", config, files))
                assert r.status == 403 and field in r.error, (field, r)
            assert field in ask(s, name="m", config=config), field
        with grpc.InferenceServerClient(s.grpc) as client, pytest.raises(InferenceServerException) as e:
            client.load_model("m", config=onnx_config("m", "/tmp/x.so"))
        assert e.value.status() == "StatusCode.PERMISSION_DENIED" and "op_library_filename[0]" in str(e.value)
        # Who reads the index is not told what others may not do.
        assert s.post("/v2/repository/models/m/load").status == 200
        assert s.post("/v2/repository/models/m/load", load("m", config)).status == 403
        assert not [m for m in s.post("/v2/repository/index").json if m.get("reason")]
        # These were refused always, with the peer's words.
        for more in (
            {"output": [{**IO["output"][0], "label_filename": "../../x"}]},
            {"sequence_batching": {"state": [{"input_name": "I", "output_name": "O", "data_type": "TYPE_FP32", "dims": [1],
                                              "initial_state": [{"name": "i", "data_type": "TYPE_FP32", "dims": [1],
                                                  "data_file": "../x"}]}]}},
            {"model_warmup": [{"name": "w", "batch_size": 1,
                               "inputs": {"INPUT0": {"data_type": "TYPE_FP32", "dims": [1], "input_data_file": "../x"}}}]},
        ):  # fmt: skip
            r = s.post("/v2/repository/models/m/load", load("m", json.dumps({"backend": "identity", **IO, **more})))
            assert r.status >= 400 and re.search("outside (of )?(the )?model", r.error), r
        assert s.infer("m", X).status == 200


def test_the_models_own_paths(repo):
    """What a model's own file names, a request may send back: clients read a configuration, change it and load with it."""
    own = CONFIG + f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{sys.executable}" }} }}\n'
    (repo / "loader" / "config.pbtxt").write_text(own)
    with Server(repo, *EXPLICIT) as s:
        config = s.get("/v2/models/loader/config").json
        config["instance_group"] = [{"count": 2, "kind": "KIND_CPU"}]
        r = s.post("/v2/repository/models/loader/load", load("loader", json.dumps(config)))
        assert r.status == 200, r
        config["parameters"]["EXECUTION_ENV_PATH"]["string_value"] = "/usr/bin/python3"
        r = s.post("/v2/repository/models/loader/load", load("loader", json.dumps(config)))
        assert r.status == 403 and "EXECUTION_ENV_PATH" in r.error, r
