#!/bin/sh
# Makes .venv-frameworks and runs the tests of the framework backends in it.
# With --if-possible a failed download is told and is no failure: the packages
# are large, and some networks do not let them through; tests that take long are
# skipped then, as they say. After -- comes a program to run in place of the tests.
set -eu
cd "$(dirname "$0")/.."
python=${NESO_SETUP_PYTHON:-python3}
venv=.venv-frameworks
# As by default: otherwise each process of a test compiles the framework that it
# imports anew, a fifth of all that tests compute.
export PYTHONDONTWRITEBYTECODE=

if ! [ "$venv/.stamp" -nt scripts/requirements-frameworks.txt ]; then
  # A disk that these fill fails the tests that run beside them.
  free=$(df -Pm . | awk 'NR == 2 { print $4 }')
  if [ "${1:-}" = --if-possible ] && [ "$free" -lt 20000 ]; then
    echo "SKIPPED: tests of the framework backends: installing takes 12 GB, the other tests take 8, and $free MB are free" >&2
    exit 0
  fi
  "$venv/bin/python" -c '' 2>/dev/null || "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip
  # pip would compile all of some ten thousands of files, of which tests import a
  # part; Python compiles and keeps that.
  if ! RETRY_PAUSES=5 scripts/retry.sh "$venv/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check \
    -r scripts/requirements-frameworks.txt; then
    echo "the frameworks could not be installed (scripts/requirements-frameworks.txt)" >&2
    if [ "${1:-}" = --if-possible ]; then
      echo "SKIPPED: tests of the framework backends" >&2
      exit 0
    fi
    exit 1
  fi
  touch "$venv/.stamp"
fi
if [ "${1:-}" = -- ]; then
  shift
  exec "$venv/bin/python" "$@"
fi
[ "${1:-}" = --if-possible ] || export NESO_FULL=1
exec "$venv/bin/python" -m pytest -q -rs e2e/frameworks e2e/gpu
