"""A misspelt parameter or backend setting, which Triton ignores in silence, is warned of in the log, whatever the backend."""

from __future__ import annotations

import re

import pytest
from repository import settled
from server import Server

IO = """max_batch_size: 1
input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
# Backend: a parameter that is misspelt, what was meant, and the same of --backend-config.
BACKENDS = {
    "onnxruntime": ("intra_op_thread_cuont", "intra_op_thread_count", "enable-global-threadpol", "enable-global-threadpool"),
    "openvino": ("TARGET_DEVISE", "TARGET_DEVICE", "default-max-batchsize", "default-max-batch-size"),
    "fil": ("treshold", "threshold", "alow-pickle", "allow-pickle"),
    "pytorch": ("INFERENCE_MODUS", "INFERENCE_MODE", "stub-timeout-secs", "stub-timeout-seconds"),
    "tensorflow": ("TF_SIGNATURE", "", "default-max-batch-siz", "default-max-batch-size"),
    "sklearn": ("trusted_type", "trusted_types", "allow-pikle", "allow-pickle"),
    "tensorrt": ("EXECUTION_TIMEOUT_SECOND", "EXECUTION_TIMEOUT_SECONDS", "plugins", ""),
    "python": ("EXECUTION_ENV_PAHT", "EXECUTION_ENV_PATH", "stub-timeuot-seconds", "stub-timeout-seconds"),
    "identity": ("execute_delay_s", "execute_delay_ms", "x", ""),
    "sleep": ("sleepms", "sleep_ms", "x", ""),
    "error": ("mesage", "message", "x", ""),
    "square": ("anything", "", "x", ""),
    "repeat": ("anything", "", "x", ""),
}  # fmt: skip
KNOWN = {
    "onnxruntime": ["session.intra_op.allow_spinning", "gpu_mem_limit", "onnxruntime_library", "isolation", "WORKER_MEMORY_BYTES"],
    "openvino": ["NUM_STREAMS", "openvino_library"],
    "fil": ["algo", "cpu_nthread"],
    "sklearn": ["output.OUT"],
    "python": ["tokenizer", "WORKER_OPEN_FILES"],
}  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    repo = tmp_path_factory.mktemp("unknown")
    options = ["--backend-config=onnxruntine,x=1", "--backend-config=default-max-batch-sise=4"]
    for backend, (parameter, _, setting, _) in BACKENDS.items():
        (repo / f"m_{backend}" / "1").mkdir(parents=True)
        names = [parameter, *KNOWN.get(backend, [])]
        (repo / f"m_{backend}" / "config.pbtxt").write_text(
            f'backend: "{backend}"\n'
            + IO
            + "".join(f'parameters {{ key: "{n}" value {{ string_value: "1" }} }}\n' for n in names)
        )
        options.append(f"--backend-config={backend},{setting}=1")
    (repo / "m_tensorflow" / "config.pbtxt").open("a").write('platform: "tensorflow_savedmodel"\n')
    with Server(repo, "--exit-on-error=false", "--strict-readiness=false", *options, wait=False) as s:
        settled(s, len(BACKENDS))
        return s.log()


@pytest.mark.parametrize("backend", BACKENDS)
def test_names_that_are_not_known(log, backend):
    parameter, meant, setting, intended = BACKENDS[backend]
    lines = [
        line for line in log.splitlines() if f"m_{backend} " in line + " " and "parameter that is not known" in line
    ]
    assert len(lines) == 1 and re.search(rf'parameter"?[=:]\s*"?{parameter}"?', lines[0]), lines
    assert not meant or meant in lines[0]
    (line,) = [
        line
        for line in log.splitlines()
        if f"{backend} " in line and setting in line and "setting that is not known" in line
    ]
    assert not intended or intended in line


def test_backends_and_settings_for_all(log):
    lines = [line for line in log.splitlines() if "onnxruntine" in line and "starting" not in line]
    assert len(lines) == 1 and "a backend that this server does not have" in lines[0] and "onnxruntime" in lines[0]
    (line,) = [line for line in log.splitlines() if "default-max-batch-sise" in line and "starting" not in line]
    assert "default-max-batch-size" in line
