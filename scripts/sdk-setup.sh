#!/usr/bin/env bash
# Puts the official MCP SDKs where the client tests look for them: target/sdk.
# Does nothing when they are there in these versions already.
set -euo pipefail
cd "$(dirname "$0")/.."

python_sdk='mcp==1.30.*'
node_sdk='@modelcontextprotocol/sdk@1.32'
place=target/sdk
wanted="$python_sdk $node_sdk"

if [ -f "$place/ready" ] && [ "$(cat "$place/ready")" = "$wanted" ]; then
    exit 0
fi

rm -rf "$place"
mkdir -p "$place"
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check "$python_sdk"
echo '{"name":"tasuki-sdk-tests","private":true}' > "$place/package.json"
npm install --prefix "$place" --silent --no-audit --no-fund "$node_sdk"
echo "$wanted" > "$place/ready"
