"""What of Neso works for Windows under Wine: the program, a server with models, the Go tests. See scripts/windows.sh."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "operate" / "windows.md"
MARK = "<!-- what scripts/windows.sh found -->"  # in the page; what follows it is written anew
DOES_NOT_COMPILE = "does not compile"
CONFIG = """backend: "%s"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
DOUBLE = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "INPUT0").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", 2 * x)]) for x in inputs]
"""
# Asks the model double, and so sends what it was given to another model's worker.
CALLS = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "INPUT0")
            asked = pb_utils.InferenceRequest(model_name="double", inputs=[x], requested_output_names=["OUTPUT0"])
            answer = asked.exec()
            if answer.has_error():
                raise pb_utils.TritonModelException(answer.error().message())
            y = pb_utils.get_output_tensor_by_name(answer, "OUTPUT0").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", y + 1)]))
        return answers
"""
# Ends itself at a negative number, having started something that would go on.
DIES = DOUBLE.replace("import triton", "import os, subprocess, sys\nimport triton").replace(
    "        return [", """        if inputs[0].flat[0] < 0:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            print("last words", flush=True)
            os._exit(7)
        return [""")  # fmt: skip
MODELS = {"same": ("identity", ""), "double": ("python", DOUBLE), "calls": ("python", CALLS), "dies": ("python", DIES)}
# A program that binds a callable: large tensors go by sections, the server is its child.
BOUND = """import json, os, sys, urllib.request
import numpy as np
from neso import ModelConfig, Tensor, Triton, TritonConfig, batch

@batch
def twice(x):
    return {"y": 2 * x}

config = TritonConfig(http_port=int(sys.argv[1]), http_address="127.0.0.1", allow_grpc=False, allow_metrics=False)
with Triton(config=config) as triton:
    triton.bind("twice", twice, [Tensor(name="x", dtype=np.float32, shape=(-1,))], [Tensor(name="y", dtype=np.float32, shape=(-1,))],
                config=ModelConfig(max_batch_size=4))
    triton.run()
    x = np.arange(100_000, dtype=np.float32)[None]
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 100_000], "datatype": "FP32", "data": x[0].tolist()}]}).encode()
    url = f"http://127.0.0.1:{sys.argv[1]}/v2/models/twice/infer"
    y = json.load(urllib.request.urlopen(urllib.request.Request(url, body), timeout=60))["outputs"][0]["data"]
    print("right" if y == (2 * x[0]).tolist() else y[:3], flush=True)
    if len(sys.argv) > 2:
        os._exit(5)
"""
TEST_TIMEOUT = 400  # seconds of one package, on a machine that does other work too
# Packages whose tests make no sense here, each with why.
EXCLUDED = {
    "internal/repotest": "the rules of the source tree, which need no second system",
    "internal/procfs": "reads /proc",
    "backend/fil": "needs treelite for Windows, which the Python here has not",
    "backend/onnxruntime": "needs ONNX Runtime for Windows, which the Python here has not",
    "backend/openvino": "needs OpenVINO for Windows, which the Python here has not",
    "internal/shm": "shared memory of clients, which is of Unix",
    "internal/cli/systemd": "speaks with systemd",
    "bench/sequences": "a tool of the benchmarks, which run on Linux",
}


def windows(path) -> str:
    """A path as Windows' programs see it: Wine shows the file system as the drive Z."""
    return "Z:" + str(path).replace("/", "\\")


