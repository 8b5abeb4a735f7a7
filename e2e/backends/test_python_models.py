"""Python models: what may go wrong in a user's code, and what the server makes of it."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc as grpcio
import numpy as np
import pytest
from repository import Gate, Sent, X, answer, ensemble, place, python_model, until
from server import Server, alive, descendants, kill
from tritonclient import grpc, http
from tritonclient.grpc import service_pb2


def crash_model(repo, body, **kw):
    python_model(
        repo,
        "m",
        execute=f"x = float(pb_utils.get_input_tensor_by_name(requests[0], 'INPUT0').as_numpy()[0, 0])\n        {body}",
        **kw,
    )


def ask(value):
    return {"inputs": [{**X["inputs"][0], "data": [value]}]}


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ("import os; x < 0 and os._exit(3)", "exited with code 3"),
        ("import os; x < 0 and os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import ctypes; x < 0 and ctypes.string_at(0)", "SIGSEGV"),
        (
            "import sys; x < 0 and (print('last words', file=sys.stderr, flush=True), __import__('os')._exit(1))",
            "last words",
        ),
    ],
)
def test_death_is_named_and_survived(tmp_path, body, cause):
    crash_model(tmp_path, body)
    python_model(tmp_path, "other", add=1)
    with Server(tmp_path) as s:
        assert answer(s, "m") == 1
        r = s.infer("m", ask(-1))
        assert r.status == 500 and cause in r.error, r
        assert answer(s, "other") == 2
        assert until(lambda: s.infer("m", X).status == 200), s.infer("m", X)


def test_a_crash_loop_is_not_ready_and_says_why(tmp_path):
    crash_model(tmp_path, "import os; os._exit(7)")
    python_model(tmp_path, "other", add=1)
    with Server(tmp_path) as s:

        def entry():
            return next(m for m in s.post("/v2/repository/index").json if m["name"] == "m")

        # Each request ends a worker; the next one may be there before one looks.
        assert until(lambda: s.infer("m", X).status != 200 and s.get("/v2/models/m/ready").status == 400)
        assert until(lambda: s.infer("m", X).status != 200 and "exited with code 7" in entry().get("reason", "")), (
            entry()
        )
        assert s.get("/v2/models/other/ready").status == 200 and answer(s, "other") == 2


def test_what_a_crash_loop_never_began_may_come_again(tmp_path):
    """In the pauses of a crash loop, which grow: 503 and UNAVAILABLE with when and why. Starts are counted though
    none comes to anything."""
    flag = tmp_path / "broken"
    die = f"import os\n        if os.path.exists({str(flag)!r}): os._exit(7)"
    crash_model(tmp_path / "m", die, init=die)
    tensor = service_pb2.ModelInferRequest.InferInputTensor(name="INPUT0", datatype="FP32", shape=[1, 1])
    message = service_pb2.ModelInferRequest(model_name="m", inputs=[tensor], raw_input_contents=[b"\0\0\0\0"])
    with Server(tmp_path / "m") as s, grpcio.insecure_channel(s.grpc) as channel:

        def starts():
            return float(re.search(r'^neso_worker_restarts_total{model="m".*} (\S+)$', s.metrics(), re.M)[1])

        assert answer(s, "m") == 1 and starts() == 0
        flag.touch()
        assert s.infer("m", X).status == 500
        seen = []
        assert until(lambda: seen.append(s.infer("m", X)) or seen[-1].status == 503), seen
        assert int(seen[-1].headers["retry-after"]) >= 1 and "exited with code 7" in seen[-1].error, seen[-1]
        assert {r.status for r in seen[:-1]} <= {500}

        def call():
            try:
                channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(message.SerializeToString())
            except grpcio.RpcError as e:
                seen.append(e)
                return e.code() == grpcio.StatusCode.UNAVAILABLE

        assert until(call), seen
        assert "exited with code 7" in seen[-1].details()
        assert int(dict(seen[-1].trailing_metadata())["grpc-retry-pushback-ms"]) >= 100
        before = starts()
        assert before >= 4 and until(lambda: starts() > before)
        flag.unlink()
        assert until(lambda: s.infer("m", X).status == 200)


def test_an_instance_in_a_crash_loop_leaves_the_requests_to_the_other(tmp_path):
    """It would refuse at once what the other one answers a little later; without the other it refuses."""
    repo, broken = tmp_path / "repo", [tmp_path / "broken 0", tmp_path / "broken 1"]
    die = "import os\n        if os.path.exists(self.broken): os._exit(7)"
    which = f"self.broken = {[str(b) for b in broken]!r}[args['model_instance_name'].endswith('_1')]"
    group = "instance_group { kind: KIND_CPU count: 2 }"
    python_model(repo, "m", init=f"{which}\n        {die}", execute=f"{die}\n        time.sleep(0.01)", extra=group)
    with Server(repo) as s, ThreadPoolExecutor(8) as clients:

        def asked(n):
            return list(clients.map(lambda _: s.infer("m", X).status, range(n)))

        def starts():
            return float(re.search(r'^neso_worker_restarts_total{model="m".*} (\S+)$', s.metrics(), re.M)[1])

        assert asked(16) == [200] * 16
        broken[1].touch()
        assert until(lambda: asked(16) and starts() >= 6)
        assert asked(64) == [200] * 64
        broken[0].touch()
        assert until(lambda: 503 in asked(16)), s.log()
        for b in broken:
            b.unlink()
        assert until(lambda: asked(16) == [200] * 16), s.log()


def test_exceptions(tmp_path):
    crash_model(tmp_path, "if x < 0: raise ValueError('below zero: %g' % x)")
    with Server(tmp_path) as s:
        r = s.infer("m", ask(-2))
        assert r.status == 500 and r.error.startswith(
            "Failed to process the request(s) for model 'm_0', message: ValueError: below zero: -2"
        ), r
        assert "model.py" in r.error and "execute" in r.error
        assert until(lambda: "Traceback" in s.log() and "below zero: -2" in s.log())
        assert answer(s, "m") == 1
        assert 'nv_inference_request_failure{model="m",reason="BACKEND",version="1"} 1' in s.metrics()
        # The model has run twice, though once in vain.
        assert until(lambda: 'nv_inference_exec_count{model="m",version="1"} 2' in s.metrics())

        def batches():
            return s.get("/v2/models/m/stats").json["model_stats"][0]["batch_stats"]

        assert until(lambda: batches()[0]["compute_infer"]["count"] == 2), batches()


@pytest.mark.parametrize("protocol", [http, grpc])
def test_inputs_keep_the_order_of_the_client(tmp_path, protocol):
    """As in Triton; a bound callable has the declared one."""
    config = 'backend: "python"\n' + "".join(
        f'input {{ name: "{n}" data_type: TYPE_INT32 dims: [ 1 ] }}\n' for n in "ABC"
    )
    config += 'output { name: "OUT" data_type: TYPE_STRING dims: [ 1 ] }\n'
    code = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        names = ["".join(t.name() for t in r.inputs()) for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([n.encode()], object))]) for n in names]
"""
    place(tmp_path / "m", {"config.pbtxt": config, "1/model.py": code})
    with Server(tmp_path) as s, protocol.InferenceServerClient(s.http if protocol is http else s.grpc) as client:
        for order in ("ABC", "CAB", "BCA"):
            tensors = [protocol.InferInput(name, [1], "INT32") for name in order]
            for t in tensors:
                t.set_data_from_numpy(np.zeros(1, np.int32))
            assert client.infer("m", tensors).as_numpy("OUT")[0].decode() == order


