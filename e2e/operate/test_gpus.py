"""GPUs as the server sees them, by a management library that stands in for NVIDIA's: no machine with a GPU is
needed, and no model runs on one."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from repository import settled
from server import ROOT, Server

IDENTITY = (
    'backend: "identity"\ninput [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]\noutput [ { name: "OUT" '
    "data_type: TYPE_FP32 dims: [ 1 ] } ]\n"
)
DIGITS = ROOT / "examples" / "frameworks" / "digits_onnx" / "1" / "model.onnx"


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A directory with a driver of three GPUs, the last of an old kind."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler for the driver (Debian: gcc)")
    directory = tmp_path_factory.mktemp("driver")
    source = ROOT / "internal" / "gpu" / "testdata" / "fakenvml.c"
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", directory / name, source], check=True, timeout=180)
    return directory


@pytest.fixture
def repo(tmp_path):
    def put(name, config, *files):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "config.pbtxt").write_text(config)
        for file in files:
            shutil.copy(DIGITS, tmp_path / name / "1" / file)

    put("auto", IDENTITY + "instance_group { kind: KIND_AUTO }")
    put("second", IDENTITY + "instance_group { kind: KIND_GPU gpus: 1 count: 2 }")
    put("old", IDENTITY + "instance_group { kind: KIND_GPU gpus: 2 }")
    put("host", IDENTITY + "instance_group { kind: KIND_CPU }")
    put("plain", "", "model.onnx")
    files = 'default_model_filename: "model.onnx"\ncc_model_filenames [ { key: "8.9" value: "89.onnx" } ]\nbackend: "onnxruntime"\n'
    put("onnx_auto", files, "model.onnx")
    put("onnx_gpu", files + "instance_group { kind: KIND_GPU gpus: 0 }", "model.onnx")
    put("onnx_gpus", files + "instance_group { kind: KIND_GPU }", "model.onnx")
    return tmp_path


def groups(server, model):
    return [(g["kind"], g["count"], g["gpus"]) for g in server.get(f"/v2/models/{model}/config").json["instance_group"]]


def metrics(server):
    return [line for line in server.metrics().splitlines() if line.startswith(("nv_gpu", "nv_energy"))]


def test_instances_and_metrics(driver, repo):
    with Server(repo, "--exit-on-error=false", env={"LD_LIBRARY_PATH": str(driver)}, wait=False) as s:
        why = settled(s, 8)
        assert groups(s, "auto") == [("KIND_GPU", 1, [0, 1])]
        assert groups(s, "second") == [("KIND_GPU", 2, [1])]
        assert groups(s, "host") == [("KIND_CPU", 1, [])]
        assert (
            "specifies invalid or unsupported gpu id 2. GPUs with at least the minimum required CUDA compute "
            "compatibility of 6.000000 are: 0, 1"
        ) in why["old"]
        # The library here is for the CPU: a model that leaves it open runs there, one that wants a GPU says what is missing.
        assert groups(s, "plain") == groups(s, "onnx_auto") == [("KIND_CPU", 2, [])]
        assert "89.onnx" in why["onnx_gpu"]
        assert (
            "need different files: '89.onnx' for GPU 0 (compute capability 8.9), 'model.onnx' for GPU 1"
            in why["onnx_gpus"]
        )
        shown = metrics(s)
        for line in (
            'nv_gpu_utilization{gpu_uuid="GPU-aaaa0000-0000-0000-0000-000000000000"} 0.37',
            'nv_gpu_memory_total_bytes{gpu_uuid="GPU-bbbb0000-0000-0000-0000-000000000000"} 1000',
            'nv_gpu_memory_used_bytes{gpu_uuid="GPU-aaaa0000-0000-0000-0000-000000000000"} 250',
            'nv_gpu_power_usage{gpu_uuid="GPU-aaaa0000-0000-0000-0000-000000000000"} 71.5',
            'nv_gpu_power_limit{gpu_uuid="GPU-aaaa0000-0000-0000-0000-000000000000"} 300',
        ):
            assert line in shown
        assert not [line for line in shown if "GPU-bbcc" in line], "a device that tells nothing"
        energy = [line for line in shown if line.startswith("nv_energy_consumption")]
        assert len(energy) == 2


@pytest.mark.parametrize(
    "options, env, gpus, shows",
    [
        (("--allow-gpu-metrics=false",), {}, [0, 1], False),
        (("--min-supported-compute-capability=9",), {}, [1], True),
        (("--min-supported-compute-capability=0",), {}, [0, 1, 2], True),
        ((), {"CUDA_VISIBLE_DEVICES": "1"}, [0], True),
        ((), {"CUDA_VISIBLE_DEVICES": ""}, [], False),
        ((), {"NESO_FAKE_GPUS": "0"}, [], False),
        ((), {"TRITON_SERVER_CPU_ONLY": "1"}, [0, 1], False),
    ],
)
def test_which_gpus(driver, tmp_path, options, env, gpus, shows):
    (tmp_path / "auto" / "1").mkdir(parents=True)
    (tmp_path / "auto" / "config.pbtxt").write_text(IDENTITY + "instance_group { kind: KIND_AUTO }")
    with Server(tmp_path, *options, env={"LD_LIBRARY_PATH": str(driver), **env}) as s:
        assert groups(s, "auto") == [("KIND_GPU" if gpus else "KIND_CPU", 1, gpus)]
        assert bool(metrics(s)) == shows
