#!/usr/bin/env bash
# Runs a command where loopback is all the network there is, and where nothing it starts outlives
# it. Needs Linux with user namespaces; OFFLINE=no runs it as it is. Temporary files go when it
# ends well: some clients leave daemons behind that write until the end.
set -euo pipefail

if [ "${OFFLINE:-}" = no ]; then
    exec "$@"
fi
if ! unshare --map-root-user --net --pid --fork --kill-child --mount-proc true 2>/dev/null; then
    echo "$0: this machine gives no namespaces; OFFLINE=no runs it with the network" >&2
    exit 1
fi
temporary=$(mktemp -d)
TMPDIR="$temporary" unshare --map-root-user --net --pid --fork --kill-child --mount-proc \
    sh -c 'ip link set lo up && exec "$@"' sh "$@" &
inside=$!
# It pays no heed to milder signals, and takes everything inside with it.
trap 'kill -KILL "$inside"' INT TERM
status=0
wait "$inside" || status=$?
if [ "$status" = 0 ]; then
    rm -rf "$temporary"
fi
exit "$status"
