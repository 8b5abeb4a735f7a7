#!/bin/sh
# Runs a command that needs the network, and runs it again when it fails: after 5
# seconds, and after 30 more. RETRY_PAUSES names other pauses. The exit status is
# that of the last run.
for pause in ${RETRY_PAUSES-5 30} end; do
  "$@" && exit 0
  status=$?
  [ "$pause" = end ] && break
  echo "retry: \`$*\` failed with status $status; once more in $pause s" >&2
  sleep "$pause"
done
echo "retry: \`$*\` failed with status $status for the last time" >&2
exit "$status"
