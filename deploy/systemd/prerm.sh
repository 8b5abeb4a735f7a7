#!/bin/sh
# Before a removal ($1 is "remove" of dpkg, 0 of rpm) the server is stopped.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
  systemctl disable --now neso.service
fi
