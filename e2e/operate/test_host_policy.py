"""--host-policy: where instances run, and where their memory lies."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import xgboost
from onnx import helper, numpy_helper
from repository import python_model, until
from server import BINARY, ROOT, Server, isolated, kill

SAY = (
    "import os\n"
    "        maps = '/proc/self/numa_maps'\n"
    "        bound = os.path.exists(maps) and 'bind:0' in open(maps).readline()\n"
    "        every = {frozenset(os.sched_getaffinity(int(t))) for t in os.listdir('/proc/self/task')}\n"
    "        print('SAID', args['model_instance_name'], [sorted(s) for s in every], bound, flush=True)"
)
GROUPS = """instance_group { name: "near" count: 1 kind: KIND_CPU host_policy: "near" }
instance_group { name: "far" count: 1 kind: KIND_CPU host_policy: "far" }
instance_group { name: "any" count: 1 kind: KIND_CPU }
"""


def said(server):
    """What each instance says: the sets of processors of its threads, and whether its memory is bound."""
    return {name: (sets, bound) for name, sets, bound in re.findall(r"SAID (\S+) (\[.*\]) (True|False)", server.log())}


def test_processors(tmp_path):
    one, *_, other = sorted(os.sched_getaffinity(0))
    python_model(tmp_path / "models", "m", init=SAY, extra=GROUPS)
    flags = [f"--host-policy=near,cpu-cores={one}-{one}", f"--host-policy=cpu,cpu-cores={other}-{other}"]
    with Server(tmp_path / "models", *flags) as s:
        everywhere = sorted(os.sched_getaffinity(0))
        assert said(s) == {
            "near_0": (f"[[{one}]]", "False"),
            "far_0": (f"[{everywhere}]", "False"),
            "any_0": (f"[[{other}]]", "False"),  # the policy of its kind
        }


@pytest.mark.skipif(not os.path.exists("/proc/self/numa_maps"), reason="the kernel knows no NUMA nodes")
def test_memory(tmp_path):
    python_model(tmp_path / "models", "m", init=SAY, extra=GROUPS)
    with Server(tmp_path / "models", "--host-policy=far,numa-node=0") as s:
        assert {name: bound for name, (_, bound) in said(s).items()} == {
            "near_0": "False",
            "far_0": "True",
            "any_0": "False",
        }


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("cpu-cores=8000-8001", "Unable to set NUMA thread affinity: Invalid argument"),
        ("numa-node=1000", "Unable to set NUMA memory policy: Invalid argument"),
        ("cpu-cores=0", "host policy setting 'cpu-cores' format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got 0"),
    ],
)
def test_what_the_system_refuses_fails_the_load(tmp_path, setting, text):
    python_model(tmp_path / "models", "m", extra=GROUPS)
    flags = ["--model-control-mode=explicit", f"--host-policy=near,{setting}"]
    with Server(tmp_path / "models", *flags) as s:
        refused = s.post("/v2/repository/models/m/load")
        assert refused.status == 400 and text in refused.error


def onnx_model(directory, backend, extra):
    """A product of matrices, on which a session's own threads work too."""
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "W")
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 64]) for name in ("IN", "OUT")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["IN", "W"], ["OUT"])], "product", ends[:1], ends[1:], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "model.onnx").write_bytes(model.SerializeToString())
    (directory / "config.pbtxt").write_text(
        f'backend: "{backend}"\nmax_batch_size: 64\ndefault_model_filename: "model.onnx"\n'
        'input { name: "IN" data_type: TYPE_FP32 dims: [ 64 ] }\noutput { name: "OUT" data_type: TYPE_FP32 dims: [ 64 ] }\n'
        + extra
    )


def run(server, model="m", name="IN"):
    body = {"inputs": [{"name": name, "datatype": "FP32", "shape": [64, 64], "data": [1.0] * 64 * 64}]}
    reply = server.infer(model, body)
    assert reply.status == 200 and (name != "IN" or reply.json["outputs"][0]["data"] == [64.0] * 64 * 64), reply


