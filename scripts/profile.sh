#!/bin/sh
# Makes cmd/neso/neso.pgo, the profile that released binaries are built with, from
# the load of bench/compare.py: small requests, where the server's own time counts.
set -eu
cd "$(dirname "$0")/.."
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT
CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -o "$profiles/neso" ./bench/profiled
NESO_PROFILES=$profiles .venv/bin/python bench/compare.py --no-peer --neso "$profiles/neso" --out "$profiles/results.md" \
  --rounds "${ROUNDS:-3}" --seconds "${SECONDS_EACH:-3}" \
  --only '^(no-op 64|no-op 1 MiB|Python add/sub, .*(c8|c32)|ensemble of three, 64|BLS one exec, 64|cache hit|decoupled)'
go tool pprof -symbolize=none -proto "$profiles"/*.pprof >"$profiles/merged" 2>/dev/null
go tool preprofile -o /dev/null -i "$profiles/merged"
mv "$profiles/merged" cmd/neso/neso.pgo
ls -l cmd/neso/neso.pgo
