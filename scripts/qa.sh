#!/bin/bash
# NVIDIA's own tests of its server against ours, changed as docs/nvidia-qa.md says:
# scripts/qa.sh CHECKOUT [TEST...], where CHECKOUT is a clone of the repository
# triton-inference-server/server (never committed here) and TEST a folder of its
# qa/, or one below it, as in L0_backend_python/lifecycle. Prints a line
# per test, and below it each case that failed; logs lie below .tools/qa/log.
# What passes, and why the others do not: docs/nvidia-qa.md.
#
# Clones of python_backend and client beside CHECKOUT are used where they are:
# examples and clients that the container of those tests has come from there.
#
# The models that those tests take from /data/inferenceserver are made by the
# checkout's own generators, those of ONNX (scripts/qa_models.sh).
set -u
checkout=$(cd "${1:?the folder of a clone of triton-inference-server/server}" && pwd) && shift
cd "$(dirname "$0")/.."
root=$PWD
home=${QA_HOME:-$root/.tools/qa} # two runs at once need one each
venv=$home/venv
tests=${*:-$(sed -n 's/^| `\([A-Za-z0-9_\/]*\)` .*/\1/p' docs/nvidia-qa.md)}

mkdir -p "$home/log" "$home/cases" "$home/tritonserver/bin" "$home/tritonserver/backends" "$home/tritonserver/lib"
if [ ! -e "$venv/.done" ]; then
  "${NESO_SETUP_PYTHON:-python3}" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'numpy<2' 'tritonclient[all]' pytest psutil requests \
    onnx onnxruntime opentelemetry-sdk opentelemetry-proto prometheus-client boto3 wrapt aiohttp sseclient-py pytest-timeout \
    protobuf grpcio && touch "$venv/.done" || exit 1
fi
# PyTorch, which some models import, is that of `make test-frameworks`, where it is there.
for site in "$venv"/lib/python3*/site-packages; do
  ls -d "$root"/.venv-frameworks/lib/python3*/site-packages 2>/dev/null >"$site/frameworks.pth"
done
# The server, whose backends are where the container has them.
mkdir -p "$home/tritonserver/bin/real"
ln -sfn "$root/bin/neso" "$home/tritonserver/bin/real/tritonserver"
rm -f "$home/tritonserver/bin/tritonserver"
printf '#!/bin/sh\nexec "%s" --backend-directory="%s" "$@"\n' \
  "$home/tritonserver/bin/real/tritonserver" "$home/tritonserver/backends" >"$home/tritonserver/bin/tritonserver"
chmod +x "$home/tritonserver/bin/tritonserver"

# A copy, in which the container's places are ours.
work=$home/checkout
rm -rf "$work" && mkdir -p "$work" && cp -r "$checkout/qa" "$work/" || exit 1
examples=$checkout/docs/examples/model_repository
for t in http grpc data_compression shared_memory; do # as the container of those tests is put together
  mkdir -p "$work/qa/L0_$t/models"
  for model in simple simple_dyna_sequence simple_identity simple_int8 simple_sequence simple_string; do
    cp -r "$examples/$model" "$work/qa/L0_$t/models/" 2>/dev/null
  done
