#!/bin/sh
# Builds the Java layer in java/ and runs its tests with Maven, over build/lib. The
# first time Maven downloads what it needs, in several attempts; after that it runs
# without the network. Arguments go to Maven: `scripts/java.sh verify -Dtest=...`.
set -eu
cd "$(dirname "$0")/../java"
for tool in mvn java javac c++; do
  command -v "$tool" >/dev/null || { echo "java.sh: needs Maven, a JDK of 17 or newer and a C++ compiler: there is no $tool" >&2; exit 1; }
done
[ -e ../build/lib/libtritonserver.so ] || { echo "java.sh: needs build/lib/libtritonserver.so, which \`make capi\` makes" >&2; exit 1; }
# What the glue of Triton's developer tools asks for.
tools=../build/lib/libtritondevelopertoolsserver.so
if [ ! -e "$tools" ] || [ -n "$(find native -newer "$tools")" ]; then
  c++ -O2 -std=c++17 -Wall -Wextra -fPIC -shared -Wl,-soname,libtritondevelopertoolsserver.so -I../include \
    native/*.cc -o "$tools" -L../build/lib -ltritonserver
fi
if [ ! target/.downloaded -nt pom.xml ]; then
  # With a test: what runs tests is downloaded when they run.
  ../scripts/retry.sh mvn -B -q -ntp verify -Dtest=DeveloperToolsTest
  touch target/.downloaded
fi
[ $# -gt 0 ] || set -- verify
exec mvn -o -B -q -ntp "$@"
