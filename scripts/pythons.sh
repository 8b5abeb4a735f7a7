#!/bin/bash
# The Python package on every Python that it supports: its tests on those found
# here (pyenv or the PATH), each with one numpy, in virtual environments below
# .tools/pythons; syntax and types on all of them, found or not. An argument
# chooses versions: scripts/pythons.sh 3.9 3.13. PYTHONS_TESTS chooses tests.
set -u
cd "$(dirname "$0")/.."
root=$PWD
versions=${*:-3.9 3.10 3.11 3.12 3.13 3.14}
tests=${PYTHONS_TESTS:-python/tests_neso}
status=0

find_python() { # version
  local p
  for p in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python "$(command -v "python$1")"; do
    [ -x "$p" ] && "$p" -c "import sys; sys.exit(sys.version_info[:2] != tuple(map(int, '$1'.split('.'))))" 2>/dev/null &&
      echo "$p" && return
  done
  return 1
}

report() { # version, what, status
  if [ "$3" = 0 ]; then echo "$1: $2: ok"; else echo "$1: $2: FAILED"; status=1; fi
}

for version in $versions; do
  # The first numpy is the older one where there are wheels of it.
  case $version in 3.9 | 3.12) numpy='numpy<2' ;; *) numpy='numpy>=2' ;; esac
  mypy=$root/.venv/bin/mypy
  if python=$(find_python "$version"); then
    venv=$root/.tools/pythons/$version
    if [ ! -e "$venv/.done" ]; then
      rm -rf "$venv"
      "$python" -m venv "$venv" &&
        scripts/retry.sh "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$numpy" 'tritonclient[http,grpc]' \
          wrapt pytest ml_dtypes nbclient ipykernel opentelemetry-sdk opentelemetry-exporter-otlp-proto-http mypy &&
        touch "$venv/.done" || { report "$version" environment 1; continue; }
    fi
    # Another working folder: ./.venv is not the interpreter under test.
    # shellcheck disable=SC2086 # a list of tests
    "$venv/bin/python" -m pytest -q -o addopts= -p no:cacheprovider --tb=short $tests
    rc=$?
    report "$version" "tests with $("$venv/bin/python" -c 'import numpy; print("numpy", numpy.__version__)')" $rc
    mypy=$venv/bin/mypy
  else
    echo "$version: not found here: syntax and types only"
  fi
  # feature_version knows the grammar of Python 3 up to that of the interpreter that parses.
  "$root/.venv/bin/ruff" check -q --isolated --target-version "py${version//./}" --select F7 \
    python/neso python/neso_runtime python/neso_worker python/pytriton-compat
  report "$version" syntax $?
  (cd python && "$mypy" --python-version "$version" --cache-dir "$root/.tools/mypy-$version" >"$root/.tools/mypy-$version.log" 2>&1)
  rc=$?
  [ $rc = 0 ] || tail -n 20 "$root/.tools/mypy-$version.log"
  report "$version" types $rc
done
exit $status
