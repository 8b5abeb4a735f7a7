"""NVIDIA's Model Analyzer, unchanged, as a client of ours.

With NESO_FULL=1 only, a minute or two: MODEL_ANALYZER names the program (`pip install triton-model-analyzer==1.58.0` in a venv of its own),
PERF_ANALYZER NVIDIA's perf_analyzer, where ours is not to stand in for it.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import place
from server import BINARY, Server, free_port

PROGRAM = os.environ.get("MODEL_ANALYZER") or shutil.which("model-analyzer")
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("NESO_FULL") != "1", reason="Model Analyzer takes minutes: with NESO_FULL=1 only"
    ),
    pytest.mark.skipif(not PROGRAM, reason="Model Analyzer is not there: MODEL_ANALYZER names it (docs/use/tune.md)"),
]

FILE = """
model_repository: {place}/models
checkpoint_directory: {place}/checkpoints
output_model_repository_path: {place}/out/models
override_output_model_repository: true
export_path: {place}/out
triton_launch_mode: {mode}
triton_server_path: {place}/bin/tritonserver
triton_http_endpoint: 127.0.0.1:{http}
triton_grpc_endpoint: 127.0.0.1:{grpc}
triton_metrics_url: http://127.0.0.1:{metrics}/metrics
perf_analyzer_flags: {{shape: "X:4", measurement-interval: 500, stability-percentage: 80, max-trials: 3}}
run_config_search_mode: brute
client_protocol: {protocol}
profile_models:
  m:
    cpu_only: true
    parameters: {{concurrency: [2], batch_sizes: [1]}}
    model_config_parameters: {{instance_group: [{{kind: KIND_CPU, count: [1, 2]}}]}}
"""
CONFIG = """backend: "python"
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 4 ] }
"""
CODE = """import triton_python_backend_utils as pb
class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("Y", pb.get_input_tensor_by_name(r, "X").as_numpy())]) for r in requests]
"""


def analyze(directory: Path, mode: str, protocol: str, ports) -> list[dict[str, str]]:
    (directory / "bin").mkdir()
    (directory / "bin" / "tritonserver").symlink_to(BINARY)
    (directory / "bin" / "perf_analyzer").symlink_to(os.environ.get("PERF_ANALYZER") or BINARY)
    (directory / "checkpoints").mkdir()
    (directory / "out" / "models").mkdir(parents=True)
    http, grpc, metrics = ports
    (directory / "m.yaml").write_text(
        FILE.format(place=directory, mode=mode, protocol=protocol, http=http, grpc=grpc, metrics=metrics)
    )
    environment = {
        **os.environ,
        "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        "NESO_PYTHON": sys.executable,
    }
    r = subprocess.run(
        [PROGRAM, "profile", "-f", directory / "m.yaml"],
        capture_output=True,
        text=True,
        timeout=500,
        env=environment,
        cwd=directory,
        check=False,
    )
    assert r.returncode == 0, r.stdout[-4000:] + r.stderr[-4000:]
    assert "Profiled 3 configurations for models: ['m']" in r.stdout + r.stderr
    with (directory / "out" / "results" / "metrics-model-inference.csv").open() as f:
        return list(csv.DictReader(f))


def check(rows: list[dict[str, str]]) -> None:
    assert {r["Model Config Path"] for r in rows} == {"m_config_default", "m_config_0", "m_config_1"}
    assert {r["Instance Group"] for r in rows} == {"1:CPU", "2:CPU"}
    assert all(float(r["Throughput (infer/sec)"]) > 0 and float(r["p99 Latency (ms)"]) > 0 for r in rows)


def test_local(tmp_path):
    """It starts a link named tritonserver for each configuration."""
    place(tmp_path / "models" / "m", {"config.pbtxt": CONFIG, "1/model.py": CODE})
    check(analyze(tmp_path, "local", "grpc", (free_port(), free_port(), free_port())))


def test_remote(tmp_path):
    """It loads each configuration into a server that runs, over HTTP."""
    place(tmp_path / "models" / "m", {"config.pbtxt": CONFIG, "1/model.py": CODE})
    with Server(tmp_path / "models", "--model-control-mode=explicit") as s:
        check(analyze(tmp_path, "remote", "http", (s.http_port, s.grpc_port, s.metrics_port)))
