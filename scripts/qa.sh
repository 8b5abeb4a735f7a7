#!/bin/bash
# NVIDIA's own tests of its server, unmodified but for paths, against ours:
# scripts/qa.sh CHECKOUT [TEST...], where CHECKOUT is a clone of the repository
# triton-inference-server/server (never committed here) and TEST a folder of its
# qa/, or one below it, as in L0_backend_python/lifecycle. Prints a line
# per test; logs lie below .tools/qa/log. What passes, and why the others do not:
# docs/nvidia-qa.md.
#
# The models that those tests take from /data/inferenceserver are made by the
# checkout's own generators, those of ONNX (scripts/qa_models.sh).
set -u
checkout=$(cd "${1:?the folder of a clone of triton-inference-server/server}" && pwd) && shift
cd "$(dirname "$0")/.."
root=$PWD
home=$root/.tools/qa
venv=$home/venv
tests=${*:-$(sed -n 's/^| `\([A-Za-z0-9_\/]*\)` .*/\1/p' docs/nvidia-qa.md)}

mkdir -p "$home/log" "$home/tritonserver/bin" "$home/tritonserver/backends" "$home/tritonserver/lib"
if [ ! -e "$venv/.done" ]; then
  "${NESO_SETUP_PYTHON:-python3}" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy 'tritonclient[all]' pytest psutil requests \
    onnx onnxruntime opentelemetry-sdk prometheus-client boto3 wrapt aiohttp sseclient-py pytest-timeout protobuf grpcio && touch "$venv/.done" || exit 1
fi
# PyTorch, which some models import, is that of `make test-frameworks`, where it is there.
for site in "$venv"/lib/python3*/site-packages; do
  ls -d "$root"/.venv-frameworks/lib/python3*/site-packages 2>/dev/null >"$site/frameworks.pth"
done
ln -sfn "$root/bin/neso" "$home/tritonserver/bin/tritonserver"

# A copy, in which the container's places are ours.
work=$home/checkout
rm -rf "$work" && mkdir -p "$work" && cp -r "$checkout/qa" "$work/" || exit 1
examples=$checkout/docs/examples/model_repository
for t in http grpc; do # as the container of those tests is put together
  mkdir -p "$work/qa/L0_$t/models"
  for model in simple simple_dyna_sequence simple_identity simple_int8 simple_sequence simple_string densenet_onnx; do
    cp -r "$examples/$model" "$work/qa/L0_$t/models/" 2>/dev/null
  done
done
cp -r "$checkout/deploy/mlflow-triton-plugin" "$work/qa/L0_mlflow/" 2>/dev/null
ln -sfn "$work/qa" "$home/tritonserver/qa"
grep -rlIE '/opt/tritonserver|/data/inferenceserver' "$work/qa" | xargs -r sed -i "s|/opt/tritonserver|$home/tritonserver|g; s|/data/inferenceserver|$home/data|g"
find "$work/qa" \( -name config.pbtxt -o -name test.sh \) -exec sed -i 's/KIND_GPU/KIND_CPU/g' {} + # there is no GPU

export NVIDIA_TRITON_SERVER_VERSION=local REPO_VERSION=local PYTHONDONTWRITEBYTECODE=1 TEST_WINDOWS=0 TEST_JETSON=0 PYTHON_ENV_VERSION=12
export TRITON_DIR=$home/tritonserver SERVER=$home/tritonserver/bin/tritonserver BACKEND_DIR=$home/tritonserver/backends DATADIR=$home/data/local
export BACKENDS=onnx TRITON_SERVER_CPU_ONLY=1
export PATH=$home/tools:$venv/bin:$PATH NESO_PYTHON=$venv/bin/python PYTHONPATH=$home/python
mkdir -p "$home/tools" "$home/python"
: >"$home/python/triton_shm_monitor.py" # looks into regions of /dev/shm that have a name: here are none
# Nothing is installed by a test: what it needs is in the environment, or it fails.
printf '#!/bin/sh\nexit 0\n' >"$home/tools/pip3" && chmod +x "$home/tools/pip3"
cp "$home/tools/pip3" "$home/tools/pip"
cp "$home/tools/pip3" "$home/tools/apt"
cp "$home/tools/pip3" "$home/tools/apt-get"
[ -e "$home/data/local/.done" ] || scripts/qa_models.sh "$work" "$home/data/local" >"$home/log/models.log" 2>&1 ||
  echo "not all models could be made: .tools/qa/log/models.log"

# Ports 8000 to 8002 are written into the tests, and some refuse to run beside another server:
# in a network and a table of processes of their own both are free.
alone=
unshare -npf --mount-proc true 2>/dev/null && alone='unshare -npf --mount-proc --kill-child'
status=0
for t in $tests; do
  folder=$work/qa/$t
  export MODELDIR=$folder
  [ "$(basename "$(dirname "$folder")")" = L0_backend_python ] && MODELDIR=$(dirname "$folder") # a part, which the whole gives its place
  begun=$SECONDS
  log=$home/log/${t//\//_}.log
  (cd "$folder" && $alone bash -c "ip link set lo up 2>/dev/null; [ -z '$alone' ] || mount -t tmpfs tmpfs /dev/shm; exec timeout -k 10 ${QA_TIMEOUT:-900} bash ./test.sh") >"$log" 2>&1
  rc=$?
  # What the test's own Python files said, each into a log of its own.
  ran=$(cat "$log" "$folder"/*.log 2>/dev/null | grep -aoE '^Ran [0-9]+ tests?' | awk '{n += $2} END {print n + 0}')
  bad=$(cat "$log" "$folder"/*.log 2>/dev/null | grep -aoE '^FAILED \(.*' | grep -oE '(failures|errors)=[0-9]+' | awk -F= '{n += $2} END {print n + 0}')
  if [ $rc = 0 ]; then word=pass; else word="FAIL ($rc, see ${log#"$root"/})" status=1; fi
  echo "$t: $word, $ran cases ran, $bad of them failed, $((SECONDS - begun)) s"
done
exit $status
