#!/bin/sh
# Makes what e2e/operate/test_edge.py needs to run the server as on arm64: bin/neso-arm64,
# and in .tools/arm64 Debian's Python with numpy for it, and the emulator qemu-aarch64-static
# (a download of 63 MB) where none is installed. Nothing of the machine is changed. Needs
# apt-get, dpkg-deb and the network.
set -eu
cd "$(dirname "$0")/.."
CGO_ENABLED=0 GOARCH=arm64 ${GO:-go} build -tags grpcnotrace -ldflags '-s -w' -o bin/neso-arm64 ./cmd/neso
into=$PWD/.tools/arm64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root/usr/lib/python3/dist-packages" "$work/bin"
: >"$work/status"
python=${NESO_SETUP_PYTHON:-python3}
[ ! -x .venv/bin/python ] || python=.venv/bin/python
"$python" -m pip download --quiet --no-deps --only-binary :all: \
  --platform manylinux2014_aarch64 --python-version 3.11 -d "$work" 'numpy==2.2.*'
"$python" -m zipfile -e "$work"/numpy-*.whl "$work/root/usr/lib/python3/dist-packages"
cd "$work/debs"
apt() {
  ../retry.sh apt-get -qq -o Dir::State::lists="$work/lists" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Debug::NoLocking=1 -o APT::Sandbox::User= -o Acquire::Retries=3 "$@"
}
cp "$OLDPWD/scripts/retry.sh" "$work/retry.sh"
apt update
apt download libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libbz2-1.0 liblzma5 libuuid1 libcrypt1 libssl3 \
  libpython3.11-minimal libpython3.11-stdlib python3.11-minimal
for deb in *.deb; do dpkg-deb -x "$deb" "$work/root"; done
if ! command -v qemu-aarch64-static >/dev/null; then
  mkdir "$work/qemu"
  cd "$work/qemu"
  apt-get -qq -o APT::Sandbox::User= download qemu-user-static
  dpkg-deb --fsys-tarfile ./*.deb | tar -xO ./usr/bin/qemu-aarch64-static >"$work/bin/qemu-aarch64-static"
  chmod 755 "$work/bin/qemu-aarch64-static"
fi
rm -rf "$into"
mkdir -p "$into"
mv "$work/root" "$work/bin" "$into/"