@pytest.mark.parametrize("form", ["default", "ISO8601", "json"])
def test_tracebacks_can_be_read(tmp_path, form):
    """Below their line, indented, so that a model cannot write a line of the log; in JSON within the object, which is one line."""
    crash_model(tmp_path, "raise ValueError('first\\nI1122 05:27:49.123456 1 forged.go:1] second\\x1b[2J')")
    with Server(tmp_path, f"--log-format={form}", "--exit-on-error=false") as s:
        assert s.infer("m", X).status == 500
        assert until(lambda: s.log().count("second") >= 3), s.log()  # the error, the line of the source, the last line
        lines = s.log().splitlines()
        (at,) = [i for i, line in enumerate(lines) if "failed to execute a batch" in line]
        if form == "json":
            trace = json.loads(lines[at])["traceback"]
            assert trace.startswith("Traceback") and "forged.go:1] second\x1b[2J" in trace
            assert all(line.startswith("{") for line in lines[at:])
            return
        below = [line for line in lines[at + 1 :] if line.startswith("    ")]
        assert below[0] == "    Traceback (most recent call last):", below
        assert any(line.startswith('      File "') and line.endswith(", in execute") for line in below), below
        assert below[-2:] == [
            "    ValueError: first",
            "    I1122 05:27:49.123456 1 forged.go:1] second\\u001B[2J",
        ]
        assert not [line for line in lines if line.startswith("I1122 05:27:49")] and "\x1b" not in s.log()


