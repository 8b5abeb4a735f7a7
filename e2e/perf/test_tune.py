"""neso tune: servers of its own, what it finds, keeps and writes."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from server import BINARY, ROOT

QUICK = ("--concurrency=2", "--measurement-interval=100ms", "--max-trials=3", "--stability-percentage=50")
SHAPE = ("--", "--shape", "IMAGE:8,8")


def tune(*args, **more):
    environment = {**os.environ, "NESO_PYTHON": sys.executable, "TMPDIR": str(more.pop("temp"))}
    return subprocess.run(
        [BINARY, "tune", *args], capture_output=True, text=True, timeout=600, env=environment, check=False, **more
    )


@pytest.fixture
def place(tmp_path):
    """A repository with a model of ONNX Runtime, a directory for what is written, and one for temporary files."""
    for name in ("models", "temp"):
        (tmp_path / name).mkdir()
    shutil.copytree(ROOT / "examples" / "frameworks" / "digits_onnx", tmp_path / "models" / "digits")
    return tmp_path


def files(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_brute_force_and_what_is_kept(place):
    """Every configuration, one that fails among them; then the same again from what was kept, and another goal."""
    before = files(place / "models")
    args = ["--model-repository", place / "models", "--model=digits", "--search=brute", "--instances=1,2", *QUICK]
    args += ["--vary=parameters.intra_op_thread_count=1|many", "--confirm=2", "--top=1", "--output", place / "out"]
    first = tune(*args, *SHAPE, temp=place / "temp")
    assert first.returncode == 0, first.stderr
    assert files(place / "models") == before and not any((place / "temp").iterdir())
    assert "failed to convert 'many' to integral number" in first.stdout and "6 configurations" in first.stderr
    state = json.loads((place / "out" / "checkpoint.json").read_text())
    assert [bool(r.get("failure")) for r in state["runs"]].count(True) == 2 and 6 <= len(state["runs"]) <= 10
    measured = [level for r in state["runs"] for level in r.get("levels", [])]
    assert all(m["models"]["digits"]["throughput"]["n"] >= 1 and m["memory_bytes"] > 1e6 for m in measured)
    with (place / "out" / "results" / "metrics-model-inference.csv").open() as f:
        rows = list(csv.DictReader(f))
    assert list(rows[0])[:4] == ["Model", "Batch", "Concurrency", "Model Config Path"] and len(rows) == 4
    assert {r["Instance Group"] for r in rows} == {"1:CPU", "2:CPU"} and float(rows[0]["Throughput (infer/sec)"]) > 0
    page = (place / "out" / "report.html").read_text()
    assert page.count("<svg") == 2 and "default-src 'none'" in page and "failed: " in page
    assert "http" not in page.replace("http-equiv", "")

    again = tune(*args, "--objective=latency", *SHAPE, temp=place / "temp")
    runs = json.loads((place / "out" / "checkpoint.json").read_text())["runs"]
    assert again.returncode == 0 and runs[: len(state["runs"])] == state["runs"], again.stderr
    assert all(r.get("round") for r in runs[len(state["runs"]) :])  # none but those that confirm another best
    refused = tune(*args, *SHAPE, "-z", temp=place / "temp")
    assert refused.returncode == 1 and "another setting (the load)" in refused.stderr


def test_apply(place):
    """A goal that the configuration as it is cannot keep: the other one is written, the old one stays."""
    config = place / "models" / "digits" / "config.pbtxt"
    config.write_text(
        config.read_text() + 'parameters { key: "intra_op_thread_count" value { string_value: "many" } }\n'
    )
    args = ["--model-repository", place / "models", "--model=digits", *QUICK, "--output", place / "out"]
    refused = tune(*args, "--instances=1", *SHAPE, temp=place / "temp")
    assert refused.returncode == 1 and "do not load as they are" in refused.stderr and "'many'" in refused.stderr
    was = config.read_text().replace("many", "1").replace("{ }", "{ max_queue_delay_microseconds: 900000 } # ours")
    config.write_text(was)  # two requests wait for more than they are
    args += [
        "--search=brute",
        "--latency-budget=500ms@p50",
        "--max-batch-size=2",
        "--confirm=0",
        "--measurement-interval=500ms",
    ]
    done = tune(*args, "--restart", "--apply", *SHAPE, temp=place / "temp")
    best = "the best configuration keeps the limits, and the one as it is does not"
    assert done.returncode == 0 and best in done.stdout, done.stdout + done.stderr
    now = config.read_text()
    assert "# ours" in now and now != was and (place / "models" / "digits" / "config.pbtxt.1.bak").read_text() == was
    assert subprocess.run([BINARY, "config", "check", config.parent], capture_output=True, check=False).returncode == 0


def test_interrupted(place):
    """Ctrl-C in mid-search: what was measured is kept, no process and no directory is left, and it goes on."""
    args = [
        "--model-repository",
        str(place / "models"),
        "--model=digits",
        "--instances=1,2,3,4",
        "--search=brute",
        *QUICK,
    ]
    args += ["--confirm=0", "--output", str(place / "out"), *SHAPE]
    environment = {**os.environ, "NESO_PYTHON": sys.executable, "TMPDIR": str(place / "temp")}
    p = subprocess.Popen(
        [BINARY, "tune", *args], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    for line in p.stderr:
        if line.startswith("#2 "):
            p.send_signal(signal.SIGINT)
            break
    _, rest = p.communicate(timeout=300)
    assert p.returncode == 130 and "goes on from there" in rest
    assert not any((place / "temp").iterdir())
    assert not serving(place)
    kept = json.loads((place / "out" / "checkpoint.json").read_text())["runs"]
    assert 2 <= len(kept) < 4
    on = tune(*args, temp=place / "temp")
    runs = json.loads((place / "out" / "checkpoint.json").read_text())["runs"]
    assert on.returncode == 0 and len(runs) == 4 and runs[: len(kept)] == kept, on.stderr
    (place / "out" / "checkpoint.json").write_text((place / "out" / "checkpoint.json").read_text()[:-20])
    damaged = tune(*args, temp=place / "temp")
    assert damaged.returncode == 1 and "is damaged" in damaged.stderr and "--restart" in damaged.stderr


KILLER = """
import json, os, signal
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.dies = json.loads(args["model_config"])["parameters"].get("dies", {}).get("string_value")

    def execute(self, requests):
        if self.dies:
            os.kill(os.getppid() if self.dies == "server" else os.getpid(), signal.SIGKILL)
        return [pb.InferenceResponse([pb.Tensor("B", pb.get_input_tensor_by_name(r, "A").as_numpy())]) for r in requests]
