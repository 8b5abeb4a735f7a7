#!/bin/sh
# Puts into build/gpu what `make gpu-check` needs on a machine with a GPU that has neither Go nor a network: the
# binary, and the Python clients as wheels for PYTHON_VERSION (default 3.12).
set -eu
cd "$(dirname "$0")/.."
rm -rf build/gpu
mkdir -p build/gpu/wheels
gzip -9 <bin/neso >build/gpu/neso.gz
version=${PYTHON_VERSION:-3.12}
platforms=
for tag in _2_28 _2_27 _2_24 _2_17 2014 1; do platforms="$platforms --platform manylinux${tag}_x86_64"; done
# shellcheck disable=SC2086 # a list of options
scripts/retry.sh .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version "$version" --implementation cp $platforms --platform any -d build/gpu/wheels \
  tritonclient geventhttpclient gevent greenlet zope.event zope.interface brotli python-rapidjson
du -sh build/gpu
