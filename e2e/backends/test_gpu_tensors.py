"""Tensors on a GPU between Python models, through the built binary: which of them are copied, by whom, and what is left.

No machine with a GPU is needed: a driver of our own keeps its memory in files, and says which process copied what.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import gpus
import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
import tritonclient.utils.shared_memory as shm
from repository import until
from server import ROOT, Server, alive, descendants, kill
from tritonclient.utils import InferenceServerException

sys.path += [str(ROOT / "python"), str(ROOT / "python" / "tests")]
from fakecuda import Machine, compile_driver  # noqa: E402

MIB = 1 << 20
TESTS = ROOT / "python" / "tests"

MODEL = """import os
import sys
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.append({tests!r})
from fakecuda import look, place

GPU = pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0)


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        if not config.as_dict()["max_batch_size"]:
            config.set_max_batch_size(0)
        config.add_input({{"name": "X", "data_type": "TYPE_INT32", "dims": [-1]}})
        config.add_output({{"name": "Y", "data_type": "TYPE_INT32", "dims": [-1]}})
        config.add_output({{"name": "WHERE", "data_type": "TYPE_STRING", "dims": [1]}})
        if {decoupled}:
            config.set_model_transaction_policy({{"decoupled": True}})
        return config

    def initialize(self, args):
        self.kept = []

    def see(self, tensor):
        "The values of a tensor, and where they lie."
        if tensor.is_cpu():
            return tensor.as_numpy(), "host"
        values, device = look(tensor)
        return values, f"gpu{{device}}"

    def reply(self, tensor, where):
        return pb_utils.InferenceResponse([tensor, pb_utils.Tensor("WHERE", np.array([where], object))])

    def call(self, model, tensor, **kw):
        q = pb_utils.InferenceRequest(model_name=model, inputs=[tensor], requested_output_names=["Y", "WHERE"], **kw)
        r = q.exec()
        if r.has_error():
            raise pb_utils.TritonModelException(r.error().message())
        return [pb_utils.get_output_tensor_by_name(r, name) for name in ("Y", "WHERE")]

    def execute(self, requests):
        out = []
        for r in requests:
            x, where = self.see(pb_utils.get_input_tensor_by_name(r, "X"))
            out.append(self.one(r, x, where))
        return None if {decoupled} else out

    def one(self, request, x, where):
        {body}
