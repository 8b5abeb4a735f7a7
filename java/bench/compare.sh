#!/bin/bash
# Java against C, in process, by turns: microseconds a request of BYTES (1 MiB) to the
# model `identity`, in ROUNDS (5) of SECONDS (4), by the clock and of the processor,
# and the ratios of the medians.
set -euo pipefail
cd "$(dirname "$0")/.."
bytes=${1-1048576} rounds=${2-5} seconds=${3-4}
../scripts/java.sh verify -DskipTests
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$made/models/identity/1"
cat >"$made/models/identity/config.pbtxt" <<'END'
backend: "identity"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
END
cc -O2 -Wall -Wextra -I../include bench/infer.c -o "$made/infer" -L../build/lib -ltritonserver -lpthread
javac --release 17 -cp target/classes -d "$made" bench/Infer.java
export LD_LIBRARY_PATH=$PWD/../build/lib
for ((i = 0; i < rounds; i++)); do
  "$made/infer" "$made/models" "$bytes" "$seconds" >>"$made/c"
  # shellcheck disable=SC2086 # flags of the JVM
  java ${JAVA_FLAGS-} -cp "$made:target/classes:target/lib/*" Infer "$made/models" "$bytes" "$seconds" >>"$made/java"
  echo "C $(tail -n 1 "$made/c") us, Java $(tail -n 1 "$made/java") us (clock, processor)"
done
# The median of a column of both files, and their ratio.
ratio() {
  median() { awk -v c="$2" '{ print $c }' "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
  awk -v c="$(median "$made/c" "$1")" -v j="$(median "$made/java" "$1")" -v what="$2" -v bytes="$bytes" \
    'BEGIN { printf "%s bytes, %s: C %s us, Java %s us, ratio %.2f\n", bytes, what, c, j, j / c }'
}
ratio 1 'by the clock'
ratio 2 'of the processor'
