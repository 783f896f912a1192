#!/bin/sh
# An agent CLI: finds its entry in the configuration of the client that it is called like, asks for
# its turn over the bridge, and then does what the file plays/NAME says. Its arguments become one
# line in a file of its own, calls/N/words, where N counts calls: several may begin at a time.
own=$(basename "$0")
case $own in claude) client=claude-code ;; *) client=$own ;; esac
mkdir -p "$HOME/calls"
call=0
until mkdir "$HOME/calls/$call" 2> /dev/null; do call=$((call + 1)); done
printf '%s %s\n' "$own" "$*" | tr '\n' ' ' > "$HOME/calls/$call/part"
mv "$HOME/calls/$call/part" "$HOME/calls/$call/words"
id=$(grep -oh "mcp/$TASUKI_ROLE?as=$client-[0-9a-f]*" "$HOME/.claude.json" "$HOME/.codex/config.toml" \
    2> /dev/null | head -n 1 | sed 's/.*as=//')
pipes=$(mktemp -d "$HOME/pipes.XXXXXX")
mkfifo "$pipes/in" "$pipes/out"
"$HOME/bin/tasuki" mcp --role "$TASUKI_ROLE" --as "$id" < "$pipes/in" > "$pipes/out" 2>> "$HOME/errors" &
exec 3> "$pipes/in" 4< "$pipes/out"
say() { printf '%s\n' "$1" >&3; }
answered() { while read -r line <&4; do case $line in *"\"id\":$1"*) return ;; esac; done; }
say '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"'"$own"'","version":"1"}}}'
answered 1
say '{"jsonrpc":"2.0","method":"notifications/initialized"}'
say '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"await_my_turn","arguments":{"timeout_sec":0}}}'
answered 2
stay() { echo "$own stays"; while read -r line <&4; do :; done; }
. "$HOME/plays/$own"
