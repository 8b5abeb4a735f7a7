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
# Tests end to end leave more than half of two cores idle: tracks of other steps run
# beside them, each one step after the other, and are told afterwards. What only
# computes stands back (nice).
declare -A track where
asides=()
trap 'kill "${track[@]}" 2>/dev/null; rm -rf "${asides[@]}"' EXIT
beside() {
  local command aside stand_back t
  aside=$(mktemp -d)
  asides+=("$aside")
  chmod 755 "$aside" # tests run as another user, too
  # A second pytest takes the first one's directory from other users.
  for command; do
    t=$SECONDS
    case $command in *make*) stand_back="nice -n 15" ;; *) stand_back= ;; esac
    PYTEST_DEBUG_TEMPROOT=$aside $stand_back $command >"$aside/${command//[^a-z]/}" 2>&1
    echo "$? $((SECONDS - t))" >"$aside/${command//[^a-z]/}.end"
  done &
  for command; do
    track[$command]=$! where[$command]=$aside/${command//[^a-z]/}
  done
}
told() {
  local code took
  wait "${track[$*]}"
  cat "${where[$*]}"
  read -r code took <"${where[$*]}.end"
  echo "::: ran $took s beside others"
  return "$code"
}
echo "::: $(df -Pm . | awk 'NR == 2 { print $4 }') MB of disk are free"
# The modules compile while Python's packages are fetched; C needs what setup installs.
step make --no-print-directory -j2 setup build
step make --no-print-directory capi
export SUT_SLOW=${SUT_SLOW:-2} # the bounds of time in the conformance suites, which run beside others
beside 'scripts/frameworks.sh --if-possible' 'scripts/conformance.sh'
beside 'make --no-print-directory lint' 'make --no-print-directory test-differing' 'make --no-print-directory vuln'
step make --no-print-directory test
step told scripts/frameworks.sh --if-possible
step told scripts/conformance.sh
step told make --no-print-directory lint
step told make --no-print-directory test-differing
step told make --no-print-directory vuln
if [ "$(tree)" != "$before" ]; then
  echo "::: FAILED: files were left behind"
  diff <(echo "$before") <(tree)
  status=1
fi
exit $status
