#!/usr/bin/env bash
# Puts what the client tests need where they look for it, target/sdk: the official MCP SDKs, the
# MCP conformance suite, the MCP Inspector, a Node they run on (the suite needs 22), and Python's
# gRPC with stubs of this protocol.
# Does nothing when they are there in these versions already.
set -euo pipefail
cd "$(dirname "$0")/.."

python_sdk='mcp==1.30.*'
python_grpc=(
    'grpcio==1.85.*' 'grpcio-tools==1.85.*' 'grpcio-reflection==1.85.*'
    'googleapis-common-protos==1.*'
)
packages=(
    '@modelcontextprotocol/sdk@1.32'
    '@modelcontextprotocol/conformance@0.2.0-alpha.12'
    '@modelcontextprotocol/inspector@2.12.0'
)
node='22.23.3'
place=target/sdk
protocol=$(cat proto/tasuki/v1/*.proto | cksum)
wanted="$python_sdk ${python_grpc[*]} ${packages[*]} $node $protocol"

if [ -f "$place/ready" ] && [ "$(cat "$place/ready")" = "$wanted" ]; then
    exit 0
fi

is_new_enough='const [major, minor] = process.versions.node.split(".").map(Number);
process.exit(major > 22 || (major === 22 && minor >= 19) ? 0 : 1)'
if node -e "$is_new_enough" 2> /dev/null; then
    binary=$(command -v node)
else
    case "$(uname -sm)" in
        'Linux x86_64') platform=linux-x64 ;;
        'Linux aarch64') platform=linux-arm64 ;;
        *)
            echo 'Node 22.19 or newer is needed here for the conformance tests.' >&2
            exit 1
            ;;
    esac
    # The binary comes as a package of the same registry.
    packages+=("node-$platform@$node")
    binary=node_modules/node-$platform/bin/node
fi

rm -rf "$place"
mkdir -p "$place"
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet --disable-pip-version-check \
    "$python_sdk" "${python_grpc[@]}"
# The stubs of examples/python, as its README says.
mkdir -p "$place/grpc"
"$place/venv/bin/python" -m grpc_tools.protoc -I proto \
    --python_out="$place/grpc" --grpc_python_out="$place/grpc" proto/tasuki/v1/*.proto
echo '{"name":"tasuki-sdk-tests","private":true}' > "$place/package.json"
# Under an older Node than the packages want, npm installs them all the same.
npm install --prefix "$place" --silent --no-audit --no-fund "${packages[@]}"
ln -sf "$binary" "$place/node"
"$place/node" --version > /dev/null
echo "$wanted" > "$place/ready"
