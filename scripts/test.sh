#!/usr/bin/env bash
# Runs every test whose needs are met on this machine, after setup.sh. A test says what it needs
# beside Rust: #[ignore = "needs git, landlock and perl: why"]. Tests with an unmet need are not
# run and not counted as passed; the last line counts and names them. Arguments go to cargo test.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
# Tests create files that must count as the user's own: no group may write to them.
umask 022

# check NEED: whether this machine has it.
check() {
    case $1 in
        chromium) command -v chromium && command -v chromedriver ;;
        git | perl | pgrep | tmux) command -v "$1" ;;
        python) python3 --version ;;
        'a linker') command -v cc ;;
        root) [ "$(id -u)" = 0 ] ;;
        # What Linux 6.2 has; the call's number is the same on every processor.
        landlock) perl -e 'exit(syscall(444, 0, 0, 1) < 3)' ;;
        'small disks') unshare --mount mount -t tmpfs tmpfs /tmp ;;
        'network namespaces') command -v nft && unshare --net ip link set lo up ;;
        'a bare machine') unshare --mount --pid --net --fork ip link set lo up ;;
        libfaketime) ls /usr/lib/*/faketime/libfaketimeMT.so.1 ;;
        strace) strace -o /dev/null true ;;
        'the MCP SDKs' | 'the MCP Inspector' | 'the MCP conformance suite' | 'python with grpcio')
            [ -f target/sdk/ready ]
            ;;
        'a minute' | 'the test below') ;;
        *) return 99 ;;
    esac > /dev/null 2>&1
}

./scripts/setup.sh || echo 'Tests that need what is missing will be skipped.' >&2

tests=(cargo test --workspace "$@")
"${tests[@]}" --no-run
# Only tests that are not run print their reason: list those to be ignored, then ignore them.
list=("${tests[@]}" --lib --bins --tests --)
names=$("${list[@]}" --ignored --list --format terse 2> /dev/null | sed -n 's/: test$//p')
# shellcheck disable=SC2086 # One name is one word.
reasons=$("${list[@]}" --exact $names 2> /dev/null | sed -n 's/^test \(.*\) \.\.\. ignored/\1/p')

skipped=()
arguments=(--include-ignored --exact)
while IFS=, read -r name reason; do
    needs=${reason# needs }
    needs=${needs%%:*}
    needs=${needs// and /, }
    while read -r need; do
        status=0
        check "$need" || status=$?
        case $status in
            0) continue ;;
            99) echo "$0: $name has the unknown need '$need'" >&2 && exit 1 ;;
        esac
        skipped+=("$name ($need)")
        arguments+=(--skip "$name")
        break
    done <<< "${needs//, /$'\n'}"
done <<< "$reasons"

# Tests at the edge wait more than they compute, so they run beside all others, whose output follows.
edges=(--test edges --test machines)
others=(--lib --bins)
for name in $(cargo metadata --no-deps --format-version 1 \
    | grep -o '"kind":\["test"\],"crate_types":\["bin"\],"name":"[^"]*"' \
    | sed 's/.*"name":"//; s/"//' | sort -u); do
    [[ " ${edges[*]} " == *" $name "* ]] || others+=(--test "$name")
done
output=$(mktemp)
(
    status=0
    "${tests[@]}" "${others[@]}" --no-fail-fast -- "${arguments[@]}" || status=$?
    "${tests[@]}" --doc || status=$?
    exit "$status"
) > "$output" 2>&1 &
beside=$!
trap 'kill "$beside" 2> /dev/null || true; rm -f "$output"' EXIT
status=0
"${tests[@]}" "${edges[@]}" --no-fail-fast -- "${arguments[@]}" || status=$?
wait "$beside" || status=$?
cat "$output"
if [ "${#skipped[@]}" = 0 ]; then
    echo 'Skipped 0 tests.'
else
    list=$(printf ', %s' "${skipped[@]}")
    echo "Skipped ${#skipped[@]} tests for what they need: ${list#, }"
fi
exit "$status"
