#!/bin/sh
# Loads a server in a JVM with requests, signals and collections for MINUTES (10), and
# prints every half minute what was done, and what the process holds.
set -eu
cd "$(dirname "$0")"
minutes=${1-10}
../scripts/java.sh verify -DskipTests
models=$(mktemp -d)
trap 'rm -rf "$models"' EXIT
mkdir -p "$models/identity/1" "$models/repeat/1"
cat >"$models/identity/config.pbtxt" <<'END'
backend: "identity"
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ -1 ] }
END
cat >"$models/repeat/config.pbtxt" <<'END'
backend: "repeat"
input { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }
input { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] }
input { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
END
java -Xcheck:jni -Xmx64m -Djava.library.path=../build/lib -cp 'target/classes:target/test-classes:target/lib/*' \
  io.github.nesoserve.Torture "$models" $((minutes * 60))