done
cp -r "$checkout/deploy/mlflow-triton-plugin" "$work/qa/L0_mlflow/" 2>/dev/null
mkdir -p "$work/qa/clients"
cp "$(dirname "$checkout")"/client/src/python/examples/*.py "$work/qa/clients/" 2>/dev/null
for c in "$work"/qa/clients/*.py; do # clients in C++ are those in Python of the same name
  printf '#!/bin/sh\nexec python "%s" "$@"\n' "$c" >"${c%.py}" && chmod +x "$c" "${c%.py}"
done 2>/dev/null
# These two send other requests than the Python ones.
for p in http grpc; do
  printf '#!/bin/sh\nexec python "%s" %s "$@"\n' "$root/scripts/qa_client.py" $p >"$work/qa/clients/simple_${p}_infer_client"
done
# OpenTelemetry's collector, which L0_trace would download.
printf '#!/bin/sh\nexec python "%s"\n' "$root/e2e/collector.py" >"$work/qa/L0_trace/otelcol" && chmod +x "$work/qa/L0_trace/otelcol"
for t in L0_http L0_grpc; do # there is no picture model to be had
  [ -e "$work/qa/$t/models/densenet_onnx/1" ] || rm -rf "$work/qa/$t/models/densenet_onnx"
done
ln -sfn "$work/qa" "$home/tritonserver/qa"
# Backends that only those tests have are native; here python-based ones stand in for them.
cp -r scripts/qa_backends/. "$home/tritonserver/backends/"
for m in L0_iterative_sequence/models/iterative_sequence L0_passive_instance/models/distributed_int32_int32_int32; do
  mkdir -p "$work/qa/$m/1" # in a clone there is no empty folder
done
cp -r "$examples/simple/1" "$work/qa/L0_simple_ensemble/models/simple/"
cp -r "$examples/simple/1" "$work/qa/L0_simple_ensemble/models/simple/2"
mkdir -p "$work/qa/L0_grpc_state_cleanup/models"
cp -r "$checkout/src/test/models/repeat_int32" "$work/qa/L0_grpc_state_cleanup/models/"
cp -r "$checkout"/src/test/models/{repeat,square}_int32 "$work/qa/L0_decoupled/models/"
for m in "$work"/qa/L0_decoupled/models/* "$work"/qa/L0_grpc_state_cleanup/models/*; do mkdir -p "$m/1"; done
cp -r "$work/qa/L0_decoupled/models" "$work/qa/L0_decoupled/python_models"
for m in repeat square; do # the Python backend's examples, where its clone is beside the other one
  for f in config.pbtxt 1/model.py; do
    cp "$(dirname "$checkout")/python_backend/examples/decoupled/${m}_$(basename "$f")" "$work/qa/L0_decoupled/python_models/${m}_int32/$f"
  done
done 2>/dev/null
for m in no_implicit_state no_state_update wrong_internal_state single_state_buffer growable_memory; do
  mkdir -p "$work/qa/L0_implicit_state/models/$m/1"
done
: >"$work/qa/L0_implicit_state/libtriton_implicit_state.so"
sed -i /use_growable_memory/d "$work/qa/L0_implicit_state/models/growable_memory/config.pbtxt" # it needs a GPU; what grows stays
# For each of the 1 GiB that it sends, this test makes eight bytes first.
sed -i 's/np.array(np.random.randn(\*shape), dtype=data_type)/np.ones(shape, dtype=data_type)/' "$work/qa/L0_backend_python/python_test.py"
# The parts of this test have rows of their own.
sed -i -E 's/^( *SUBTESTS\+?)=.*/\1=""/' "$work/qa/L0_backend_python/test.sh"
# An S3 server of Python's in place of one that is downloaded; nothing else is, either.
sed -i "s|/usr/local/bin/minio|$home/tools/minio|; s|(wget |(false |; s|(curl -O |(false |" "$work/qa/L0_storage_S3_local/test.sh"
keys="AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=s AWS_CONFIG_FILE=$work/aws AWS_SHARED_CREDENTIALS_FILE=$work/keys CI_JOB_ID=1"
sed -i "s|^python3 -m venv .venv|ln -sfn $home/mlflow .venv|; s|^pip install .*|:|; s|sqlite:////tmp/|sqlite:///$work/|
  s|^# S3 credentials are necessary.*|export AWS_ENDPOINT_URL=http://localhost:4572 $keys; minio server \& MINIO=\$!; awslocal wait|
  s|^exit \$RET|kill \$MINIO; exit \$RET|" "$work/qa/L0_mlflow/test.sh"
for b in sequence dyna_sequence; do
  mkdir -p "$work/qa/custom_models/custom_${b}_int32/1" && : >"$work/qa/custom_models/custom_${b}_int32/1/libtriton_$b.so"
