#!/bin/bash
# web.sh build: internal/dashboard/assets, what the server embeds, from web/.
# web.sh check: whether the types of web/ are right, its tests pass and the assets are what it gives;
# says so where npm or its packages cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../web"
out=../internal/dashboard/assets
packages() {
  command -v node >/dev/null && command -v npm >/dev/null || { echo "there is no Node.js with npm" && return 1; }
  if [ ! -x node_modules/.bin/tsc ] || [ ! -x node_modules/.bin/esbuild ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    RETRY_PAUSES=5 ../scripts/retry.sh npm ci --silent --no-fund --no-audit --ignore-scripts --fetch-retries=2 --fetch-timeout=60000 ||
      { echo "npm cannot install its packages" && return 1; }
    touch node_modules/.package-lock.json
  fi
}
case ${1-} in
build)
  packages
  node build.mjs $out
  ;;
check)
  packages || { echo "web: not checked" && exit 0; }
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  node_modules/.bin/tsc --noEmit
  node test.mjs
  node build.mjs "$made"
  diff -rq "$made" $out || { echo "web: internal/dashboard/assets is not what web/ gives: make web" >&2 && exit 1; }
  ;;
*)
  echo "usage: scripts/web.sh build|check" >&2
  exit 2
  ;;
esac
