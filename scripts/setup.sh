#!/bin/sh
# Makes .venv. As root on Debian it also installs what Python's venv and the
# race detector need, and the Redis that tests of the response cache start. Safe
# to run again.
set -eu
cd "$(dirname "$0")/.."
python=${NESO_SETUP_PYTHON:-python3}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  missing=
  command -v cc >/dev/null || missing="$missing gcc libc6-dev"
  command -v c++ >/dev/null || missing="$missing g++" # PyTorch compiles with it
  command -v curl >/dev/null || missing="$missing curl"
  command -v redis-server >/dev/null || missing="$missing redis-server"
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
  if [ -n "$missing" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
  fi
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv
echo "setup: the Python packages of scripts/requirements.txt go into .venv, which takes a minute or more"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/requirements.txt

# The emulator of Azure's storage is a program for Node; without it its tests
# say that they are skipped.
if command -v npm >/dev/null && [ ! -x .tools/azurite/node_modules/.bin/azurite-blob ]; then
  npm install --silent --no-fund --no-audit --prefix .tools/azurite azurite@3 || echo "setup: azurite is not installed" >&2
fi