def threads(pid):
    """The processors of each thread of a process, and the first line of what the kernel says of its memory."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            memory = task / "numa_maps"
            found[int(task.name)] = (
                sorted(os.sched_getaffinity(int(task.name))),
                memory.exists() and "bind:0" in memory.read_text().partition("\n")[0],
            )
    return found


def trees(directory, extra):
    """A model of 64 trees with two leaves each."""
    rows = np.random.default_rng(0).random((200, 64)).astype(np.float32)
    model = xgboost.train({"max_depth": 1, "nthread": 1}, xgboost.DMatrix(rows, rows.sum(1)), 64)
    (directory / "1").mkdir(parents=True)
    model.save_model(directory / "1" / "xgboost.json")
    (directory / "config.pbtxt").write_text(
        'backend: "fil"\nmax_batch_size: 64\nparameters { key: "model_type" value { string_value: "xgboost_json" } }\n'
        'input { name: "input__0" data_type: TYPE_FP32 dims: [ 64 ] }\noutput { name: "output__0" data_type: TYPE_FP32 dims: [ 1 ] }\n'
        + extra
    )


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "fil"])
def test_isolated_backends(tmp_path, backend):
    """The process of each instance runs there from its first instruction on, and so does one that takes its place."""
    one, *_ = sorted(os.sched_getaffinity(0))
    isolation = 'parameters { key: "isolation" value { string_value: "process" } }\n'
    if backend == "fil":
        trees(tmp_path / "models" / "m", GROUPS + isolation)
    else:
        onnx_model(tmp_path / "models" / "m", backend, GROUPS + isolation)
    flags = [f"--host-policy=near,cpu-cores={one}-{one}", "--host-policy=far,numa-node=0"]
    tensor = "input__0" if backend == "fil" else "IN"
    numa = os.path.exists("/proc/self/numa_maps")
    with Server(tmp_path / "models", *flags[: 1 + numa]) as s:
        everywhere = sorted(os.sched_getaffinity(0))

        def places():
            found = []
            for pid in isolated(s.process.pid):
                # OpenVINO pins threads of its own to one of these processors while they work.
                every = threads(pid).values()
                (bound,) = {bound for _, bound in every}
                found.append((tuple(sorted({cpu for cpus, _ in every for cpu in cpus})), bound))
            return sorted(found)

        wanted = sorted([((one,), False), (tuple(everywhere), numa), (tuple(everywhere), False)])
        for _ in range(6):
            run(s, name=tensor)
        assert places() == wanted
        before = isolated(s.process.pid)
        for pid in before:
            kill(pid)
        assert until(lambda: len(isolated(s.process.pid)) == 3 and not {*before} & {*isolated(s.process.pid)})
        for _ in range(6):
            run(s, name=tensor)
        assert places() == wanted


def test_onnxruntime_in_the_server(tmp_path):
    """The threads of a session, which instances of one policy share, and no others: whoever brings a request is where he was."""
    one, *_, other = sorted(os.sched_getaffinity(0))
    if one == other:
        pytest.skip("there is one processor")
    count = 'parameters { key: "intra_op_thread_count" value { string_value: "4" } }\n'
    near = 'instance_group { name: "near" count: 2 kind: KIND_CPU host_policy: "near" }\n'
    onnx_model(tmp_path / "models" / "m", "onnxruntime", near + count)
    onnx_model(tmp_path / "models" / "anywhere", "onnxruntime", count)
    flags = [f"--host-policy=near,cpu-cores={other}-{other}"]
    if numa := os.path.exists("/proc/self/numa_maps"):
        flags.append("--host-policy=near,numa-node=0")

    def bound():
        return [place for place in threads(s.process.pid).values() if place[0] == [other]]

    with Server(tmp_path / "models", *flags, "--model-control-mode=explicit", "--load-model=anywhere") as s:
        run(s, "anywhere")
        assert bound() == []
        assert s.post("/v2/repository/models/m/load").status == 200
        assert bound() == [([other], numa)] * 3  # the fourth is the one that brings the request
        for _ in range(20):
            run(s)
            run(s, "anywhere")
        assert bound() == [([other], numa)] * 3
        assert s.post("/v2/repository/models/m/unload").status == 200
        assert until(lambda: bound() == [])


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_what_the_system_refuses_of_other_backends(tmp_path, isolation):
    extra = f'parameters {{ key: "isolation" value {{ string_value: "{isolation}" }} }}\n'
    onnx_model(tmp_path / "models" / "m", "onnxruntime", GROUPS + extra)
    flags = ["--model-control-mode=explicit", "--host-policy=near,cpu-cores=8000-8001"]
    with Server(tmp_path / "models", *flags) as s:
        refused = s.post("/v2/repository/models/m/load")
        assert refused.status == 400, refused
        assert "Unable to set NUMA thread affinity: Invalid argument" in refused.error, refused


@pytest.mark.parametrize(
    ("backend", "extra", "hint"),
    [
        ("identity", "", "runs in the server"),
        ("fil", "", "the parameter isolation: process this model"),
        ("fil", 'parameters { key: "isolation" value { string_value: "process" } }\n', None),
        ("onnxruntime", "", None),
        ("python", "", None),
    ],
)
def test_where_it_has_no_effect(tmp_path, backend, extra, hint):
    model = tmp_path / "models" / "m"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").write_text(
        f'backend: "{backend}"\ninput {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }}\n'
        'output { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }\n' + GROUPS + extra
    )
    done = subprocess.run([BINARY, "config", "check", str(model.parent)], capture_output=True, text=True, timeout=120)
    told = [line for line in (done.stdout + done.stderr).splitlines() if "instance_group[0].host_policy" in line]
    assert len(told) == (hint is not None), (done.stdout, done.stderr)
    assert not told or hint in told[0]


def test_callables_are_their_programs_affair(tmp_path):
    """The threads of a program that binds callables stay where it has them, and the log says so."""
    one, *_ = sorted(os.sched_getaffinity(0))
    program = """if True:
        import os, sys
        import numpy as np
        from neso import RemoteTriton, Tensor

        def where(requests):
            return [{"OUT": np.array([[len(os.sched_getaffinity(0))]])} for _ in requests]

        with RemoteTriton(sys.argv[1]) as remote:
            remote.bind("m", where, [Tensor((1,), np.int64, "IN")], [Tensor((1,), np.int64, "OUT")])
            print(int(remote.client("m").infer_sample(np.array([1]))["OUT"].flat[0]))
    """
    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", "--model-control-mode=explicit", f"--host-policy=cpu,cpu-cores={one}-{one}") as s:
        done = subprocess.run(
            [sys.executable, "-c", program, f"http://{s.http}"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout.split() == [str(len(os.sched_getaffinity(0)))], done.stderr
        assert "a host policy has no effect on callables" in s.log()
