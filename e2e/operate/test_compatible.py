"""What launchers, clients and configurations written for Triton rely on; the answers are the real server's."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from repository import X, answer, ensemble, python_model, until
from server import BINARY, MODELS, Server, free_port
from tritonclient.utils import InferenceServerException

EXPLICIT = ["--model-control-mode=explicit"]
BOM = b"\xef\xbb\xbf"


@pytest.fixture(scope="module")
def explicit(tmp_path_factory):
    """A server whose models come and go over the API."""
    repository = tmp_path_factory.mktemp("models")
    shutil.copytree(MODELS / "add_sub", repository / "add_sub")
    with Server(repository, *EXPLICIT, "--load-model=add_sub") as s:
        s.repository = repository
        yield s
    assert s.process.returncode == 0, s.log()[-3000:]


@pytest.mark.parametrize("form", ["[::1]", "ipv6:[::1]", "ipv6:::1", "::1"])
def test_addresses_of_ipv6(tmp_path, form):
    shutil.copytree(MODELS / "add_sub", tmp_path / "add_sub")
    http_port, grpc_port, metrics_port = free_port(), free_port(), free_port()
    options = [f"--http-address={form}", f"--grpc-address={form}", f"--metrics-address={form}"]
    options += [f"--http-port={http_port}", f"--grpc-port={grpc_port}", f"--metrics-port={metrics_port}"]
    s = Server(tmp_path, *options, wait=False)
    try:
        client = grpcclient.InferenceServerClient(f"[::1]:{grpc_port}")
        assert until(lambda: s.process.poll() is not None or is_ready(client)), s.log()
        for port, path in ((http_port, "/v2/health/ready"), (metrics_port, "/metrics")):
            connection = http.client.HTTPConnection("::1", port, timeout=60)
            connection.request("GET", path)
            assert connection.getresponse().status == 200
    finally:
        s.stop()


def is_ready(client):
    with contextlib.suppress(InferenceServerException):
        return client.is_server_ready()
    return False


def add_sub_inputs():
    inputs = [grpcclient.InferInput(n, [1, 2], "FP32") for n in ("INPUT0", "INPUT1")]
    for i in inputs:
        i.set_data_from_numpy(np.ones((1, 2), np.float32))
    return inputs


def test_versions_are_read_as_by_strtol(explicit):
    client = grpcclient.InferenceServerClient(explicit.grpc)
    for version in ("1", "1x", " 1", "+1", "01", "1 ", "1.5", "\t1", ""):
        assert client.infer("add_sub", add_sub_inputs(), version).get_response().model_version == "1", version
        assert client.is_model_ready("add_sub", version)
        assert client.get_model_metadata("add_sub", version).versions == ["1"]
    for version, fault in {
        "x": "failed to get model version from specified version string 'x' (details: stol)",
        " ": "failed to get model version from specified version string ' ' (details: stol)",
        "+": "failed to get model version from specified version string '+' (details: stol)",
        "99999999999999999999": "(details: stol), version should be an integral value > 0",
        "-1": "invalid model version specified '-1' , version should be an integral value > 0",
        "0x1": "Request for unknown model: 'add_sub' version 0 is not found",
        "-0": "Request for unknown model: 'add_sub' version 0 is not found",
    }.items():
        with pytest.raises(InferenceServerException) as e:
            client.infer("add_sub", add_sub_inputs(), version)
        assert fault in str(e.value)


IO = {"data_type": "TYPE_FP32", "dims": [-1]}
CONFIG = {
    "backend": "python",
    "max_batch_size": 8,
    "input": [{"name": "INPUT0", **IO}, {"name": "INPUT1", **IO}],
    "output": [{"name": "OUTPUT0", **IO}, {"name": "OUTPUT1", **IO}],
}


def load(s, config=None, name="add_sub"):
    text = config if isinstance(config, str) else json.dumps(config)
    body = {"parameters": {"config": text}} if config else {}
    return s.post(f"/v2/repository/models/{name}/load", body)


def test_one_value_where_a_list_is_expected(explicit):
    one = {
        **CONFIG,
        "instance_group": {"count": 2, "kind": "KIND_CPU"},
        "dynamic_batching": {"preferred_batch_size": 4},
    }
    one["output"] = {"name": "OUTPUT0", **IO}
    one["input"] = [CONFIG["input"], {"name": "MORE", "optional": True, "data_type": "TYPE_FP32", "dims": -1}]
    one["version_policy"] = {"specific": {"versions": 1}}
    reply = load(explicit, one)
    assert reply.status == 200, reply
    shown = explicit.get("/v2/models/add_sub/config").json
    assert [g["count"] for g in shown["instance_group"]] == [2]
    assert shown["dynamic_batching"]["preferred_batch_size"] == [4]
    assert [(i["name"], i["dims"]) for i in shown["input"]] == [(n, [-1]) for n in ("INPUT0", "INPUT1", "MORE")]
    assert [o["name"] for o in shown["output"]] == ["OUTPUT0"]
    for bad in (
        {**CONFIG, "max_batch_size": [8]},
        {**CONFIG, "dynamic_batching": [{}]},
        {**CONFIG, "parameters": [{"key": "a"}]},
        {**CONFIG, "input": "INPUT0"},
    ):
        reply = load(explicit, bad)
        assert reply.status == 500 and "failed to poll from model repository" in reply.error
    assert load(explicit).status == 200


def test_an_empty_configuration_is_not_none(explicit):
    """A load whose parameter `config` is empty has no configuration to load by, unlike one without the parameter."""
    reply = explicit.post("/v2/repository/models/add_sub/load", {"parameters": {"config": ""}})
    assert reply.status == 500 and "failed to load 'add_sub', failed to poll from model repository" in reply.error
    with pytest.raises(InferenceServerException, match="failed to poll from model repository"):
        grpcclient.InferenceServerClient(explicit.grpc).load_model("add_sub", config="")
    assert load(explicit).status == 200


def test_byte_order_mark(explicit):
    assert load(explicit).status == 200
    tensors = [{"name": n, "datatype": "FP32", "shape": [1, 2], "data": [1, 2]} for n in ("INPUT0", "INPUT1")]
    body = json.dumps({"inputs": tensors}).encode()
    assert explicit.post("/v2/models/add_sub/infer", BOM + body).json["outputs"][0]["data"] == [2, 4]
    assert explicit.post("/v2/repository/index", BOM + b'{"ready":true}').json[0]["name"] == "add_sub"
    assert explicit.post("/v2/logging", BOM + b"{}").status == 200
    assert explicit.post("/v2/repository/models/add_sub/load", BOM + b"{}").status == 200
    generated = explicit.post("/v2/models/add_sub/generate", BOM + b'{"INPUT0": [1, 2], "INPUT1": [1, 2]}')
    assert generated.status == 200, generated
    for bad in (BOM + BOM + body, body.decode().encode("utf-16"), BOM[:2] + body):
        reply = explicit.post("/v2/models/add_sub/infer", bad)
        assert reply.status == 400 and "failed to parse the request JSON buffer" in reply.error


def test_a_version_that_is_not_there_is_named(explicit):
    reply = load(explicit, {**CONFIG, "version_policy": {"specific": {"versions": [3, 5]}}})
    assert reply.status == 400 and reply.error.startswith(
        "load failed for model 'add_sub': at least one version must be available under the version policy of model 'add_sub'"
    )
    assert "no directory of version 3, 5" in reply.error
    assert load(explicit).status == 200


def test_a_step_without_model_version(explicit):
    ensemble(explicit.repository, "steps", "add_sub")
    path = explicit.repository / "steps" / "config.pbtxt"
    path.write_text(path.read_text().replace("model_version: -1", ""))
    reply = load(explicit, name="steps")
    assert reply.status == 400 and "depends on 'add_sub' whose required version 0 is not loaded" in reply.error
    assert "no model_version: -1 means the latest" in reply.error
    explicit.post("/v2/repository/models/steps/unload")


def test_an_ambiguous_name_loads_all_of_that_name(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    python_model(a, "m", add=1)
    python_model(b, "m", add=2)
    ensemble(a, "ea", "m")
    ensemble(b, "eb", "m")

    def states(s):
        return [(m["name"], m["state"]) for m in s.post("/v2/repository/index").json if "state" in m]

    with Server([a, b], "--model-namespacing=true", *EXPLICIT, "--load-model=m") as s:
        assert states(s) == [("m", "READY")] * 2
        assert s.infer("m", X).status == 400
        assert s.post("/v2/repository/models/m/unload").status == 200
        assert [name for name, state in states(s) if state == "READY"] == []
        assert s.post("/v2/repository/models/m/load").status == 200
        assert states(s) == [("m", "READY")] * 2
        assert s.post("/v2/repository/models/ea/load").status == s.post("/v2/repository/models/eb/load").status == 200
        assert answer(s, "ea") == 2 and answer(s, "eb") == 3
        python_model(a, "m", init="raise ValueError('broken')", add=4)
        reply = s.post("/v2/repository/models/m/load")
        assert reply.status == 400 and "broken" in reply.error
        assert answer(s, "ea") == 2, "what served goes on"


def test_directories_that_are_no_models(tmp_path):
    shutil.copytree(MODELS / "add_sub", tmp_path / "add_sub")
    for name in ("lost+found", "__pycache__", ".git", "__MACOSX"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / "add_sub" / name).mkdir()
    with Server(tmp_path) as s:  # it ends where a model does not load
        assert [m["name"] for m in s.post("/v2/repository/index").json] == ["add_sub"]
        assert "ignore version directory" not in s.log()


def test_hidden_directories_load_by_their_names(tmp_path):
    """As with Triton: tools deploy models under any name. Lists leave them out, other than Triton's."""
    names = ["...", "..my_model", ".hidden", "model..1"]
    for name in [*names, "..", "__pycache__"]:
        shutil.copytree(MODELS / "add_sub" / "1", tmp_path / "repo" / name / "1", dirs_exist_ok=True)
    with Server(tmp_path / "repo", "--model-control-mode=explicit", "--load-model=.hidden") as s:
        for name in names:
            r = s.post(f"/v2/repository/models/{name}/load")
            assert r.status == 200, r
            assert s.get(f"/v2/models/{name}/ready").status == 200
        assert [(m["name"], m["state"]) for m in s.post("/v2/repository/index").json] == [
            (n, "READY") for n in sorted(names)
        ]
        for name in ("..", "__pycache__"):
            assert s.post(f"/v2/repository/models/{name}/load").status in (400, 404, 500)
        assert s.post("/v2/repository/models/.../unload").status == 200
        assert s.get("/v2/models/.../ready").status == 400
    with Server(tmp_path / "repo") as s:
        assert [m["name"] for m in s.post("/v2/repository/index").json] == ["model..1"]