"""

TWICE_THERE = 'return self.reply(place("Y", x * 2), where)'
ONE_MORE_HERE = 'return self.reply(pb_utils.Tensor("Y", x + 1), where)'
ONE_MORE_THERE = 'return self.reply(place("Y", x + 1), where)'
# Its input, its callee's view of that, and where the answer lies.
CALL = """y, there = self.call({callee!r}, place("X", x * 2), **{options})
values, answer = self.see(y)
return self.reply(pb_utils.Tensor("Y", values + 100), f"{{where}} {{there.as_numpy()[0].decode()}} {{answer}}")"""


def write(repo, name, body, force="no", decoupled=False, extra=""):
    directory = repo / name / "1"
    directory.mkdir(parents=True)
    text = MODEL.format(body="\n        ".join(body.splitlines()), tests=str(TESTS), decoupled=decoupled)
    (directory / "model.py").write_text(text)
    parameter = f'parameters {{ key: "FORCE_CPU_ONLY_INPUT_TENSORS" value {{ string_value: "{force}" }} }}\n'
    (repo / name / "config.pbtxt").write_text('backend: "python"\n' + (parameter if force else "") + extra)


def chain(repo, name, first, *rest, batch=0):
    """An ensemble of models in a row; WHERE is the last one's, but has no rows for a batch."""
    (repo / name / "1").mkdir(parents=True)
    steps, before = [], "X"
    outputs = ['{ name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }']
    if not batch:
        outputs.append('{ name: "WHERE" data_type: TYPE_STRING dims: [ 1 ] }')
    for n, model in enumerate([first, *rest]):
        last = n == len(rest)
        after = "Y" if last else f"t{n}"
        where = 'output_map { key: "WHERE" value: "WHERE" }' if last and not batch else ""
        steps.append(
            f'{{ model_name: "{model}" model_version: -1 input_map {{ key: "X" value: "{before}" }} '
            f'output_map {{ key: "Y" value: "{after}" }} {where} }}'
        )
        before = after
    (repo / name / "config.pbtxt").write_text(
        f'platform: "ensemble"\nmax_batch_size: {batch}\ninput {{ name: "X" data_type: TYPE_INT32 dims: [ -1 ] }}\n'
        f"output [ {', '.join(outputs)} ]\nensemble_scheduling {{ step [ {', '.join(steps)} ] }}\n"
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler for the driver (Debian: gcc)")
    return compile_driver(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def machine(compiled, tmp_path):
    made = Machine(compiled, tmp_path / "machine")
    yield made
    made.log()  # what would have been undefined
    # What a process has open or allocated goes with it.
    assert made.opened() == [] and made.allocated() == []


@pytest.fixture
def repo(tmp_path):
    (tmp_path / "repo").mkdir()
    return tmp_path / "repo"


def ask(server, model, x, http=True):
    """What a model answers to a client, (values, where)."""
    kind = thttp if http else tgrpc
    with kind.InferenceServerClient(server.http if http else server.grpc) as client:
        tensor = kind.InferInput("X", list(x.shape), "INT32")
        tensor.set_data_from_numpy(x)
        got = client.infer(model, [tensor])
        return got.as_numpy("Y"), got.as_numpy("WHERE")[0].decode()


def copies(machine, server):
    """The copies since the last look: who made them (the server or a worker) and which."""
    who = {server.process.pid: "server"}
    return [f"{who.get(pid, 'worker')} {what}" for pid, what, _ in machine.log() if what in ("dtod", "dtoh", "htod")]


def unloaded(server, machine):
    """Unloads every model; nothing of a GPU is left then, in the server or a worker."""
    for entry in server.post("/v2/repository/index").json:
        assert server.post(f"/v2/repository/models/{entry['name']}/unload").status == 200
    assert until(lambda: machine.opened() == [] and machine.allocated() == []), (machine.opened(), machine.allocated())


EXPLICIT = ("--model-control-mode=explicit", "--load-model=*")
SIZES = [5, 50_000]
# Room for many workers that write.
POOL = f"--cuda-memory-pool-byte-size=0:{256 * MIB}"


@pytest.mark.parametrize("http", [True, False], ids=["http", "grpc"])
def test_models_in_a_row(machine, repo, http):
    write(repo, "twice", TWICE_THERE)
    write(repo, "more", ONE_MORE_THERE)
    write(repo, "here", ONE_MORE_HERE)
    write(repo, "host", ONE_MORE_HERE, force="")
    chain(repo, "row", "twice", "more", "here")
    chain(repo, "to_client", "twice", "more")
    chain(repo, "to_host", "twice", "host")
    with Server(repo, *EXPLICIT, env=machine.env) as s:
        for size in SIZES:
            x = np.arange(size, dtype=np.int32)
            for _ in range(3):
                machine.log()
                # A client's data lies on the host; what the first model makes of it, on the GPU to the end.
                values, where = ask(s, "row", x, http)
                np.testing.assert_array_equal(values, x * 2 + 2)
                assert where == "gpu0" and copies(machine, s) == ["worker dtod"] * 2
                # To a client the server copies it, once.
                values, where = ask(s, "to_client", x, http)
                np.testing.assert_array_equal(values, x * 2 + 1)
                assert where == "gpu0" and copies(machine, s) == ["worker dtod"] * 2 + ["server dtoh"]
                # So it does for a model that takes its inputs on the host, as all do by default.
                values, where = ask(s, "to_host", x, http)
                np.testing.assert_array_equal(values, x * 2 + 1)
                assert where == "host" and copies(machine, s) == ["worker dtod", "server dtoh"]
                values, where = ask(s, "twice", x, http)
                np.testing.assert_array_equal(values, x * 2)
                assert where == "host" and copies(machine, s) == ["worker dtod", "server dtoh"]
        unloaded(s, machine)


def test_models_that_call_each_other(machine, repo):
    write(repo, "more", ONE_MORE_THERE)
    write(repo, "host", ONE_MORE_HERE, force="yes")
    chain(repo, "row", "more", "more")
    for force in ("no", "yes"):
        for callee in ("more", "host", "row"):
            write(repo, f"{force}_gpu_{callee}", CALL.format(callee=callee, options='{"preferred_memory": GPU}'), force)
            write(repo, f"{force}_any_{callee}", CALL.format(callee=callee, options="{}"), force)
    with Server(repo, *EXPLICIT, POOL, env=machine.env) as s:
        for size in SIZES:
            x = np.arange(size, dtype=np.int32)
            for force in ("no", "yes"):

                def call(model, want, copied, x=x):
                    machine.log()
                    values, where = ask(s, model, x)
                    np.testing.assert_array_equal(values, x * 2 + (102 if model.endswith("row") else 101))
                    assert (where, copies(machine, s)) == (want, copied), model

                # The caller's input stays on the GPU, and so does the answer if the caller wants it there.
                call(f"{force}_gpu_more", "host gpu0 gpu0", ["worker dtod"] * 2)
                call(f"{force}_gpu_row", "host gpu0 gpu0", ["worker dtod"] * 3)
                call(f"{force}_any_more", "host gpu0 host", ["worker dtod"] * 2 + ["server dtoh"])
                call(f"{force}_gpu_host", "host host host", ["worker dtod", "server dtoh"])
                call(f"{force}_any_host", "host host host", ["worker dtod", "server dtoh"])
        unloaded(s, machine)


def test_an_answer_passed_on(machine, repo):
    """What a call has answered goes to the next call, as what the model itself has made does, without the host."""
    write(repo, "more", ONE_MORE_THERE)
    kept = """first, _ = self.call("more", place("X", x), preferred_memory=GPU)
tensor = pb_utils.Tensor.from_dlpack("X", first.to_dlpack())
if {again}:
    tensor, _ = self.call("more", tensor, preferred_memory=GPU)
    tensor = pb_utils.Tensor.from_dlpack("X", tensor.to_dlpack())
second, there = self.call("more", tensor, preferred_memory=GPU)
return self.reply(pb_utils.Tensor("Y", self.see(second)[0]), there.as_numpy()[0].decode())"""
    for again in (0, 1):
        write(repo, f"passes_{again}", kept.format(again=again))
    with Server(repo, *EXPLICIT, POOL, env=machine.env) as s:
        x = np.arange(50_000, dtype=np.int32)
        for again in (0, 1):
            machine.log()
            values, where = ask(s, f"passes_{again}", x)
            np.testing.assert_array_equal(values, x + 2 + again)
            # One copy for each tensor that leaves a worker: the caller's and the callee's, of each call.
            assert where == "gpu0" and copies(machine, s) == ["worker dtod"] * (4 + 2 * again)
        unloaded(s, machine)


@pytest.mark.parametrize(
    ("options", "env"),
    [
        (["--cuda-memory-pool-byte-size=0:0"], {}),
        (["--cuda-memory-pool-byte-size=0:1048576"], {}),  # too little for what is sent
        ([], {"fail": "cuMemAlloc_v2"}),
        ([], {"fail": "cuIpcGetMemHandle"}),
        ([], {"fail": "cuIpcOpenMemHandle_v2"}),
    ],
)
def test_without_a_pool_all_goes_by_the_host(machine, repo, options, env):
    write(repo, "twice", TWICE_THERE)
    write(repo, "here", ONE_MORE_HERE)
    write(repo, "call", CALL.format(callee="here", options='{"preferred_memory": GPU}'))
    chain(repo, "row", "twice", "here")
    if env:
        machine.fail(env["fail"], 2)
    with Server(repo, *EXPLICIT, *options, env=machine.env) as s:
        x = np.arange(600_000, dtype=np.int32)
        for _ in range(3):
            machine.log()
            values, where = ask(s, "row", x)
            np.testing.assert_array_equal(values, x * 2 + 1)
            assert where == "host" and copies(machine, s) == ["worker dtoh"]
            values, where = ask(s, "call", x)
            np.testing.assert_array_equal(values, x * 2 + 101)
            assert where == "host host host" and copies(machine, s) == ["worker dtoh"]
        unloaded(s, machine)


def test_a_reader_that_cannot_open_them(machine, repo):
    """Its request ends with the driver's reason; the next one is tried anew."""
    write(repo, "twice", TWICE_THERE)
    write(repo, "here", ONE_MORE_HERE)
    chain(repo, "row", "twice", "here")
    with Server(repo, *EXPLICIT, env=machine.env) as s:
        x = np.arange(5, dtype=np.int32)
        ask(s, "twice", x)  # it has opened what it writes to
        machine.fail("cuIpcOpenMemHandle_v2", 2)
        for http in (True, False):
            with pytest.raises(InferenceServerException) as failed:
                ask(s, "row", x, http)
            want = "Input 'X': Memory on a GPU cannot be opened: cuIpcOpenMemHandle_v2 failed: out of memory (CUDA error 2)"
            assert want in failed.value.message()
        machine.fail("cuIpcOpenMemHandle_v2", 0)
        values, where = ask(s, "row", x)
        assert values.tolist() == (x * 2 + 1).tolist() and where == "gpu0"
        unloaded(s, machine)


def test_where_nobody_takes_them_the_server_opens_no_driver(machine, repo):
    """A worker copies to the host, as it must; the server has no context on the GPU."""
    write(repo, "twice", TWICE_THERE, force="yes")
    write(repo, "here", ONE_MORE_HERE, force="")
    chain(repo, "row", "twice", "here")
    with Server(repo, *EXPLICIT, env=machine.env) as s:
        x = np.arange(50_000, dtype=np.int32)
        values, where = ask(s, "row", x)
        np.testing.assert_array_equal(values, x * 2 + 1)
        assert where == "host" and copies(machine, s) == ["worker dtoh"]
        with open(f"/proc/{s.process.pid}/maps") as maps:
            assert "libcuda" not in maps.read()


def test_a_machine_without_a_driver(repo):
    write(repo, "here", ONE_MORE_HERE, force="no")
    with Server(repo, env={"NESO_CUDA_DRIVER": "/nowhere/libcuda.so.1"}) as s:
        values, where = ask(s, "here", np.arange(5, dtype=np.int32))
        assert values.tolist() == [1, 2, 3, 4, 5] and where == "host"


def named(server, name):
    """The pid of the worker that shows this name, or None."""
    for pid in descendants(server.process.pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm") as comm:
            if comm.read().strip() == name and alive(pid):
                return pid
    return None


def worker(server, model):
    """The pid of the only worker of a model."""
    return named(server, f"{model}_0")


KEEP = """self.kept.append(request.inputs()[0])
return self.reply(pb_utils.Tensor("Y", x + 1), where)"""
LOOK = """if self.kept and x[0] < 0:
    self.kept.clear()
values, where = self.see(self.kept[0]) if self.kept else (x, "nothing")
return self.reply(pb_utils.Tensor("Y", values), where)"""


def test_a_worker_that_dies_while_others_read_what_it_wrote(machine, repo):
    write(repo, "twice", TWICE_THERE)
    # The same worker keeps an input and is asked again what is in it.
    write(repo, "keeper", "if where == 'host':\n    " + "\n    ".join(LOOK.splitlines()) + "\n" + KEEP)
    chain(repo, "row", "twice", "keeper")
    with Server(repo, *EXPLICIT, env=machine.env) as s:
        x = np.arange(50_000, dtype=np.int32)
        values, where = ask(s, "row", x)
        assert where == "gpu0"
        first = machine.allocated()
        dead = worker(s, "twice")
        os.kill(dead, signal.SIGKILL)
        assert until(lambda: not alive(dead))
        # What it wrote is there for whoever has it, and another worker takes its place with memory of its own.
        values, where = ask(s, "keeper", np.zeros(1, np.int32))
        np.testing.assert_array_equal(values, x * 2)
        assert where == "gpu0"

        def again():
            try:
                return ask(s, "row", x)[0].tolist() == (x * 2 + 1).tolist()
            except InferenceServerException:
                return False

        assert until(again)
        assert set(first) < set(machine.allocated())
        # The dead one's memory goes when the last reader has closed it.
        ask(s, "keeper", np.full(1, -1, np.int32))
        ask(s, "keeper", np.full(1, -1, np.int32))
        assert until(lambda: not set(first) & set(machine.allocated()))
        unloaded(s, machine)


def small_pool(machine, repo):
    """A server whose pool has room for four of the tensors that twice hands to keep."""
    write(repo, "twice", TWICE_THERE)
    write(repo, "keep", KEEP)
    chain(repo, "row", "twice", "keep")
    return Server(repo, *EXPLICIT, "--cuda-memory-pool-byte-size=0:8388608", env=machine.env)


def test_a_reader_that_dies(machine, repo):
    with small_pool(machine, repo) as s:
        x = np.arange(500_000, dtype=np.int32)
        for _ in range(3):
            for _ in range(4):  # as much as the pool has
                values, where = ask(s, "row", x)
                np.testing.assert_array_equal(values, x * 2 + 1)
                assert where == "gpu0"
            dead = worker(s, "keep")
            assert any(name.endswith(f"-{dead}") for name in machine.opened())
            os.kill(dead, signal.SIGKILL)
            assert until(lambda dead=dead: not alive(dead) and worker(s, "keep") is not None)
        unloaded(s, machine)


def test_a_full_pool_is_no_error(machine, repo):
    with small_pool(machine, repo) as s:
        x = np.arange(500_000, dtype=np.int32)
        seen = []
        for _ in range(8):
            values, where = ask(s, "row", x)
            np.testing.assert_array_equal(values, x * 2 + 1)
            seen.append(where)
        assert seen[:4] == ["gpu0"] * 4 and "host" in seen[4:]
        assert sum(os.path.getsize(machine.folder / name) for name in machine.allocated()) <= 8 * MIB
        unloaded(s, machine)


STREAM = """sender = request.get_response_sender()
def answer():
    for n in range(4):
        sender.send(self.reply(place("Y", x + n, n % 2), where))
    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
threading.Thread(target=answer).start()"""
READ_STREAM = """q = pb_utils.InferenceRequest(model_name="stream", inputs=[place("X", x)],
    requested_output_names=["Y", "WHERE"], preferred_memory=GPU)
found, places = [], []
for r in q.exec(decoupled=True):
    for tensor in r.output_tensors():
        if tensor.name() == "Y":
            values, at = self.see(tensor)
            found.append(int(values[-1]))
            places.append(at)
return self.reply(pb_utils.Tensor("Y", np.array(found, np.int32)), " ".join(places))"""


def test_decoupled_models(machine, repo):
    write(repo, "stream", STREAM, decoupled=True)
    write(repo, "read", READ_STREAM)
    with Server(repo, *EXPLICIT, env=machine.env) as s:
        for size in SIZES:
            x = np.arange(size, dtype=np.int32)
            machine.log()
            values, where = ask(s, "read", x)
            assert (values.tolist(), where) == ([size - 1, size, size + 1, size + 2], "gpu0 gpu1 gpu0 gpu1")
            assert copies(machine, s) == ["worker dtod"] * 5
            got, done = [], threading.Event()
            with tgrpc.InferenceServerClient(s.grpc) as client:

                def take(result, error, got=got, done=done):
                    got.append(error or result.as_numpy("Y"))
                    if error or len(got) == 4:
                        done.set()

                client.start_stream(take)
                tensor = tgrpc.InferInput("X", [size], "INT32")
                tensor.set_data_from_numpy(x)
                client.async_stream_infer("stream", [tensor])
                assert done.wait(120)
                client.stop_stream()
            for n, values in enumerate(got):
                np.testing.assert_array_equal(values, x + n)
            assert sorted(copies(machine, s)) == ["server dtoh"] * 4 + ["worker dtod"] * 4
        unloaded(s, machine)


def test_many_requests_at_once(machine, repo):
    """Many instances and callers; each block is one request's at a time, and the pool is not passed."""
    instances = "instance_group { count: 3 kind: KIND_CPU }\n"
    write(repo, "twice", TWICE_THERE, extra=instances)
    write(repo, "more", ONE_MORE_THERE, extra=instances)
    write(repo, "here", ONE_MORE_HERE, extra=instances)
    write(repo, "call", CALL.format(callee="more", options='{"preferred_memory": GPU}'), extra=instances)
    chain(repo, "row", "twice", "more", "here")
    with Server(repo, *EXPLICIT, POOL, env=machine.env) as s:

        def one(n):
            x = np.arange(n * 1000, n * 1000 + (7 if n % 3 else 60_000), dtype=np.int32)
            model, add = (("row", 2), ("call", 101))[n % 2]
            values, where = ask(s, model, x, n % 5 > 0)
            return np.array_equal(values, x * 2 + add) and where

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(one, range(120)))
        assert set(found) == {"gpu0", "host gpu0 gpu0"}
        assert not [entry for entry in machine.log() if entry[1] in ("dtoh", "htod")]
        unloaded(s, machine)


def test_batches(machine, repo):
    """Each request of a batch keeps its tensor where it lies, and its rows."""
    batching = "max_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 2000 }\n"
    write(repo, "twice", TWICE_THERE, extra=batching)
    write(repo, "here", ONE_MORE_HERE, extra=batching)
    chain(repo, "row", "twice", "here", batch=8)
    with Server(repo, *EXPLICIT, env=machine.env) as s:

        def one(n):
            x = np.arange(n, n + 3 * (n % 3 + 1), dtype=np.int32).reshape(n % 3 + 1, 3)
            with thttp.InferenceServerClient(s.http) as client:
                tensor = thttp.InferInput("X", list(x.shape), "INT32")
                tensor.set_data_from_numpy(x)
                return np.array_equal(client.infer("row", [tensor]).as_numpy("Y"), x * 2 + 1)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(one, range(80)))
        assert not [entry for entry in machine.log() if entry[1] in ("dtoh", "htod")]
        unloaded(s, machine)


def test_what_others_see_of_them(machine, repo, tmp_path):
    """The response cache, a trace and a client's shared memory have the bytes."""
    write(repo, "cached", TWICE_THERE, extra="response_cache { enable: true }\n")
    write(repo, "here", ONE_MORE_HERE)
    chain(repo, "row", "cached", "here")
    trace = tmp_path / "trace.json"
    options = ["--cache-config=local,size=1048576", "--trace-config=rate=1", "--trace-config=level=TENSORS"]
    with Server(repo, *EXPLICIT, *options, f"--trace-config=triton,file={trace}", env=machine.env) as s:
        x = np.arange(5, dtype=np.int32)
        for n in range(3):
            values, _ = ask(s, "row", x)
            np.testing.assert_array_equal(values, x * 2 + 1)
            values, where = ask(s, "cached", x)
            np.testing.assert_array_equal(values, x * 2)
            assert where == "host", n
        name, key = "neso-gpu-out", f"/neso-gpu-out-{os.getpid()}"
        region = shm.create_shared_memory_region(name, key, 20)
        try:
            with tgrpc.InferenceServerClient(s.grpc) as client:
                client.register_system_shared_memory(name, key, 20)
                tensor = tgrpc.InferInput("X", [5], "INT32")
                tensor.set_data_from_numpy(x + 1000)
                output = tgrpc.InferRequestedOutput("Y")
                output.set_shared_memory(name, 20)
                client.infer("cached", [tensor], outputs=[output])
                assert shm.get_contents_as_numpy(region, np.int32, [5]).tolist() == ((x + 1000) * 2).tolist()
                client.unregister_system_shared_memory(name)
        finally:
            shm.destroy_shared_memory_region(region)
        unloaded(s, machine)
    tensors = [e["tensor"] for e in json.loads(trace.read_text()) if e.get("activity") == "TENSOR_BACKEND_OUTPUT"]
    assert any(t["name"] == "Y" and t["data"] == "0,2,4,6,8" for t in tensors), tensors


def test_workers_that_die_under_load(machine, repo):
    """Every answer is right or says why it is none; no memory is freed under a reader, and none is left."""
    write(repo, "twice", TWICE_THERE, extra="instance_group { count: 2 kind: KIND_CPU }\n")
    write(repo, "more", ONE_MORE_THERE)
    write(repo, "here", ONE_MORE_HERE)
    write(repo, "call", CALL.format(callee="more", options='{"preferred_memory": GPU}'))
    chain(repo, "row", "twice", "more", "here")
    with Server(repo, *EXPLICIT, POOL, env=machine.env) as s:
        stop = threading.Event()
        answered = {"row": 0, "call": 0}

        def client(n):
            model, add = (("row", 2), ("call", 101))[n % 2]
            x = np.arange(n * 1000, n * 1000 + 30_000, dtype=np.int32)
            while not stop.is_set():
                try:
                    values, _ = ask(s, model, x)
                except InferenceServerException as error:
                    assert error.message(), error
                    continue
                np.testing.assert_array_equal(values, x * 2 + add)
                answered[model] += 1

        with ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(client, n) for n in range(4)]
            try:
                for name in ("twice_0_0", "more_0", "here_0", "call_0", "twice_0_1", "more_0"):
                    before = dict(answered)
                    assert until(lambda name=name: named(s, name)), name
                    kill(named(s, name))
                    # Both ways are open again.
                    assert until(lambda before=before: all(answered[m] > before[m] + 2 for m in before)), name
            finally:
                stop.set()
            for c in clients:
                c.result(60)
        unloaded(s, machine)


