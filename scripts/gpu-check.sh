#!/bin/sh
# The tests that need an NVIDIA GPU, within ten minutes. Without one it fails. Where there is no Go, and on a machine
# without a network, it takes the binary and the clients that `make gpu-bundle` left in build/gpu on another one.
# GPU_PYTHON names an interpreter with PyTorch, NumPy and pytest; default: .venv-frameworks, else python3.
set -eu
cd "$(dirname "$0")/.."
if ! nvidia-smi -L >/dev/null 2>&1 && [ -d /usr/local/nvidia ]; then # as containers have the driver
  export PATH="$PATH:/usr/local/nvidia/bin"
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/usr/local/nvidia/lib64:/usr/local/nvidia/lib"
fi
if ! nvidia-smi -L; then
  echo "gpu-check: there is no NVIDIA GPU here: nvidia-smi lists none" >&2
  exit 1
fi
if [ -e build/gpu/neso.gz ] && ! command -v go >/dev/null; then
  mkdir -p bin
  gzip -dc build/gpu/neso.gz >bin/neso
  chmod +x bin/neso
elif [ ! -x bin/neso ]; then
  echo "gpu-check: bin/neso is missing: make build here, or make gpu-bundle on a machine with Go and bring build/gpu" >&2
  exit 1
fi
python=${GPU_PYTHON:-}
for candidate in .venv-frameworks/bin/python python3; do
  [ -n "$python" ] || ! "$candidate" -c 'import torch, numpy, pytest' 2>/dev/null || python=$candidate
done
if [ -z "$python" ]; then
  echo "gpu-check: no Python with torch, numpy and pytest: make test-frameworks installs one, GPU_PYTHON names another" >&2
  exit 1
fi
if ! "$python" -c 'import tritonclient.http, tritonclient.grpc' 2>/dev/null; then
  "$python" -m pip install --quiet --disable-pip-version-check \
    --no-index --no-deps --no-compile --upgrade --target build/gpu/site build/gpu/wheels/*.whl
  export PYTHONPATH="$PWD/build/gpu/site${PYTHONPATH:+:$PYTHONPATH}"
fi
bin/neso version
NESO_GPU=required exec timeout 570 "$python" -m pytest -q -rs -p no:cacheprovider e2e/gpu e2e/backends/test_gpu_tensors.py::test_on_a_gpu
