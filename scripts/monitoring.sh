#!/bin/sh
# Makes what e2e/operate/test_watched.py needs to run what deploy has for watching servers, in .tools/monitoring: Debian's
# prometheus and promtool where none are installed (a download of 19 MB), and OpenTelemetry's collector, built from its
# modules (tools/collector). Nothing of the machine is changed. Needs apt-get, dpkg-deb, Go and the network.
set -eu
cd "$(dirname "$0")/.."
into=$PWD/.tools/monitoring
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$into"
if ! { command -v prometheus && command -v promtool; } >/dev/null && [ ! -x "$into/promtool" ]; then
  retry=$PWD/scripts/retry.sh
  (cd "$work" && "$retry" apt-get -qq -o APT::Sandbox::User= -o Acquire::Retries=3 download prometheus)
  dpkg-deb --fsys-tarfile "$work"/prometheus_*.deb | tar -x -C "$work" ./usr/bin/prometheus ./usr/bin/promtool
  mv "$work/usr/bin/prometheus" "$work/usr/bin/promtool" "$into/"
fi
# Without what finds servers in clouds (remove_all_sd), which the file does not name, and without the optimizer: half the work.
cd tools/collector
../../scripts/retry.sh "${GO:-go}" mod download
CGO_ENABLED=0 "${GO:-go}" build -tags remove_all_sd -gcflags='all=-N -l -dwarf=false' -ldflags='-s -w' -o "$into/collector" .
