"""``python -m neso``, ``neso serve FILE.py``, what ``serve`` prints, and files that are served again after a change."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest
from program import infer, reserved, wait_until

from neso._server import find_binary

SCRIPT = """
import sys
import numpy as np
from neso import Tensor, Triton, TritonConfig, batch
from factor import FACTOR

@batch
def times(x):
    return {{"y": FACTOR * x}}

print("arguments", sys.argv[1:], flush=True)
{ends}
triton = Triton(config=TritonConfig(**ends))
triton.bind("m", times, [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")])
"""
ENDS = 'ends = {"http_address": "127.0.0.1", "grpc_address": "127.0.0.1", "metrics_address": "127.0.0.1"}\n'
FREE = ENDS + 'ends.update({"http_port": 0, "grpc_port": 0, "metrics_port": 0})'


class Command:
    """A running command whose lines are read as they come."""

    def __init__(self, *arguments, **more):
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1, **more
        )
        self.lines = queue.SimpleQueue()
        self.seen = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()

    def line(self, pattern):
        """The next line that matches."""
        end = time.monotonic() + 60
        while True:
            line = self.lines.get(timeout=max(0.1, end - time.monotonic()))
            assert line is not None, "".join(self.seen)
            self.seen.append(line)
            found = re.search(pattern, line)
            if found:
                return found

    def end(self, number=signal.SIGINT):
        """Sends a signal and returns the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def script(tmp_path):
    """A script that takes a number from a module beside it."""
    (tmp_path / "factor.py").write_text("FACTOR = 2\n")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(ends=FREE))
    return path


def change(path, text):
    """Writes a file so that its time differs, whatever the clock of the file system."""
    before = path.stat().st_mtime_ns
    made = path.with_suffix(".new")
    made.write_text(text)
    os.utime(made, ns=(before + 10**9, before + 10**9))
    made.replace(path)  # at once: whoever looks sees one change


def test_what_serve_prints(script):
    with Command(sys.executable, "-m", "neso", str(script), "a", "--b") as command:
        assert command.line(r"arguments (.*)")[1] == "['a', '--b']"
        http = command.line(r"Serving http +(\S+)")[1]
        grpc = command.line(r"Serving grpc +(\S+)")[1]
        metrics = command.line(r"Metrics +(\S+)")[1]
        curl = command.line(r"(curl .*)")[1]
        assert grpc.startswith("grpc://127.0.0.1:")
        assert infer(http) == 6.0
        answer = subprocess.run([*shlex.split(curl), "-S", "--fail"], capture_output=True, text=True, check=True).stdout
        assert '"y"' in answer
        answer = subprocess.run(["curl", "-sS", "--fail", metrics], capture_output=True, text=True, check=True).stdout
        assert 'nv_inference_request_success{model="m"' in answer
        assert command.end() == 0


@pytest.mark.parametrize("order", ["after", "before"])
def test_reload(script, order):
    arguments = [str(script), "--reload", "rest"] if order == "after" else ["--reload", str(script), "rest"]
    with Command(sys.executable, "-m", "neso", *arguments) as command:
        assert command.line(r"arguments (.*)")[1] == "['rest']"
        assert infer(command.line(r"Serving http +(\S+)")[1]) == 6.0
        change(script.parent / "factor.py", "FACTOR = 5\n")  # a module that the script imports
        command.line("has changed")
        url = command.line(r"Serving http +(\S+)")[1]
        assert infer(url) == 15.0
        change(script, "this is no Python")
        command.line("syntax.*what is served stays")
        assert infer(url) == 15.0
        change(script, SCRIPT.format(ends=FREE) + "triton.bind('n', times, [Tensor((1,), np.float32, 'x')], ")
        change(script, SCRIPT.format(ends=FREE))
        again = command.line(r"Serving http +(\S+)")[1]
        assert infer(again) == 15.0
        with pytest.raises(OSError):
            infer(url)  # the server of before is gone
        assert command.end(signal.SIGTERM) in (0, -signal.SIGTERM)
        with pytest.raises(OSError):
            infer(again)


def test_reload_keeps_the_ports(script):
    with reserved() as port, contextlib.ExitStack() as stack:
        script.write_text(SCRIPT.format(ends=FREE + f'\nends["http_port"] = {port}'))
        command = stack.enter_context(Command(sys.executable, "-m", "neso", str(script), "--reload"))
        for i in (2, 3, 4):
            if i > 2:
                change(script.parent / "factor.py", f"FACTOR = {i}\n")
                command.line("has changed")
            assert command.line(r"Serving http +\S+:(\d+)")[1] == str(port)
            assert infer(f"http://127.0.0.1:{port}") == 3.0 * i
        command.end()


def test_a_script_that_serves_by_itself(script):
    script.write_text(SCRIPT.format(ends=FREE) + "triton.serve()\nprint('after', flush=True)\n")
    with Command(sys.executable, "-m", "neso", str(script)) as command:
        assert infer(command.line(r"Serving http +(\S+)")[1]) == 6.0
        command.process.send_signal(signal.SIGINT)
        command.line("after")
        assert command.process.wait(60) == 0


def test_several_servers_in_a_script(script):
    more = """
other = Triton(config=TritonConfig(**ends))
other.bind("m", times, [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")])
"""
    script.write_text(SCRIPT.format(ends=FREE) + more)
    with Command(sys.executable, "-m", "neso", str(script)) as command:
        assert infer(command.line(r"Serving http +(\S+)")[1]) == 6.0
        assert command.end() == 0


def neso():
    """The console command, as the wheel installs it."""
    return [sys.executable, "-c", "import sys; sys.argv[0] = 'neso'; from neso._command import main; main()"]


def test_neso_serve_with_a_file(script):
    with Command(*neso(), "serve", str(script)) as command:
        assert infer(command.line(r"Serving http +(\S+)")[1]) == 6.0
        assert command.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("place", ["before", "behind"])
def test_neso_serve_refuses_what_has_no_effect(script, place):
    option, port = ["--http-port=8000"], ["--http-port", "8000"]
    for given in (option, port):
        arguments = [*given, str(script)] if place == "before" else [str(script), *given]
        said = subprocess.run([*neso(), "serve", *arguments], capture_output=True, text=True, check=False, timeout=60)
        assert said.returncode == 2 and said.stdout == ""
        assert f"{given[0]} has no effect on {script}, whose TritonConfig" in said.stderr


def test_neso_serve_arguments_of_a_script(script):
    with Command(*neso(), "serve", str(script), "word", "--", "--http-port=8000", "x") as command:
        command.line(r"arguments \['word', '--http-port=8000', 'x'\]")
        assert infer(command.line(r"Serving http +(\S+)")[1]) == 6.0
        assert command.end(signal.SIGTERM) == 0


def test_the_binary_alone_says_what_a_script_needs(script):
    binary = find_binary()
    said = subprocess.run(
        [binary, "serve", str(script), "--http-port=0", "--grpc-port=0", "--metrics-port=0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert said.returncode != 0 and "needs the Python package" in said.stderr, said.stderr


def test_neso_serve_with_a_python_model(tmp_path):
    """A model.py of the Python backend goes to the binary, which serves single model files."""
    path = tmp_path / "model.py"
    path.write_text("raise ValueError('seen')\nclass TritonPythonModel:\n    pass\n")
    with Command(*neso(), "serve", str(path), *(f"--{end}-port=0" for end in ("http", "grpc", "metrics"))) as command:
        command.line("ValueError: seen")


def test_a_script_that_binds_nothing(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("x = 1\n")
    said = subprocess.run([*neso(), "serve", str(path)], capture_output=True, text=True, check=False)
    assert said.returncode == 1 and "script.py binds nothing" in said.stderr


def test_all_else_is_the_binarys():
    said = subprocess.run([*neso(), "version"], capture_output=True, text=True, check=True).stdout
    assert said.strip()
    said = subprocess.run([*neso(), "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert "--model-repository" in said
    tritonserver = neso()[-1].replace("main", "tritonserver")
    said = subprocess.run([sys.executable, "-c", tritonserver, "--help"], capture_output=True, text=True, check=False)
    assert "--model-repository" in said.stdout + said.stderr


def test_what_is_no_script(tmp_path):
    for arguments, status, text in (
        ([], 2, "usage: python -m neso"),
        (["--help"], 0, "usage: python -m neso"),
        ([str(tmp_path / "no.py")], 2, "no such file"),
    ):
        said = subprocess.run(
            [sys.executable, "-m", "neso", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert said.returncode == status
        assert text in said.stdout + said.stderr


def test_slow_loading_is_told(script):
    warm = """
import sys, threading
from neso import ModelConfig
from neso.model_config.common import ModelWarmup, WarmupInput
import neso.utils.announce
neso.utils.announce.SLOW_AFTER = 0.05

told = threading.Event()

class Stderr:
    def write(self, text):
        sys.__stderr__.write(text)
        if "Loading model `slow`" in text:
            told.set()

    def flush(self):
        sys.__stderr__.flush()

sys.stderr = Stderr()

def slow(requests):
    told.wait(60)
    return [{"y": r["x"]} for r in requests]

warm = ModelWarmup("w", 1, {"x": WarmupInput(np.float32, (1,), zero_data=True)}, 1)
triton.bind("slow", slow, [Tensor((-1,), np.float32, "x")], [Tensor((-1,), np.float32, "y")],
            config=ModelConfig(model_warmup=[warm]))
"""
    script.write_text(SCRIPT.format(ends=FREE) + warm)
    with Command(sys.executable, "-m", "neso", str(script)) as command:
        command.line(r"Loading model `slow`: \d+ s so far")
        assert infer(command.line(r"Serving http +(\S+)")[1], "slow") == 3.0
        command.end()
    wait_until(lambda: command.process.poll() is not None)


def frames(said):
    return [line.split('"')[1] for line in said.splitlines() if line.lstrip().startswith('File "')]


@pytest.mark.parametrize(
    ("text", "lines", "end"),
    [
        ("def f():\n    raise ValueError('boom')\nf()\n", 2, "ValueError: boom"),
        ("from neso import Triton\ndef f():\n    Triton().bind('a b', f, [], [])\nf()\n", 2, "underscores and dashes"),
        ("x = (\n", 1, "SyntaxError: "),
        ("import sys\nsys.excepthook = lambda kind, error, tb: print('caught', error)\n1 / 0\n", 0, "caught division"),
        ("from neso import Triton\nTriton(config=3)\n", 2, "AttributeError: "),
    ],
)  # fmt: skip
def test_an_error_of_a_script_shows_the_script(tmp_path, text, lines, end):
    path = tmp_path / "script.py"
    path.write_text(text)
    said = subprocess.run([*neso(), "serve", str(path)], capture_output=True, text=True, check=False)
    assert said.returncode == 1
    out = said.stderr + said.stdout
    assert end in out.splitlines()[-1]
    assert len(frames(out)) >= lines
    assert frames(out)[: min(lines, 1)] == [str(path)] * min(lines, 1)
    if "Triton(config" not in text:
        assert set(frames(out)) <= {str(path)}
    whole = subprocess.run(
        [sys.executable, "-m", "neso", str(path), "--verbose"], capture_output=True, text=True, check=False
    )
    assert whole.returncode == 1
    assert lines == 0 or len(frames(whole.stderr)) > len(frames(out))


def test_a_script_that_ends_itself(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("import sys\nsys.exit(7)\n")
    assert subprocess.run([*neso(), "serve", str(path)], capture_output=True, check=False).returncode == 7