def test_passive_instances_take_no_requests(tmp_path):
    groups = """instance_group [
  { name: "idle" kind: KIND_CPU count: 1 passive: true },
  { name: "active" kind: KIND_CPU count: 2 }
]
"""
    begun = "open(os.path.join(args['model_repository'], args['model_instance_name']), 'w').close()"
    served = "open(os.path.join(self.place, 'served_' + self.name), 'w').close()"
    keeps = "self.place, self.name = args['model_repository'], args['model_instance_name']"
    python_model(tmp_path, "m", init=f"import os; {begun}; {keeps}", execute=f"import os; {served}", extra=groups)
    directory = tmp_path / "m"
    with Server(tmp_path) as s:
        for _ in range(20):
            assert s.infer("m", X).status == 200
        made = {p.name for p in directory.iterdir() if p.is_file()} - {"config.pbtxt"}
        assert {n for n in made if not n.startswith("served_")} == {"idle_0", "active_0", "active_1"}
        assert "served_idle_0" not in made and made & {"served_active_0", "served_active_1"}
        shown = s.get("/v2/models/m/config").json["instance_group"]
        assert [(g["name"], g["passive"]) for g in shown] == [("idle", True), ("active", False)]
    config = directory / "config.pbtxt"
    config.write_text(config.read_text().replace("count: 2", "count: 2 passive: true"))
    s = Server(tmp_path, wait=False)
    try:
        assert s.process.wait(120) == 1 and "all instances of the model are passive" in s.log()
    finally:
        s.stop()


