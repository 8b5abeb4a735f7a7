"""Scenarios of the C interfaces: the server in a C program, and backend libraries, under both servers the same binary."""

import json
import os
import pathlib
import shutil
import subprocess

import measure
import procstat
import program
from load import LoadError, Sample
from scenarios import MIB_FLOATS, Scenario
from verdicts import judge, median_of, no_errors, relative, sides_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "bench" / "programs"
WORK = ROOT / "build" / "bench" / "native"
BACKENDS = WORK / "a" / "b" / "c"  # NVIDIA's backend looks for its libraries four folders up from its own
LIBRARY = ROOT / "build" / "lib"

NOOP, ADD_SUB = "in process, no-op 64 B, one thread", "in process, Python add/sub, one thread"
IN_PROCESS = [
    Scenario(NOOP, "inprocess", 1, "noop", "native_identity", 16, repository="inprocess"),
    Scenario(ADD_SUB, "inprocess", 1, "py_add_sub", "py_add_sub", 16, repository="inprocess"),
]


def _http(name, connections, model, elements):
    repository = model.split("_")[0]
    return Scenario(f"{name}, HTTP, c{connections}", "http", connections, model, model, elements, repository=repository)


LIBRARIES = [
    *(_http("native identity 64 B", c, "native_identity", 16) for c in (8, 32)),
    *(_http("native identity 1 MiB", c, "native_identity", MIB_FLOATS) for c in (8, 32)),
    *(_http("NVIDIA's Python backend, add/sub", c, "nvidia_add_sub", 16) for c in (1, 8, 32)),
]
NATIVE = IN_PROCESS + LIBRARIES
FLAGS = {name: [f"--backend-directory={BACKENDS}"] for name in ("native", "nvidia")}

IO = 'max_batch_size: 0\ninput [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]\n' \
     'output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]\n' \
     'instance_group [ { kind: KIND_CPU count: 1 } ]\n'  # fmt: skip


def generate(generated, models, peer):
    """The repositories, the backend directory with both libraries, and the C program."""
    for repository in ("inprocess", "native"):
        shutil.rmtree(generated / repository, ignore_errors=True)
        version = generated / repository / "native_identity" / "1"
        version.mkdir(parents=True)
        (version.parent / "config.pbtxt").write_text('backend: "native_identity"\n' + IO)
    shutil.copytree(models / "python" / "py_add_sub", generated / "inprocess" / "py_add_sub")
    shutil.copytree(models / "noop" / "noop", generated / "inprocess" / "noop")
    shutil.rmtree(generated / "nvidia", ignore_errors=True)
    folder = shutil.copytree(models / "python" / "py_add_sub", generated / "nvidia" / "nvidia_add_sub")
    config = (folder / "config.pbtxt").read_text()
    (folder / "config.pbtxt").write_text(
        config.replace('backend: "python"', 'backend: "python"\nruntime: "libtriton_python.so"')
    )
    shutil.rmtree(WORK, ignore_errors=True)
    library = BACKENDS / "native_identity" / "libtriton_native_identity.so"
    library.parent.mkdir(parents=True)
    c = ["cc", "-O2", "-Wall", "-Wextra", f"-I{ROOT / 'include'}"]
    subprocess.run([*c, "-shared", "-fPIC", PROGRAMS / "native_identity.c", "-o", library], check=True)
    subprocess.run(
        [*c, PROGRAMS / "inprocess.c", "-o", WORK / "inprocess", f"-L{LIBRARY}", "-ltritonserver", "-pthread"],
        check=True,
    )
    if peer:
        peer.backends(BACKENDS)
        (WORK / "nvidia_pytriton.libs").symlink_to(peer.libraries)
        (WORK / "peer").mkdir()
        (WORK / "peer" / "libtritonserver.so").symlink_to(peer.libraries / "libtritonserver-717102f0.so")


def environment(side, base, peer):
    """What NVIDIA's backend needs: its own interpreter and libraries, under either server."""
    found = peer.environment(base) if peer else dict(base)
    if side == "neso":
        found["NESO_HOST"] = os.environ.get("NESO_HOST") or str(LIBRARY / "neso-host")
    return found


class Runner(program.Runner):
    """A C program with the server in it."""

    def __init__(self, scenario, side, base, generated, peer):
        self.scenario, self.base = scenario, base
        self.side = measure.Side(scenario.neso if side == "neso" else scenario.peer)
        inputs = ["INPUT0", "INPUT1"] if self.side.model == "py_add_sub" else ["INPUT0"]
        # Neso's library has its own Python backend, the peer's the one of NVIDIA's.
        backends = BACKENDS if side == "peer" else WORK / "none"
        command = [WORK / "inprocess", generated / "inprocess", backends, self.side.model, scenario.elements, *inputs]
        self.side.command = [str(part) for part in command]
        self.environment = environment(side, base, peer) if side == "peer" else dict(base)
        folder = LIBRARY if side == "neso" else WORK / "peer"
        self.environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            filter(None, [str(folder), self.environment.get("LD_LIBRARY_PATH", "")])
        )
        self.log = WORK / f"inprocess-{side}.log"

    def cpu_seconds(self):
        return procstat.cpu_ticks(procstat.tree(self.process.pid)) * procstat.TICK_SECONDS

    def check(self):
        """The program checks every answer; here it is started."""
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                self.side.command,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def warm_up(self):
        self.generate(1)

    def generate(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            if line.startswith("{"):  # a library may write to stdout, too
                r = json.loads(line)
                return Sample(r["requests"], r["seconds"], r["p50"], r["p99"], r["most"], 0)
        words = self.log.read_text(errors="replace").strip().splitlines()
        raise LoadError(f"the program ended: {words[-1][:200] if words else 'no words'}")


def goals(results):
    neso, _ = sides_of(results, NOOP)
    rate = median_of(neso, "rps")
    yield judge(
        f"{NOOP}: at most 6 µs a request",
        1e6 / rate if rate else None,
        6,
        "{:.2f} µs",
        failure=(neso or {}).get("failure", ""),
    )
    yield relative(results, NOOP, "rps", 1.5, "at least 1.5 times as fast as the peer's library with a C backend")
    yield relative(results, ADD_SUB, "p50_us", 0.5, "at most half of the p50", at_most=True)
    for s in LIBRARIES:
        times = 1 if s.neso == "nvidia_add_sub" else 2 if s.elements == MIB_FLOATS else 1.5
        yield relative(
            results, s.name, "rps", times, f"at least {times} times the requests/s" if times > 1 else "not slower"
        )
        yield no_errors(results, s.name)