def test_errors_per_request(tmp_path):
    python_model(
        tmp_path,
        "m",
        execute="if pb_utils.get_input_tensor_by_name(requests[0], 'INPUT0').as_numpy()[0, 0] < 0: "
        "return [pb_utils.InferenceResponse(error=pb_utils.TritonError('not here', pb_utils.TritonError.NOT_FOUND))]",
    )
    with Server(tmp_path) as s:
        r = s.infer("m", ask(-1))
        assert (r.status, r.error) == (404, "not here")


WRONG = {
    "none": ("return None", "'NoneType'"),
    "tuple": ("return ()", "Expected a list in the execute return, found type '<class 'tuple'>'."),
    "too few": ("return []", "Number of InferenceResponse objects do not match the number of InferenceRequest objects"),
    "not a response": ("return [3]", "InferenceResponse"),
    "datatype": (
        "import numpy as np; return [pb_utils.InferenceResponse([pb_utils.Tensor('OUTPUT0', np.ones((1, 1), np.int64))])]",
        "INT64",
    ),
    "rank": (
        "import numpy as np; return [pb_utils.InferenceResponse([pb_utils.Tensor('OUTPUT0', np.ones((3,), np.float32))])]",
        "[3]",
    ),
    "missing": ("return [pb_utils.InferenceResponse([])]", "OUTPUT0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_return_values(tmp_path, case):
    body, text = WRONG[case]
    python_model(tmp_path, "m", execute=body)
    with Server(tmp_path, "--strict-outputs=true") as s:
        r = s.infer("m", X)
        assert r.status == 500 and text in r.error, r


STRICT = 'parameters { key: "strict_outputs" value { string_value: "true" } }\n'


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [((), ""), (("--unchecked-outputs=true",), ""), (("--strict-outputs=true",), ""), ((), STRICT)],
)
def test_outputs_that_differ_from_the_configuration(tmp_path, arguments, extra):
    """dims [ -1, -1 ] and FP32, but the model answers with one dimension and FP64: as it is, also from the response cache, unless
    it is to be strict. An ensemble adds the dimension that its own configuration has, as to any step's."""
    strict = "--strict-outputs=true" in arguments or bool(extra)
    python_model(tmp_path, "m", extra="response_cache { enable: true }\n" + extra)
    model = tmp_path / "m" / "1" / "model.py"
    model.write_text(model.read_text().replace("as_numpy() + 0", "as_numpy().reshape(-1).astype('f8')"))
    ensemble(tmp_path, "e", "m")
    with Server(tmp_path, *arguments, "--cache-config=local,size=1048576") as s:
        for name, shape in (("m", [1]), ("m", [1]), ("e", [1, 1])):
            r = s.infer(name, X)
            if not strict:
                assert r.status == 200 and r.json["outputs"] == [
                    {"name": "OUTPUT0", "datatype": "FP64", "shape": shape, "data": [1.0]}
                ], r
            else:
                assert r.status == 500 and r.error.endswith(
                    "output 'OUTPUT0' of model 'm' has datatype FP64 and shape [1], expected FP32 and [-1,-1]"
                ), r
        hits = s.get("/v2/models/m/stats").json["model_stats"][0]["inference_stats"]["cache_hit"]["count"]
        assert int(hits) == (0 if strict else 2)
        assert s.log().count("output is not as configured") == (0 if strict else 2)  # m's and e's
        assert ("without --strict-outputs" in s.log()) == strict
        assert ("option has no effect" in s.log()) == ("--unchecked-outputs=true" in arguments)
        told = [line for line in s.metrics().splitlines() if line.startswith('neso_output_mismatches_total{model="m"')]
        assert told == ([] if strict else ['neso_output_mismatches_total{model="m",output="OUTPUT0",version="1"} 1'])


def test_missing_and_further_outputs(tmp_path):
    """A model may leave out what the client has asked for by name, and answer with what nobody knows: 200 with the rest."""
    python_model(tmp_path, "m")
    model = tmp_path / "m" / "1" / "model.py"
    model.write_text(model.read_text().replace('pb_utils.Tensor("OUTPUT0"', 'pb_utils.Tensor("OTHER"'))
    assert "OTHER" in model.read_text()
    with Server(tmp_path) as s:
        for body in (X, {**X, "outputs": [{"name": "OUTPUT0"}]}):
            r = s.infer("m", body)
            assert r.status == 200 and r.json["outputs"] == [], r
        assert s.log().count("model 'm' returned no output 'OUTPUT0'") == 1


def test_out_of_memory(tmp_path):
    crash_model(
        tmp_path,
        "x < 0 and bytearray(1 << 40)",
        init="import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))",
    )
    with Server(tmp_path) as s:
        r = s.infer("m", ask(-1))
        assert r.status == 500 and "MemoryError" in r.error, r
        assert answer(s, "m") == 1


def test_async_execute(tmp_path):
    python_model(tmp_path, "m")
    path = tmp_path / "m" / "1" / "model.py"
    path.write_text(
        "import asyncio\n"
        + path.read_text()
        .replace("    def execute", "    async def execute")
        .replace("        pass\n        results = [", "        await asyncio.sleep(0.001)\n        results = [")
    )
    assert "async def execute" in path.read_text() and "await" in path.read_text()
    with Server(tmp_path) as s:
        assert answer(s, "m") == 1


@pytest.mark.parametrize("zygote", ["1", "0"])
def test_the_command_line_is_empty(tmp_path, zygote):
    """As in Triton: what parses it in a model, such as unittest.main, does not find the worker's own options."""
    parse = "import argparse, sys; assert sys.argv == ['']; argparse.ArgumentParser().parse_args()"
    python_model(tmp_path, "m", init=parse, execute=parse)
    with Server(tmp_path, env={"NESO_PYTHON_ZYGOTE": zygote}) as s:
        assert answer(s, "m") == 1


def test_prints_and_logger(tmp_path):
    python_model(
        tmp_path,
        "m",
        init="print('hello from initialize')",
        execute="pb_utils.Logger.log_warn('careful now'); import sys; print('on stderr', file=sys.stderr)",
    )
    with Server(tmp_path) as s:
        answer(s, "m")
        assert until(lambda: all(t in s.log() for t in ("hello from initialize", "careful now", "on stderr")))
        lines = s.log().splitlines()
        assert "model=m" in next(x for x in lines if "hello from initialize" in x)
        warning = next(x for x in lines if "careful now" in x)
        assert warning.startswith("W") and "model.py:" in warning


def test_auto_complete_and_helper_modules(tmp_path):
    d = tmp_path / "auto" / "1"
    d.mkdir(parents=True)
    (d / "helper.py").write_text("def triple(x):\n    return x * 3\n")
    (d / "model.py").write_text(
        "import triton_python_backend_utils as pb_utils\n"
        "from helper import triple\n\n\n"
        "class TritonPythonModel:\n"
        "    @staticmethod\n"
        "    def auto_complete_config(config):\n"
        "        config.set_max_batch_size(4)\n"
        "        config.add_input({'name': 'INPUT0', 'data_type': 'TYPE_FP32', 'dims': [-1]})\n"
        "        config.add_output({'name': 'OUTPUT0', 'data_type': 'TYPE_FP32', 'dims': [-1]})\n"
        "        config.set_dynamic_batching()\n"
        "        return config\n\n"
        "    def execute(self, requests):\n"
        "        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUTPUT0', "
        "triple(pb_utils.get_input_tensor_by_name(r, 'INPUT0').as_numpy()))]) for r in requests]\n"
    )
    with Server(tmp_path) as s:
        config = s.get("/v2/models/auto/config").json
        assert (
            config["backend"] == "python"
            and config["max_batch_size"] == 4
            and config["dynamic_batching"]["preferred_batch_size"] == [4]
        )
        assert answer(s, "auto") == 3


def test_environments(tmp_path):
    """A venv, an interpreter, and a conda-pack archive as EXECUTION_ENV_PATH."""
    import subprocess
    import sys
    import tarfile

    python_model(
        tmp_path,
        "interpreter",
        add="__import__('sys').version_info[0]",
        extra=f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{sys.executable}" }} }}',
    )
    env = tmp_path / "env"
    subprocess.run(
        [sys.executable, "-m", "venv", "--copies", "--system-site-packages", "--without-pip", env], check=True
    )
    site = subprocess.run(
        [env / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    parent = subprocess.run(
        [sys.executable, "-c", "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with open(os.path.join(site, "numpy.pth"), "w") as f:
        f.write(parent + "\n")
    with open(os.path.join(site, "only_here.py"), "w") as f:
        f.write("VALUE = 5\n")
    repo = tmp_path / "repo"
    python_model(
        repo,
        "venv",
        add="__import__('only_here').VALUE",
        extra=f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{env}" }} }}',
    )
    python_model(
        repo,
        "packed",
        add="__import__('only_here').VALUE",
        extra='parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }',
    )
    with tarfile.open(repo / "packed" / "env.tar.gz", "w:gz") as tar:
        tar.add(env, arcname=".")
    (tmp_path / "interpreter").rename(repo / "interpreter")
    with Server(repo) as s:
        assert answer(s, "interpreter") == 4 and answer(s, "venv") == 6 and answer(s, "packed") == 6


def test_hang_at_start(tmp_path):
    python_model(tmp_path, "m", init="time.sleep(120)")
    with Server(
        tmp_path, "--model-control-mode=explicit", "--backend-config=python,stub-timeout-seconds=2", wait=False
    ) as s:
        assert until(lambda: _live(s))
        done = threading.Event()

        def load():
            s.post("/v2/repository/models/m/load", timeout=60)
            done.set()

        t = threading.Thread(target=load, daemon=True)
        t.start()
        assert until(lambda: "loading: m:1" in s.log())
        assert s.get("/v2/health/live").status == 200  # the rest of the server does not wait
        workers = descendants(s.process.pid)
        assert s.stop() in (0, 1)
        assert until(lambda: not any(map(alive, workers)))


def _live(s):
    try:
        return s.get("/v2/health/live").status == 200
    except OSError:
        return False


def test_instances_run_at_once(tmp_path):
    """Each of them waits until all have begun."""
    gate = Gate(tmp_path)
    python_model(tmp_path / "models", "m", execute=gate.execute, extra="instance_group { count: 4 }")
    with Server(tmp_path / "models") as s:
        sent = [Sent(s, "m") for _ in range(4)]
        gate.come(4)
        gate.open()
        assert [r.status() for r in sent] == [200] * 4


def test_interrupt_from_the_terminal_drains(tmp_path):
    """Ctrl-C reaches the whole process group: workers must not die before the server has drained them."""
    gate = Gate(tmp_path)
    python_model(tmp_path / "models", "m", execute=gate.execute)
    with Server(tmp_path / "models") as s:
        request = Sent(s, "m")
        gate.come()
        for pid in [*descendants(s.process.pid), s.process.pid]:
            kill(pid, signal.SIGINT)
        assert until(lambda: s.get("/v2/health/live").status == 503)
        gate.open()
        assert request.status() == 200 and s.process.wait(60) == 0, s.log()
