#!/bin/bash
# Runs the conformance suites that hold on the real peers, when a folder with
# them lies beside the checkout (NESO_CONFORMANCE names another place). Cases that
# differ on purpose are listed, with the reason, in scripts/conformance-differences.txt.
set -eu
cd "$(dirname "$0")/.."
suites=${NESO_CONFORMANCE:-../shared/conformance}
if [ ! -d "$suites" ]; then
  echo "conformance: no suites at $suites, nothing to run"
  exit 0
fi
python=$PWD/.venv/bin/python
export SUT_NAME=neso SUT_IS_TRITON=0
export SUT_CMD="$PWD/bin/neso serve --model-repository={repo} \
--http-address=127.0.0.1 --http-port={http} --grpc-address=127.0.0.1 --grpc-port={grpc} \
--metrics-address=127.0.0.1 --metrics-port={metrics} \
--exit-on-error=false --strict-readiness=false {extra}"
export NESO_PYTHON=$python
deselect() { # suite
  sed -n "s|^$1 \([^ ]*\) .*|--deselect=\1|p" scripts/conformance-differences.txt
}
status=0
export SUT_SLOW=${SUT_SLOW:-1}
for suite in ${CONFORMANCE_SUITES:-protocol sched bind capi}; do
  echo "== conformance: $suite"
  if [ "$suite" = capi ]; then
    [ -x "$suites/capi/run.sh" ] || continue
    PATH="$PWD/.venv/bin:$PATH" CAPI_PY=$python TRITON_INCLUDE=$PWD/build/include \
      LIBTRITONSERVER_DIR=$PWD/build/lib "$suites/capi/run.sh" || status=1
    continue
  fi
  if [ "$suite" = bind ]; then
    # PyTriton sends tracebacks to clients; here that is a setting.
    export BIND_PY=$python BIND_REAL=0 NESO_BINARY=$PWD/bin/neso PYTRITON_TRITON_CONFIG_EXPOSE_TRACEBACKS=1
    printf '%s\n' "$PWD/python" "$PWD/python/pytriton-compat" \
      >"$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/neso-checkout.pth"
  fi
  # shellcheck disable=SC2046 # one option per line
  skip=$(deselect "$suite")
  (cd "$suites/$suite" && "$python" -m pytest -o addopts= -q -p no:cacheprovider --tb=short $skip "$@") || status=1
done
exit $status