def test_the_server_stops_with_tensors_on_devices(machine, repo):
    write(repo, "twice", TWICE_THERE)
    write(repo, "keep", KEEP)
    chain(repo, "row", "twice", "keep")
    with Server(repo, env=machine.env) as s:
        ask(s, "row", np.arange(5, dtype=np.int32))
        assert len(machine.opened()) == 2 and len(machine.allocated()) == 1
    assert s.process.returncode == 0, s.log()[-3000:]


def test_a_server_that_is_killed(machine, repo):
    """Its workers end, and with them what they have open."""
    write(repo, "twice", TWICE_THERE)
    write(repo, "keep", KEEP)
    chain(repo, "row", "twice", "keep")
    with Server(repo, env=machine.env) as s:
        ask(s, "row", np.arange(5, dtype=np.int32))
        workers = descendants(s.process.pid)
        s.process.kill()
        s.process.wait(60)
        assert until(lambda: not any(map(alive, workers)))


def test_on_a_gpu(repo):
    """The same on a machine that has one, with its own driver."""
    if why := gpus.fault():
        pytest.skip(f"there is no GPU here: {why}")
    write(repo, "twice", TWICE_THERE)
    write(repo, "more", ONE_MORE_THERE)
    write(repo, "here", ONE_MORE_HERE)
    write(repo, "keep", KEEP)
    write(repo, "host", ONE_MORE_HERE, force="yes")
    write(repo, "call", CALL.format(callee="more", options='{"preferred_memory": GPU}'))
    chain(repo, "row", "twice", "more", "here")
    chain(repo, "to_host", "twice", "host")
    chain(repo, "to_keep", "twice", "keep")
    with Server(repo, *EXPLICIT) as s:
        for _ in range(20):
            for size in (5, 50_000, 1_000_000):
                x = np.arange(size, dtype=np.int32)
                for model, add, want in (
                    ("row", 2, "gpu0"), ("to_host", 1, "host"), ("call", 101, "host gpu0 gpu0"), ("twice", 0, "host"),
                ):  # fmt: skip
                    values, where = ask(s, model, x)
                    np.testing.assert_array_equal(values, x * 2 + add)
                    assert where == want, (model, size)
        # More than the pool has, of which a reader lets go of none until it dies.
        x = np.arange(2_000_000, dtype=np.int32)
        for _ in range(2):
            seen = [ask(s, "to_keep", x) for _ in range(10)]
            assert all(np.array_equal(values, x * 2 + 1) for values, _ in seen)
            assert [where for _, where in seen][:2] == ["gpu0"] * 2 and seen[-1][1] == "host"
            dead = worker(s, "keep")
            os.kill(dead, signal.SIGKILL)
            assert until(lambda dead=dead: not alive(dead) and worker(s, "keep") is not None)
    assert s.process.returncode == 0, s.log()[-3000:]