IDLE = """instance_group { count: 1 kind: KIND_CPU }
model_metrics { metric_control { metric_identifier { family: "other" } histogram_options { buckets: [ 1 ] } } }
optimization {
  graph { level: 1 }
  priority: PRIORITY_MAX
  cuda { graphs: true }
  execution_accelerators { gpu_execution_accelerator { name: "tensorrt" } cpu_execution_accelerator { name: "openvino" } }
  input_pinned_memory { enable: false }
  gather_kernel_buffer_threshold: 8
  eager_batching: true
}
"""
IDLE_FIELDS = {
    "model_metrics.metric_control[0]",
    "optimization.graph",
    "optimization.priority",
    "optimization.cuda",
    "optimization.execution_accelerators.gpu_execution_accelerator",
    "optimization.execution_accelerators.cpu_execution_accelerator",
    "optimization.input_pinned_memory",
    "optimization.gather_kernel_buffer_threshold",
    "optimization.eager_batching",
    "triton_python_backend_stub",
}


def test_what_has_no_effect_is_said(tmp_path):
    python_model(tmp_path, "asks", extra=IDLE)
    (tmp_path / "asks" / "triton_python_backend_stub").write_text("")
    python_model(tmp_path, "plain")
    checked = subprocess.run([BINARY, "config", "check", str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked
    said = checked.stdout + checked.stderr
    assert set(re.findall(r"(\S+) has no effect: ", said)) == IDLE_FIELDS
    with Server(tmp_path) as s:
        log = s.log()
    lines = [line for line in log.splitlines() if "asks for what has no effect" in line]
    assert len(lines) == len(IDLE_FIELDS) and all("model=asks" in line for line in lines), lines
    assert {re.search(r"field=\"?([^ \"]+)", line)[1] for line in lines} == IDLE_FIELDS


def test_configurations_written_by_hand(explicit):
    """The peer reads the configuration of a load by protobuf's parser, which takes more than JSON."""
    with grpcclient.InferenceServerClient(explicit.grpc) as client:
        client.load_model(
            "add_sub", config="{backend: 'python', max_batch_size: '3', dynamic_batching: {preserve_ordering: 'yes',},}"
        )
        config = client.get_model_config("add_sub", as_json=True)["config"]
        assert config["max_batch_size"] == 3 and config["dynamic_batching"]["preserve_ordering"] is True
        client.load_model("add_sub")


@pytest.mark.parametrize("name", ["..", "../etc", " ..", "a/b", " ", ""])
def test_names_that_cannot_be(explicit, name):
    """A load says what is wrong; to unload what cannot be there is no error."""
    with grpcclient.InferenceServerClient(explicit.grpc) as client:
        text = "must not contain path traversal characters" if name.strip() else "Model name cannot be empty"
        with pytest.raises(InferenceServerException, match=text):
            client.load_model(name)
        client.unload_model(name)