done
grep -rlIE '/opt/tritonserver|/data/inferenceserver' "$work/qa" |
  xargs -r sed -i "s|/opt/tritonserver|$home/tritonserver|g; s|/data/inferenceserver|$home/data|g"
find "$work/qa" -name '*.py' -exec sed -i '1s|^#!/usr/bin/python$|#!/usr/bin/env python|' {} +
# There is no GPU; a sed of a test that turns one kind into the other stays as it is, but for those that change the kind or would
# count twice.
sed -i 's|/kind: KIND_GPU/"|/kind: KIND_CPU/"|; /s.kind: KIND_GPU.kind: KIND_GPU/d' "$work/qa/L0_sequence_batcher/test.sh"
find "$work/qa" \( -name config.pbtxt -o -name test.sh \) -exec sed -i '/sed /!s/KIND_GPU/KIND_CPU/g' {} +
sed -i 's/KIND_GPU/KIND_MODEL/g' "$work/qa/L0_model_update/instance_update_test.py" # it needs two kinds
# A test goes on after a failure, so that every case is seen: `set -e` and the end
# of a script for which a server did not start. Nobody waits ten seconds to see that
# nothing happens. Its own process group, whose number is 0, is not killed.
find "$work/qa" -name test.sh -exec sed -i -E 's/^( *)set -e *$/\1:/; s/^( +)exit 1$/\1RET=1/; s/^SLEEP_TIME=10/SLEEP_TIME=3/' {} +
cat >>"$work/qa/common/util.sh" <<'END'
kill() {
  local a
  for a; do [ "$a" != 0 ] || return 1; done
  builtin kill "$@"
}
set +e
END
sed -i -E 's/^( *)set -e *$/\1:/' "$work/qa/common/util.sh"

export NVIDIA_TRITON_SERVER_VERSION=local REPO_VERSION=local PYTHONDONTWRITEBYTECODE=1 TEST_WINDOWS=0 TEST_JETSON=0 PYTHON_ENV_VERSION=12
export TRITON_DIR=$home/tritonserver SERVER=$home/tritonserver/bin/tritonserver BACKEND_DIR=$home/tritonserver/backends
export BACKENDS=onnx TRITON_SERVER_CPU_ONLY=1 TRITON_SERVER_VERSION=2.51.0
export TRITON_REPO_ORGANIZATION=$(dirname "$checkout") PYTHON_BACKEND_REPO_TAG=main SERVER_TIMEOUT=60
export PATH=$home/tools:$home/tritonserver/bin:$venv/bin:$PATH NESO_PYTHON=$venv/bin/python PYTHONPATH=$home/python
export PYTEST_PLUGINS=sitecustomize
mkdir -p "$home/tools" "$home/python"
cp scripts/qa_cases.py "$home/python/sitecustomize.py"
cp "$checkout/docker/sagemaker/serve" "$home/tools/serve" 2>/dev/null
: >"$home/python/triton_shm_monitor.py" # looks into regions of /dev/shm that have a name: here are none
# Nothing is installed by a test: what it needs is in the environment, or it fails.
printf '#!/bin/sh\nexit 0\n' >"$home/tools/pip3" && chmod +x "$home/tools/pip3"
# A model that cannot be made here is left out, and what needs it fails; the rest goes on.
printf '#!/bin/sh\n/bin/cp "$@" || echo "left out: cp $*"\n' >"$home/tools/cp" && chmod +x "$home/tools/cp"
printf '#!/bin/sh\nexec /bin/mkdir -p "$@"\n' >"$home/tools/mkdir" && chmod +x "$home/tools/mkdir"
cp "$home/tools/pip3" "$home/tools/pip"
cp "$home/tools/pip3" "$home/tools/apt"
cp "$home/tools/pip3" "$home/tools/apt-get"
[ -e "$home/data/local/.done" ] || scripts/qa_models.sh "$work" "$home/data/local" >"$home/log/models.log" 2>&1 ||
  echo "not all models could be made: .tools/qa/log/models.log"

