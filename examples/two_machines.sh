#!/usr/bin/env bash
# Two machines on one: a host with a broker and a laptop with a node, each a network namespace of
# its own, joined by a cable. Types what the README says under "Two machines", then pulls the
# cable and puts it back. Needs Linux, root and iproute2; leaves nothing behind.
#
# Run it: cargo build --workspace && sudo ./examples/two_machines.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
programs=$(realpath -m "${PROGRAMS:-${CARGO_TARGET_DIR:-$root/target}/debug}")
unmet=()
for program in tasuki tasuki-broker; do
    [ -x "$programs/$program" ] || unmet+=("$programs/$program: run cargo build --workspace")
done
command -v ip > /dev/null || unmet+=('ip: install iproute2')
if [ "$(id -u)" != 0 ]; then
    unmet+=('root: run it with sudo')
elif ! unshare --net true 2> /dev/null; then
    unmet+=('Linux with network namespaces, which this system or container forbids')
fi
if [ "${#unmet[@]}" != 0 ]; then
    printf '%s needs what is missing here:\n' "$0" >&2
    printf '  %s\n' "${unmet[@]}" >&2
    exit 1
fi

homes=$(mktemp -d)
started=()
clean_up() {
    for pid in "${started[@]}"; do
        kill -TERM "$pid" 2> /dev/null || true
        wait "$pid" 2> /dev/null || true
    done
    # The cable goes with its ends.
    ip netns delete "tasuki-$$-host" 2> /dev/null || true
    ip netns delete "tasuki-$$-laptop" 2> /dev/null || true
    rm -rf "$homes"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

ip netns add "tasuki-$$-host"
ip netns add "tasuki-$$-laptop"
ip -n "tasuki-$$-host" link add cable type veth peer name cable netns "tasuki-$$-laptop"
number=1
for machine in host laptop; do
    ip -n "tasuki-$$-$machine" link set lo up
    ip -n "tasuki-$$-$machine" address add "10.77.0.$number/24" dev cable
    ip -n "tasuki-$$-$machine" link set cable up
    # All else is at the other end, too; a machine's own address is the one it would go there with.
    ip -n "tasuki-$$-$machine" route add default dev cable
    mkdir "$homes/$machine"
    number=$((number + 1))
done

# on MACHINE COMMAND…: with a home of its own.
on() {
    local machine=$1
    shift
    cd "$homes/$machine"
    exec ip netns exec "tasuki-$$-$machine" env -i HOME="$homes/$machine" USER=alice \
        PATH="$programs:$PATH" RUST_LOG=error "$@"
}
type_on() {
    printf '\n%s$ %s\n' "$1" "${*:2}"
    (on "$@")
}
# Returns once it printed a line that ends with $1.
start_on() {
    local ready=$1 machine=$2
    shift 2
    printf '\n%s$ %s\n' "$machine" "$*"
    local said="$homes/$machine.said"
    (on "$machine" "$@") > "$said" &
    started=("$!" "${started[@]}")
    until_true grep -qF -- "$ready" "$said"
    cat "$said"
}
# Asks until it is so, for half a minute.
until_true() {
    for _ in $(seq 300); do
        if "$@" > /dev/null 2>&1; then
            return
        fi
        sleep 0.1
    done
    echo "$0: it did not come to this: $*" >&2
    exit 1
}
shows() {
    (on laptop tasuki status) 2>&1 | grep -q -- "$1"
}

start_on '(broker gRPC)' host tasuki-broker serve --listen 0.0.0.0:7420
printf '\nhost$ tasuki-broker invite --role dev --role qa\n'
invited=$(on host tasuki-broker invite --role dev --role qa)
echo "$invited"
read -ra line <<< "$(grep '^tasuki join ' <<< "$invited")"
type_on laptop "${line[@]}"
start_on '(MCP)' laptop tasuki node
until_true shows '  present  '
type_on laptop tasuki status

printf '\nThe line works once:\n'
type_on laptop "${line[@]}" --data "$homes/laptop/other" || echo "(exit code $?)"

printf '\nThe cable is pulled:\n'
ip -n "tasuki-$$-laptop" link set cable down
type_on laptop tasuki status || echo "(exit code $?)"

printf '\nAnd put back:\n'
ip -n "tasuki-$$-laptop" link set cable up
ip -n "tasuki-$$-laptop" route replace default dev cable
until_true shows '  present  '
type_on laptop tasuki status
printf '\nOne host, one laptop, five lines.\n'
