#!/bin/bash
# What CI runs, and `make check`: build, all tests, lint, known vulnerabilities, the
# tests as users build, conformance. A step that fails does not stop the others.
# They must leave the tree as they found it.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
tree() { git status --porcelain 2>/dev/null; }
before=$(tree)
step() {
  echo "::: $*"
  local t=$SECONDS
  "$@" || { echo "::: FAILED: $*"; status=1; }
  echo "::: took $((SECONDS - t)) s"
}
# The tests of the frameworks mostly wait for imports, those end to end for each
# other's servers: beside each other they take little longer than one of them.
beside() {
  aside=$(mktemp -d)
  chmod 755 "$aside" # tests run as another user, too
  trap 'kill "$pid" 2>/dev/null; rm -rf "$aside"' EXIT
  # A second pytest takes the first one's directory from other users.
  PYTEST_DEBUG_TEMPROOT=$aside "$@" >"$aside/log" 2>&1 &
  pid=$!
}
told() {
  wait "$pid"
  local code=$?
  cat "$aside/log"
  return $code
}
echo "::: $(df -Pm . | awk 'NR == 2 { print $4 }') MB of disk are free"
step make --no-print-directory setup build
beside scripts/frameworks.sh --if-possible
step make --no-print-directory test
step told scripts/frameworks.sh
step make --no-print-directory lint
step make --no-print-directory vuln
step make --no-print-directory test-nocgo
step make --no-print-directory conformance
if [ "$(tree)" != "$before" ]; then
  echo "::: FAILED: files were left behind"
  diff <(echo "$before") <(tree)
  status=1
fi
exit $status
