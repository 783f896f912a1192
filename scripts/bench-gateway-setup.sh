#!/usr/bin/env bash
# Puts the gateways that `make bench-gateway` measures beside Tasuki's into target/bench-gateway:
# mcp-proxy (PyPI), fastmcp, and the crate mcp-proxy, without its optional parts.
# Does nothing when they are there in these versions already.
set -euo pipefail
cd "$(dirname "$0")/.."

# Each in an environment of its own: they need different versions of Python's MCP SDK.
python=('mcp-proxy==0.13.0' 'fastmcp==4.2.3')
crate='mcp-proxy@0.6.0'
place=target/bench-gateway
wanted="${python[*]} $crate"

if [ -f "$place/ready" ] && [ "$(cat "$place/ready")" = "$wanted" ]; then
    exit 0
fi

rm -rf "$place"
mkdir -p "$place"
for package in "${python[@]}"; do
    python3 -m venv "$place/${package%%=*}"
    "$place/${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package"
done
cargo install --quiet --locked --no-default-features --root "$place" "$crate"
echo "$wanted" > "$place/ready"