def run(command, timeout=120, **kw):
    """What a program printed, and its status; None for one that did not end."""
    try:
        done = subprocess.run(["wine", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=timeout, stdin=subprocess.DEVNULL, **kw)  # fmt: skip
    except subprocess.TimeoutExpired as e:
        return (e.stdout or b"").decode(errors="replace"), None
    return done.stdout, done.returncode


def ports(count):
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    numbers = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return numbers


def ask(url, body=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
    except OSError as e:
        return 0, str(e).encode()


class Server:
    def __init__(self, program, python, directory: Path):
        for name, (backend, code) in MODELS.items():
            (directory / "models" / name / "1").mkdir(parents=True)
            (directory / "models" / name / "config.pbtxt").write_text(CONFIG % backend)
            if code:
                (directory / "models" / name / "1" / "model.py").write_text(code)
        self.http, grpc, metrics = ports(3)
        self.log = directory / "log"
        command = [
            "wine", program, "serve", "--model-repository=" + windows(directory / "models"), "--exit-on-error=false",
            "--strict-readiness=false", f"--http-port={self.http}", f"--grpc-port={grpc}", f"--metrics-port={metrics}",
            *[f"--{name}-address=127.0.0.1" for name in ("http", "grpc", "metrics")],
        ]  # fmt: skip
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "NESO_PYTHON": windows(python)},
            )

    def url(self, path):
        return f"http://127.0.0.1:{self.http}{path}"

    def ready(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if ask(self.url("/v2/health/ready"))[0] == 200:
                return True
            time.sleep(0.2)
        return False

    def eventually(self, model, *data):
        """The answer of a model whose worker has to be started again."""
        end = time.monotonic() + 60
        while True:
            answer = self.infer(model, *data)
            if isinstance(answer, list) or time.monotonic() > end:
                return answer
            time.sleep(0.2)

    def kill(self):
        """Ends the server as the system does, at once: what was started is wine's own, and the program a child of it."""
        subprocess.run(
            ["wine", "taskkill", "/F", "/IM", "neso.exe"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )
        self.process.kill()
        self.process.wait(60)

    def infer(self, model, *data):
        body = {"inputs": [{"name": "INPUT0", "shape": [1, len(data)], "datatype": "FP32", "data": data}]}
        status, answer = ask(self.url(f"/v2/models/{model}/infer"), json.dumps(body).encode())
        return json.loads(answer)["outputs"][0]["data"] if status == 200 else answer.decode()[:300]


def served(top: Path) -> list[tuple[str, str]]:
    """The program, and a server: what was tried, and what came of it."""
    program, python = top / "neso.exe", top / "python" / "python.exe"
    rows = []

    def row(what, good, otherwise):
        rows.append((what, "works" if good else "fails: " + " ".join(str(otherwise).split())[-200:]))
        print(*rows[-1], sep=": ", flush=True)

    text, status = run([python, "-c", "import sys; print(sys.platform, sys.version)"])
    row("Windows' Python 3.11", status == 0 and "win32" in text, text)
    text, status = run([python, "-c", "import numpy; print(numpy.arange(3).sum())"])
    row("numpy 1.26 in it", status == 0, next((line for line in text.splitlines() if "nimplemented" in line), text))
    text, status = run([program, "version"])
    row("`neso version`", status == 0, text)
    text, status = run([program, "doctor"], env={**os.environ, "NESO_PYTHON": windows(python)})
    row("`neso doctor`", status in (0, 1) and "ok    port" in text, text)
    (top / "doctor.txt").write_text(text)
    with tempfile.TemporaryDirectory() as directory:
        server = Server(program, python, Path(directory))
        try:
            row("`neso serve`: ready over HTTP", server.ready(120), server.log.read_text()[-300:])
            answer = server.infer("same", 1, 2, 3)
            row("a built-in backend answers", answer == [1, 2, 3], answer)
            answer = server.infer("double", 1, 2, 3)
            why = next(
                (line for line in server.log.read_text().splitlines() if "failed to load 'double'" in line), answer
            )
            row("a Python model in a worker answers", answer == [2, 4, 6], why)
            large = list(range(200_000))
            answer = server.infer("double", *large)
            row("large tensors, by sections", answer == [2 * x for x in large], str(answer)[:200])
            answer = server.infer("calls", *large)
            row("a model calls another one", answer == [2 * x + 1 for x in large], str(answer)[:200])
            before = processes(python)
            row("each Python model has a worker", before == 3, f"{before} processes")
            answer = str(server.infer("dies", -1))
            row(
                "a worker that dies: the request says of what",
                "exited with code 7" in answer and "last words" in answer,
                answer,
            )
            answer = server.eventually("dies", 5)
            row("a worker that dies: the next one answers", answer == [10], answer)
            row(
                "a worker that dies: what it has started ends",
                processes(python) == before,
                f"{before} were, {processes(python)} are",
            )
        finally:
            (top / "serve.txt").write_text(server.log.read_text())
            server.kill()
        row("a server that is killed: its workers end", none_left(python), f"{processes(python)} are left")
        (Path(directory) / "bound.py").write_text(BOUND)
        text, status = run([python, windows(Path(directory) / "bound.py"), *map(str, ports(1))],
                           env={**os.environ, "PYTHONPATH": windows(ROOT / "python"), "NESO_BINARY": windows(program)})  # fmt: skip
        (top / "bound.txt").write_text(text)
        row("a bound callable, whose server is a child", status == 0 and "right" in text.splitlines(), text)
        text, status = run([python, windows(Path(directory) / "bound.py"), *map(str, ports(1)), "die"],
                           env={**os.environ, "PYTHONPATH": windows(ROOT / "python"), "NESO_BINARY": windows(program)})  # fmt: skip
        row("a program that binds and dies: its server ends", status == 5 and none_left(program), f"{status}: {text}")
    subprocess.run(["wineserver", "-k"], timeout=60, check=False)
    return rows


def processes(program: Path) -> int:
    """How many processes of a program there are: Wine's are processes of the system, whose command line begins so."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += windows(program).encode() in (entry / "cmdline").read_bytes().split(b"\0", 1)[0]
            except OSError:  # it has ended
                pass
    return found


def none_left(program: Path) -> bool:
    end = time.monotonic() + 30
    while processes(program) and time.monotonic() < end:
        time.sleep(0.1)
    return not processes(program)


def packages(wanted: list[str]) -> list[str]:
    form = "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}"
    environment = {**os.environ, "GOOS": "windows", "CGO_ENABLED": "0"}
    return go("list", "-tags", "grpcnotrace", "-f", form, *(wanted or ["./..."]), env=environment).split()


def overlay(top: Path) -> list[str]:
    """Has the tests' os.RemoveAll do under Wine 8 what it does on an old Windows: it does not know what Wine says to the new way."""
    source = Path(go("env", "GOROOT").strip()) / "src" / "internal" / "syscall" / "windows" / "at_windows.go"
    known = "case STATUS_INVALID_INFO_CLASS,"
    text = source.read_text()
    if known not in text:
        raise SystemExit(f"{source} is not as expected: no line '{known}'")
    changed = top / "at_windows.go"
    changed.write_text(text.replace(known, "case NTStatus(0xC0000002), STATUS_INVALID_INFO_CLASS,"))  # not implemented
    (top / "overlay.json").write_text(json.dumps({"Replace": {str(source): str(changed)}}))
    return ["-overlay", str(top / "overlay.json")]


def go(*arguments, **kw) -> str:
    return subprocess.run(["go", *arguments], capture_output=True, text=True, check=True, cwd=ROOT, **kw).stdout


def tested(top: Path, wanted: list[str]) -> None:
    """Leaves what the tests of each package print in the directory tests."""
    (top / "tests").mkdir(exist_ok=True)
    extra = overlay(top)
    with ThreadPoolExecutor(2) as two:  # one compiles while another one runs
        list(two.map(lambda directory: of_package(top, directory, extra), packages(wanted)))


def text_of(top: Path, name: str) -> Path:
    return top / "tests" / (name.replace("/", "-") + ".txt")


def outcome(text: str) -> tuple[int, list[str], str]:
    """Of what the tests of a package print: how many passed, which failed, and a word on the whole."""
    passed = len(re.findall(r"^--- PASS", text, re.M))
    failed = re.findall(r"^--- FAIL: (\w+)", text, re.M)
    if text.startswith(DOES_NOT_COMPILE):
        return 0, [], DOES_NOT_COMPILE
    if re.search(r"^(PASS|FAIL)$", text, re.M):
        return passed, failed, ""
    began = re.findall(r"^=== RUN +(\w+)$", text, re.M)
    ended = set(re.findall(r"^ *--- (?:PASS|FAIL|SKIP): (\w+)", text, re.M))
    during = ", ".join(t for t in began if t not in ended)
    return passed, failed, ("did not end" if "panic: " not in text or "test timed out" in text else "ended with a fault") + (
        f" in {during}" if during else ""
    )  # fmt: skip


def of_package(top: Path, directory: str, extra: list[str]) -> None:
    name = os.path.relpath(directory, ROOT)
    if name in EXCLUDED:
        print((name, EXCLUDED[name]), flush=True)
        return
    file = text_of(top, name)
    file.unlink(missing_ok=True)
    program = file.with_suffix(".exe")
    built = subprocess.run(
        ["go", "test", "-c", "-tags", "grpcnotrace", "-ldflags=-s -w", *extra, "-o", str(program), "."],
        cwd=directory, env={**os.environ, "GOOS": "windows", "CGO_ENABLED": "0"}, capture_output=True, text=True,
    )  # fmt: skip
    if built.returncode != 0:
        text = f"{DOES_NOT_COMPILE}\n{built.stderr}"
    elif not program.exists():
        text = "PASS\n"  # no tests there on Windows
    else:
        environment = {**os.environ, "NESO_PYTHON": windows(top / "python" / "python.exe")}
        limit = f"-test.timeout={TEST_TIMEOUT - 10}s"
        text, _ = run([program, "-test.v", limit], TEST_TIMEOUT, cwd=directory, env=environment)
        program.unlink(missing_ok=True)
    file.write_text(text)
    print((name, *outcome(text)), flush=True)


def table(top: Path) -> tuple[str, list[str]]:
    """What was found, in this run and in those before it, and which packages have not run yet."""
    rows = json.loads((top / "served.json").read_text())
    lines = ["| what | under Wine |", "|---|---|", *[f"| {what} | {result} |" for what, result in rows], ""]
    names = [os.path.relpath(directory, ROOT) for directory in packages([])]
    missing = [n for n in names if n not in EXCLUDED and not text_of(top, n).exists()]
    found = {n: outcome(text_of(top, n).read_text()) for n in names if n not in EXCLUDED and n not in missing}
    there = {n: o for n, o in found.items() if any(o)}  # others have no tests on Windows
    whole = [n for n, (_, failed, word) in there.items() if not failed and not word]
    lines += [
        f"Go tests: {sum(o[0] for o in there.values())} passed; of {len(there)} packages {len(whole)} passed whole. The others:",
        "", "| package | passed | failed |", "|---|---|---|",
    ]  # fmt: skip
    for name, (passed, failed, word) in there.items():
        if name not in whole:
            shown = ", ".join(failed[:6]) + (f" and {len(failed) - 6} more" if len(failed) > 6 else "")
            lines.append(f"| `{name}` | {passed} | {shown}{'; ' * bool(shown and word)}{word} |")
    lines += ["", "Not run:", "", *[f"- `{name}`: {why}" for name, why in sorted(EXCLUDED.items())], ""]
    return "\n".join(lines), missing


def main():
    top, arguments = Path(sys.argv[1]), sys.argv[2:]
    if arguments[:1] in ([], ["serve"]):
        (top / "served.json").write_text(json.dumps(served(top)))
    if arguments[:1] in ([], ["test"]):
        tested(top, arguments[1:])
    if not (top / "served.json").exists():
        return print("the page stays as it is: the program has not run here (scripts/windows.sh serve)")
    text, missing = table(top)
    print(text)
    if missing:
        return print("the page stays as it is: these have not run here:", *missing)
    head, _, _ = PAGE.read_text().partition(MARK)
    PAGE.write_text(head + MARK + "\n\n" + text)


if __name__ == "__main__":
    main()
