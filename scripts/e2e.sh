#!/bin/bash
# The tests end to end, in four tracks beside each other: they mostly wait for what
# they started. The others are told when the first has ended.
set -uo pipefail
cd "$(dirname "$0")/.."
tracks=("operate" "hostile protocol scheduling" "backends capi differential java perf" "ship")
# What is in none is no test, or is run by scripts/frameworks.sh, make gpu-check or make e2e-cluster.
for path in e2e/*/test_*.py; do
  suite=${path#e2e/} suite=${suite%%/*}
  case " ${tracks[*]} frameworks gpu cluster " in
  *" $suite "*) ;;
  *) echo "e2e.sh: $path is in no track" >&2 && exit 1 ;;
  esac
done
aside=$(mktemp -d)
chmod 755 "$aside" # tests run as another user, too
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; rm -rf "$aside"' EXIT
tests() {
  # shellcheck disable=SC2086 # a list of directories
  .venv/bin/python -m pytest -q -rs $(printf 'e2e/%s ' $1)
}
for ((i = 1; i < ${#tracks[@]}; i++)); do
  mkdir -m 755 "$aside/$i" # one pytest takes another's directory from other users
  PYTEST_DEBUG_TEMPROOT=$aside/$i tests "${tracks[i]}" >"$aside/$i/log" 2>&1 &
  pids+=($!)
done
tests "${tracks[0]}"
code=$?
for ((i = 1; i < ${#tracks[@]}; i++)); do
  wait "${pids[i - 1]}" || code=1
  cat "$aside/$i/log"
done
exit $code
