#!/bin/bash
# Looks the modules and the standard library up in Go's vulnerability database.
# Exit status: 0 nothing found, or the database cannot be reached, which is said
# in so many words; 3 the code calls something with a known vulnerability; else
# the check itself failed. VULN_DB names another database (file:// or https://).
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
limit=() # of a database that begins to answer and stops
command -v timeout >/dev/null && limit=(timeout 900)
${limit[@]+"${limit[@]}"} .tools/bin/govulncheck ${VULN_DB:+-db "$VULN_DB"} ./... 2>&1 | tee "$out"
status=${PIPESTATUS[0]}
away='dial tcp|no such host|connection refused|i/o timeout|TLS handshake timeout|proxyconnect|EOF|read tcp|connection reset'
if [ "$status" != 0 ] && [ "$status" != 3 ] &&
  grep -qE "^govulncheck: fetching vulnerabilities: .*($away|x509: |context deadline|5[0-9][0-9] )" "$out" ||
  [ "$status" = 124 ]; then
  echo "vuln: NOT CHECKED: the vulnerability database cannot be reached from here"
  exit 0
fi
exit "$status"
