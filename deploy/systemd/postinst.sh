#!/bin/sh
# After an installation nothing is started: models and addresses come first. After an
# upgrade a running server is replaced. $1 is "configure" of dpkg (then $2 is the
# version before) or a number of rpm.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if [ "$1" = configure ] && [ -n "$2" ] || [ "$1" = 2 ]; then
    systemctl try-restart neso.service
  fi
fi