cat >"$home/tools/minio" <<'END'
#!/bin/sh
# Stands in for an S3 server, at the place where a test starts one.
exec moto_server -H 127.0.0.1 -p 4572 >/dev/null 2>&1
END
cat >"$home/tools/awslocal" <<'END'
#!/bin/sh
for _ in $(seq 600); do
  curl -s -o /dev/null 127.0.0.1:4572 && break
  sleep 0.1
done
[ "$1" = wait ] || exec aws "$@"
END
chmod +x "$home/tools/minio" "$home/tools/awslocal"

# Ports 8000 to 8002 are written into the tests, and some refuse to run beside another server:
# in a network and a table of processes of their own both are free. The first process
# there is a shell, which takes the ends of those that nobody waits for.
alone=
unshare -npf --mount-proc true 2>/dev/null && alone='unshare -npf --mount-proc --kill-child'
# settings TEST: what a test is told about the machine, where that is not the rule.
settings() {
  export BACKENDS=onnx ENSEMBLES=1 SERVER_TIMEOUT=60
  case $1 in
  L0_batcher) BACKENDS='onnx python' ;;
  L0_sequence_batcher) BACKENDS='onnx python custom' ;;
  L0_shared_memory) BACKENDS=python ;;
  L0_storage_S3_local) BACKENDS='onnx libtorch' ;;
  L0_torch_aoti) SERVER_TIMEOUT=300 ;; # each instance imports PyTorch
  esac
}
# extras TEST: what only that test needs is installed for it.
extras() {
  case $1 in L0_storage_S3_local | L0_mlflow)
    export AWS_DEFAULT_REGION=us-east-1
    [ -x "$venv/bin/moto_server" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check 'moto[server]' awscli
    ;;
  esac
  [ "$1" != L0_mlflow ] || [ -e "$home/mlflow/.done" ] || {
    cp -r "$work/qa/L0_mlflow/mlflow-triton-plugin" "$home/" &&
      python3 -m venv --clear "$home/mlflow" &&
      "$home/mlflow/bin/python" -m pip install --quiet --disable-pip-version-check onnx onnxruntime 'sqlalchemy<2.1' \
        "$home/mlflow-triton-plugin" &&
      touch "$home/mlflow/.done"
  }
}

status=0
for t in $tests; do
  settings "$t"
  extras "$t"
  folder=$home/tritonserver/qa/$t
  unset MODELDIR DATADIR # each knows its own
  [[ $t == L0_backend_python/* ]] && export MODELDIR=$(dirname "$folder") DATADIR=$home/data/local # a part, which the whole tells them
  begun=$SECONDS
  log=$home/log/${t//\//_}.log
  export QA_CASES=$home/cases/${t//\//_}
  : >"$QA_CASES"
  (cd "$folder" && $alone bash -c "ip link set lo up 2>/dev/null
    [ -z '$alone' ] || { mount -t tmpfs tmpfs /dev/shm; [ ! -d /opt/ml ] || mount -t tmpfs tmpfs /opt/ml; }
    timeout -k 10 ${QA_TIMEOUT:-900} bash ./test.sh; exit \$?") >"$log" 2>&1
  rc=$?
  passed=$(grep -c '^pass ' "$QA_CASES") bad=$(grep -c '^fail ' "$QA_CASES")
  if [ $rc = 0 ]; then word=pass; else word="FAIL ($rc, see ${log#"$root"/})" status=1; fi
  echo "$t: $word, $passed cases passed, $bad failed, $((SECONDS - begun)) s"
  sed -n 's/^fail /    case: /p' "$QA_CASES" | sort | uniq -c
  grep -a '^\*\*\* .' "$log" |
    grep -vE 'Test (Result Verification )?(Failed|FAILED|Passed|PASSED)|(test|Test) (PASSED|FAILED|Passed)' |
    sort | uniq -c | sed 's/^/    said: /'
done
exit $status
