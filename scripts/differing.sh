#!/bin/bash
# Prints the packages whose Go tests `make test` cannot answer for, because it runs
# them with cgo, the race detector and the tag `invariants`, and users build without:
# - other files are compiled then (build constraints);
# - they import what works in another way without cgo (C libraries opened by purego,
#   os/user) or the switch of the invariants;
# - their tests count allocations, which the race detector changes.
# All others are the same code; as users build it, tests end to end run it.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
module=$($go list -m)
list() { $go list "$@" ./...; }
files='{{.ImportPath}} {{.GoFiles}} {{.CgoFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}'
{
  comm -13 <(CGO_ENABLED=1 list -race -tags invariants -f "$files" | sort) <(CGO_ENABLED=0 list -f "$files" | sort) | cut -d' ' -f1
  list -f '{{range .Imports}}{{$.ImportPath}} {{.}}
{{end}}{{range .TestImports}}{{$.ImportPath}} {{.}}
{{end}}{{range .XTestImports}}{{$.ImportPath}} {{.}}
{{end}}' | awk -v m="$module" '
    $2 == "os/user" || $2 == "github.com/ebitengine/purego" || $2 == m "/internal/invariants" ||
    $2 == m "/backend/internal/library" || $2 == m "/backend/internal/librarytest" { print $1 }'
  git ls-files '*_test.go' | xargs grep -lE 'testing\.(AllocsPerRun|Benchmark)\(' | sed "s|^|$module/|; s|/[^/]*$||"
} | sort -u
