#!/bin/sh
# Generates internal/inferencepb from the .proto files beside this script.
#
# Needs protoc on PATH (Debian and Ubuntu: apt-get install protobuf-compiler).
# The Go plugin is pinned by the tool line in go.mod.
set -eu

proto=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$proto")

command -v protoc >/dev/null || {
	echo "protoc is missing: apt-get install protobuf-compiler" >&2
	exit 1
}

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd "$root" && go build -o "$bin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go)

protoc --plugin="$bin/protoc-gen-go" --proto_path="$proto" \
	--go_out="$root" --go_opt=module=github.com/nesoserve/neso \
	neso/inference/model_config.proto neso/inference/service.proto

# The version of protoc is no property of the code: without it the output is
# the same whichever protoc is at hand.
sed -i.bak '/^\/\/ .*protoc  *v[0-9]/d' "$root"/internal/inferencepb/*.pb.go
rm -f "$root"/internal/inferencepb/*.bak
