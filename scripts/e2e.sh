#!/bin/bash
# The tests end to end, in two halves beside each other: they mostly wait for what
# they started. The second half is told when the first has ended.
set -uo pipefail
cd "$(dirname "$0")/.."
second=$(mktemp -d)
chmod 755 "$second" # tests run as another user, too
trap 'kill "$pid" 2>/dev/null; rm -rf "$second"' EXIT
halves=("backends operate" "capi differential hostile java perf protocol scheduling")
# What is in neither is no test, or is run by scripts/frameworks.sh, make gpu-check or make e2e-cluster.
for path in e2e/*/test_*.py; do
  suite=${path#e2e/} suite=${suite%%/*}
  case " ${halves[*]} frameworks gpu cluster " in
  *" $suite "*) ;;
  *) echo "e2e.sh: $path is in no half" >&2 && exit 1 ;;
  esac
done
tests() {
  # shellcheck disable=SC2086 # a list of directories
  .venv/bin/python -m pytest -q $(printf 'e2e/%s ' $1)
}
# A second pytest takes the first one's directory from other users.
PYTEST_DEBUG_TEMPROOT=$second tests "${halves[1]}" >"$second/log" 2>&1 &
pid=$!
tests "${halves[0]}"
first=$?
wait "$pid"
code=$?
cat "$second/log"
exit $((first | code))
