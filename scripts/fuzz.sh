#!/bin/sh
# Runs every fuzz target of the module for the given time each.
set -eu
cd "$(dirname "$0")/.."
time=${1:-10s}
for pkg in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$pkg" 2>/dev/null | grep '^Fuzz' || true); do
    echo "$pkg $target"
    go test -run '^$' -fuzzminimizetime 1x -fuzz "^$target\$" -fuzztime "$time" "$pkg"
  done
done
