#!/bin/sh
# Makes the profiles that released binaries are built with, cmd/neso/neso.pgo and, for what
# runs in neso-host, cmd/libtritonserver/libtritonserver.pgo, from the load of
# bench/compare.py: small requests, where the server's own time counts.
set -eu
cd "$(dirname "$0")/.."
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT
CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -o "$profiles/neso" ./bench/profiled
CGO_ENABLED=1 go build -trimpath -tags grpcnotrace,profiled -buildmode=c-shared -o "$profiles/libtritonserver.so" ./cmd/libtritonserver
cp build/lib/neso-host "$profiles/"
NESO_PROFILES=$profiles NESO_HOST=$profiles/neso-host .venv/bin/python bench/compare.py --no-peer --neso "$profiles/neso" \
  --out "$profiles/results.md" --rounds "${ROUNDS:-3}" --seconds "${SECONDS_EACH:-3}" \
  --only '^(no-op 64|no-op 1 MiB|Python add/sub, .*(c8|c32)|ensemble of three, 64|BLS one exec, 64|cache hit|decoupled|native identity 64)'

# merge PATTERN FILE
merge() {
  go tool pprof -symbolize=none -proto $1 >"$profiles/merged" 2>/dev/null
  go tool preprofile -o /dev/null -i "$profiles/merged"
  mv "$profiles/merged" "$2"
  ls -l "$2"
}
merge "$profiles/host-*.pprof" cmd/libtritonserver/libtritonserver.pgo
merge "$profiles/[0-9]*.pprof" cmd/neso/neso.pgo
