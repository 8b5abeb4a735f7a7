#!/bin/sh
# Makes .venv with what examples/models need, and with the argument `wheel` also
# with what builds the package, with `tests` also with what tests need, with `bench`
# also with the load generators that `make bench` measures by. As root on Debian it
# installs Python's venv where that is missing, and for the tests a C compiler for
# the race detector, the Redis that tests of the response cache start, and a JDK
# with Maven. Safe to run again, after a setup that was broken off too.
set -eu
cd "$(dirname "$0")/.."
python=${NESO_SETUP_PYTHON:-python3}
case ${1-} in
'') requirements=scripts/requirements.txt ;;
wheel) requirements=scripts/requirements-wheel.txt ;;
tests | bench) requirements=scripts/requirements-tests.txt ;;
*)
  echo "usage: scripts/setup.sh [wheel | tests | bench]" >&2
  exit 2
  ;;
esac
programs= # of Debian, which tests need
case ${1-} in tests | bench) programs=yes ;; esac

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  needed= # nothing works without these; without the others some tests cannot run
  missing=
  "$python" -c 'import ensurepip, venv' 2>/dev/null || needed="$needed python3-venv"
  if [ "${1-}" = bench ]; then
    command -v wrk >/dev/null || missing="$missing wrk"
    command -v h2load >/dev/null || missing="$missing nghttp2-client"
  fi
  if [ -n "$programs" ]; then
    command -v cc >/dev/null || needed="$needed gcc libc6-dev"
    command -v c++ >/dev/null || missing="$missing g++" # PyTorch compiles with it
    command -v curl >/dev/null || missing="$missing curl"
    command -v redis-server >/dev/null || missing="$missing redis-server"
    command -v chromium >/dev/null && command -v chromedriver >/dev/null || missing="$missing chromium chromium-driver"
    command -v curl-config >/dev/null || missing="$missing libcurl4-openssl-dev" # what the dashboard writes in C++ is compiled
    command -v javac >/dev/null || missing="$missing default-jdk-headless"
    command -v mvn >/dev/null || missing="$missing maven"
    command -v valgrind >/dev/null || missing="$missing valgrind"
    # What the programs of docs/use/*-client.md need.
    command -v grpc_cpp_plugin >/dev/null || missing="$missing libgrpc++-dev protobuf-compiler protobuf-compiler-grpc pkg-config"
    [ -e /usr/include/nlohmann/json.hpp ] || missing="$missing nlohmann-json3-dev"
    [ -e /usr/share/java/gson.jar ] || missing="$missing libgoogle-gson-java"
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt() { scripts/retry.sh apt-get -qq -o Acquire::Retries=3 -o Acquire::http::Timeout=60 -o DPkg::Lock::Timeout=300 "$@"; }
  if [ -n "$needed$missing" ]; then
    apt update || echo "setup: the lists of packages could not be read anew, those that are here are used" >&2
  fi
  # shellcheck disable=SC2086 # lists of packages
  if [ -n "$needed" ] && ! apt install -y $needed; then
    echo "setup: cannot go on without the Debian packages$needed" >&2
    exit 1
  fi
  # shellcheck disable=SC2086
  if [ -n "$missing" ] && ! apt install -y $missing; then
    echo "setup: not installed:$missing; what needs them fails, or says that it is skipped" >&2
  fi
fi

# A setup that was broken off leaves an environment without pip, another
# interpreter one that does not start.
.venv/bin/python -c '' 2>/dev/null || "$python" -m venv --clear .venv
has_pip() { .venv/bin/python -m pip --version >/dev/null 2>&1; }
has_pip || .venv/bin/python -m ensurepip >/dev/null 2>&1 || true
has_pip || "$python" -m venv --clear .venv
export PIP_DEFAULT_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-60}"
echo "setup: the Python packages of $requirements go into .venv, which takes a minute or more"
pip() { scripts/retry.sh .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@" -r "$requirements"; }
if ! RETRY_PAUSES=5 pip; then
  echo "setup: once more, without what pip keeps of earlier downloads" >&2
  RETRY_PAUSES='' pip --no-cache-dir
fi
[ -n "$programs" ] || exit 0

# The emulator of Azure's storage is a program for Node; without it its tests
# say that they are skipped.
if command -v npm >/dev/null && [ ! -x .tools/azurite/node_modules/.bin/azurite-blob ]; then
  RETRY_PAUSES=5 scripts/retry.sh npm install --silent --no-fund --no-audit --fetch-retries=2 --fetch-timeout=60000 \
    --prefix .tools/azurite azurite@3 ||
    echo "setup: azurite is not installed" >&2
fi
# What the programs of docs/use/javascript.md and of docs/use/openai.md need.
if command -v npm >/dev/null && [ ! -d .tools/javascript/node_modules/openai ]; then
  RETRY_PAUSES=5 scripts/retry.sh npm install --silent --no-fund --no-audit --fetch-retries=2 --fetch-timeout=60000 \
    --prefix .tools/javascript \
    @grpc/grpc-js@1 grpc-js-reflection-client@1 openai ||
    echo "setup: the packages for JavaScript are not installed" >&2
fi
