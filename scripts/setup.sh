#!/usr/bin/env bash
# Installs what checking and testing need beside Rust: programs with apt, as root or through sudo,
# on Debian and Ubuntu, and the SDKs with sdk-setup.sh. Fast when everything is there.
# Fails where something stays missing, and says which command installs it.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"

packages=()
# program NAME PACKAGE…: the packages are missing if no such program is found.
program() {
    command -v "$1" > /dev/null || packages+=("${@:2}")
}
program cc gcc libc6-dev
program git git
program make make
program perl perl
program pgrep procps
# Network namespaces.
program ip iproute2
program nft nftables
# Wall clocks that jump.
program faketime faketime
# Kills at each system call.
program strace strace
# Pages in a real browser.
program chromium chromium
program chromedriver chromium-driver
# Agents in terminals.
program tmux tmux
has_venv() {
    python3 -c 'import ensurepip, venv' 2> /dev/null
}
has_venv || packages+=(python3 python3-venv)

# Runs a command as root, or fails without asking where nobody could answer.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}
install_packages() {
    command -v apt-get > /dev/null || return
    echo "Installing ${packages[*]}" >&2
    as_root apt-get update -qq &&
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -qq -y --no-install-recommends "${packages[@]}" > /dev/null
}
status=0
if [ "${#packages[@]}" -gt 0 ] && ! install_packages; then
    echo "Programs are missing. Install them (package names of Debian and Ubuntu), then repeat:" >&2
    echo "    sudo apt-get install -y --no-install-recommends ${packages[*]}" >&2
    status=1
fi
if ! has_venv || ! ./scripts/sdk-setup.sh; then
    echo 'The SDKs are not installed. With Python and a connection to PyPI and npm: make sdk' >&2
    status=1
fi
exit "$status"
