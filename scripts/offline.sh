#!/usr/bin/env bash
# Runs a command where loopback is all the network there is, and where nothing it starts outlives
# it. Needs Linux with user namespaces; OFFLINE=no runs it as it is.
set -euo pipefail

if [ "${OFFLINE:-}" = no ]; then
    exec "$@"
fi
if ! unshare --map-root-user --net --pid --fork --kill-child --mount-proc true 2>/dev/null; then
    echo "$0: this machine gives no namespaces; OFFLINE=no runs it with the network" >&2
    exit 1
fi
exec unshare --map-root-user --net --pid --fork --kill-child --mount-proc \
    sh -c 'ip link set lo up && exec "$@"' sh "$@"
