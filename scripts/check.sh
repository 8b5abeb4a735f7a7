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
# Tests end to end leave more than half of two cores idle: others run beside them,
# one after the other, and are told afterwards. What only computes stands back.
beside() {
  aside=$(mktemp -d)
  chmod 755 "$aside" # tests run as another user, too
  trap 'kill "$pid" 2>/dev/null; rm -rf "$aside"' EXIT
  # A second pytest takes the first one's directory from other users.
  for command; do
    t=$SECONDS
    case $command in *make*) stand_back="nice -n 15" ;; *) stand_back= ;; esac
    PYTEST_DEBUG_TEMPROOT=$aside $stand_back $command >"$aside/${command//[^a-z]/}" 2>&1
    echo "$? $((SECONDS - t))" >"$aside/${command//[^a-z]/}.end"
  done &
  pid=$!
}
told() {
  wait "$pid"
  local words="$*" name code took
  name=${words//[^a-z]/}
  cat "$aside/$name"
  read -r code took <"$aside/$name.end"
  echo "::: ran $took s beside others"
  return "$code"
}
echo "::: $(df -Pm . | awk 'NR == 2 { print $4 }') MB of disk are free"
step make --no-print-directory setup build
beside 'scripts/frameworks.sh --if-possible' 'make --no-print-directory lint' 'make --no-print-directory test-nocgo'
step make --no-print-directory test
step told scripts/frameworks.sh --if-possible
step told make --no-print-directory lint
step told make --no-print-directory test-nocgo
step make --no-print-directory vuln
step make --no-print-directory conformance
if [ "$(tree)" != "$before" ]; then
  echo "::: FAILED: files were left behind"
  diff <(echo "$before") <(tree)
  status=1
fi
exit $status