"""
KILLER_CONFIG = """backend: "python"
input [ { name: "A" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "B" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""


def test_what_dies_is_a_result(place):
    """A server, and a worker, that is killed under the load; and tune itself, whose server goes with it."""
    (place / "models" / "killer" / "1").mkdir(parents=True)
    (place / "models" / "killer" / "1" / "model.py").write_text(KILLER)
    (place / "models" / "killer" / "config.pbtxt").write_text(KILLER_CONFIG)
    args = [
        "--model-repository",
        place / "models",
        "--model=killer",
        "--search=brute",
        *QUICK,
        "--output",
        place / "out",
    ]
    r = tune(*args, "--vary=parameters.dies=server|worker", "--confirm=0", temp=place / "temp")
    assert r.returncode == 0 and "as it is is the best" in r.stdout, r.stdout + r.stderr
    assert "the server ended: signal: killed" in r.stdout and "is not healthy" in r.stdout, r.stdout
    environment = {**os.environ, "NESO_PYTHON": sys.executable, "TMPDIR": str(place / "temp")}
    p = subprocess.Popen(
        [BINARY, "tune", *map(str, args), "--restart"], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert any(line.startswith("#1 ") for line in p.stderr)
    p.kill()
    p.communicate()
    deadline = time.monotonic() + 60
    while serving(place):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_load_that_is_refused(place):
    """A wrong shape fails every request of every configuration: the search does not go through all of them."""
    args = ["--model-repository", place / "models", "--model=digits", "--instances=1,2,3,4", "--search=brute", *QUICK]
    r = tune(*args, "--output", place / "out", "--", "--shape", "IMAGE:8,9", temp=place / "temp")
    assert r.returncode == 1 and "none of the first 3 configurations could be measured" in r.stderr, r.stderr
    assert "which [8,9] does not match" in r.stderr and "no configuration could be measured" in r.stdout, (
        r.stderr + r.stdout
    )


COMPOSED = """platform: "ensemble"
max_batch_size: 16
input { name: "IMAGE" data_type: TYPE_FP32 dims: [ 8, 8 ] }
output { name: "PROBABILITIES" data_type: TYPE_FP32 dims: [ 10 ] }
ensemble_scheduling { step { model_name: "digits" model_version: -1
  input_map { key: "IMAGE" value: "IMAGE" } output_map { key: "PROBABILITIES" value: "PROBABILITIES" } } }
"""
CALLER = """import triton_python_backend_utils as pb
class TritonPythonModel:
    def execute(self, requests):
        image = lambda r: pb.get_input_tensor_by_name(r, "IMAGE")
        ask = lambda r: pb.InferenceRequest(model_name="digits", inputs=[image(r)], requested_output_names=["PROBABILITIES"]).exec()
        return [pb.InferenceResponse(ask(r).output_tensors()) for r in requests]
"""


def test_models_within_are_turned(place):
    """The knobs of an ensemble, and of a model that calls others, are those of the models within."""
    models = place / "models"
    (models / "whole" / "1").mkdir(parents=True)
    (models / "whole" / "config.pbtxt").write_text(COMPOSED)
    (models / "caller" / "1").mkdir(parents=True)
    (models / "caller" / "1" / "model.py").write_text(CALLER)
    (models / "caller" / "config.pbtxt").write_text(
        'backend: "python"\n' + COMPOSED.split("\n", 1)[1].split("ensemble_scheduling")[0]
    )
    for model, more in (("whole", []), ("caller", ["--bls-composing-models=digits"])):
        out = place / model
        args = ["--model-repository", models, f"--model={model}", "--search=brute", "--instances=1,2", *QUICK, *more]
        r = tune(*args, "--knobs=instances", "--confirm=0", "--output", out, *SHAPE, temp=place / "temp")
        assert r.returncode == 0, r.stdout + r.stderr
        runs = json.loads((out / "checkpoint.json").read_text())["runs"]
        name = {"whole": "instances", "caller": "digits:instances"}[model]
        assert {run["values"][name] for run in runs} == {"1", "2"}, runs
        assert not any(run.get("failure") for run in runs), runs
        assert "digits" in json.dumps([run.get("variant") for run in runs]), runs


def serving(place) -> bool:
    """Whether a process has the directory in its command line."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(place) in command.read_text():
                return True
        except OSError:
            continue
    return False


YAML = """
model_repository: {place}/models
export_path: {place}
checkpoint_directory: {place}/out
triton_launch_mode: docker
run_config_profile_models_concurrently_enable: true
inference_output_fields: [model_name, concurrency, perf_throughput, perf_server_queue]
perf_analyzer_flags: {{shape: "IMAGE:8,8", measurement-interval: 100, max-trials: 3}}
profile_models:
  digits: {{parameters: {{concurrency: [2]}}, model_config_parameters: {{max_batch_size: [16]}}, objectives: [perf_latency_avg]}}
  other: {{weighting: 2, constraints: {{perf_throughput: {{min: 1}}}}}}
"""


def test_the_file_of_model_analyzer(place):
    """Two models that share their servers, as its YAML says, and its table."""
    (place / "models" / "digits").rename(place / "models" / "other")
    shutil.copytree(place / "models" / "other", place / "models" / "digits")
    (place / "m.yaml").write_text(YAML.format(place=place))
    r = tune("-f", place / "m.yaml", "--confirm=0", "--knobs=instances", "--instances=1", temp=place / "temp")
    assert r.returncode == 0 and "m.yaml:5: triton_launch_mode has no effect" in r.stderr, r.stdout + r.stderr
    state = json.loads((place / "out" / "checkpoint.json").read_text())
    assert {m for run in state["runs"] for level in run["levels"] for m in level["models"]} == {"digits", "other"}
    with (place / "results" / "metrics-model-inference.csv").open() as f:
        rows = list(csv.reader(f))
    assert rows[0] == ["Model", "Concurrency", "Throughput (infer/sec)", "Server Queue time (ms)"]
    assert rows[1][:2] == ["digits,other", "2,2"] and len(rows) == 5
    (place / "m.yaml").write_text(YAML.format(place=place) + "max_concurrency: 5\n")
    r = tune("-f", place / "m.yaml", temp=place / "temp")
    assert r.returncode == 1 and 'm.yaml:12: there is no key "max_concurrency"' in r.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--model=digits"], "--model-repository: expected the directory"),
        (["--model-repository=/nowhere", "--model=digits"], "/nowhere: no such file"),
        (["--model-repository=MODELS", "--model=x"], 'there is no model "x"'),
        (["--model-repository=MODELS", "--model=digits", "--latency-budget=soon"], 'such as 20ms@p99, found "soon"'),
        (["--model-repository=MODELS", "--model=digits", "--objective=beauty"], 'found "beauty"'),
        (["--model-repository=MODELS", "--model=digits", "--memory-budget=-1"], "such as 2GiB"),
        (["--model-repository=MODELS", "--model=digits", "--vary=max_batch=1"], "max_batch"),
        (["--model-repository=MODELS", "--model=digits", "--", "-u", "x"], "--url is for this command to say"),
        (["--model-repository=MODELS", "--model=digits", "x"], 'got "x"'),
        (["report", "/nowhere"], "/nowhere"),
    ],
)
def test_mistakes(place, args, text):
    r = tune(*(a.replace("MODELS", str(place / "models")) for a in args), temp=place / "temp")
    assert r.returncode == 1 and text in r.stderr and not r.stdout
