#!/bin/sh
# Plays an agent CLI that writes pi's stream: `play.sh TASUKI PLACE STREAMS [pi's arguments]`.
# TASUKI is the program, STREAMS the directory of captured streams. The first line of the task is a
# shell command, which says what the agent does; the rest is in $rest.
#
# PLACE holds two named pipes. `alive` is open for writing here and in all that is started from here,
# so it ends when nobody is left. From `go` an agent that waits takes one line end and goes on.

tasuki=$1 place=$2 streams=$3
shift 3
if [ "$1" = --version ]; then
    echo 'fake 1.0'
    exit
fi
# Of `tasuki up` beside it.
data=${place%/*}/data
task='' model=m tools='' system=''
while [ $# -gt 0 ]; do
    case $1 in
        --model) model=$2 && shift ;;
        --tools) tools=$2 && shift ;;
        --append-system-prompt) system=$2 && shift ;;
        'Task: '*) task=${1#Task: } ;;
    esac
    shift
done
if [ -z "$task" ]; then
    # Too long for an argument. What `$(…)` takes from the end is none of it.
    task=$(cat && echo .)
    task=${task%?}
    task=${task#Task: }
fi
newline='
'
first=${task%%"$newline"*}
rest=${task#"$first"}
rest=${rest#"$newline"}

# Marks whatever it starts, for who looks through /proc.
export FAKE_PLACE="$place"
exec 9> "$place/alive"

# tell WORDS: says something to the test.
tell() {
    printf '%s\n' "$*" >&9
}

# quote TEXT: as it stands within a JSON string.
quote() {
    printf '%s\n' "$1" | sed -e ':a' -e '$!N' -e '$!ba' \
        -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' -e 's/\n/\\n/g'
}

# event JSON
event() {
    printf '%s\n' "$1"
}

# message TEXT STOP: one message of the model, ended like this.
message() {
    event "{\"type\":\"message_start\",\"message\":{\"role\":\"assistant\",\"provider\":\"fake\",\"model\":\"$model\"}}"
    event "{\"type\":\"message_end\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"$(quote "$1")\"}],\"usage\":{\"input\":10,\"output\":5,\"cacheRead\":3,\"cacheWrite\":2,\"totalTokens\":20,\"cost\":{\"total\":0.001}},\"stopReason\":\"$2\"}}"
}

settle() {
    event '{"type":"agent_end","messages":[],"willRetry":false}'
    event '{"type":"agent_settled"}'
}

# turn TEXT: an answer that is not the last.
turn() {
    message "$1" toolUse
}

# say TEXT: the last answer.
say() {
    message "$1" stop
    settle
}

# fail TEXT: its model fails.
fail() {
    event "{\"type\":\"message_end\",\"message\":{\"role\":\"assistant\",\"content\":[],\"stopReason\":\"error\",\"errorMessage\":\"$(quote "$1")\"}}"
    settle
}

# tool NAME: begins a call, which does not end.
tool() {
    event "{\"type\":\"tool_execution_start\",\"toolCallId\":\"call_1\",\"toolName\":\"$1\",\"args\":{}}"
}

# xs BYTES: so many letters, and no line end.
xs() {
    head -c "$1" /dev/zero | tr '\0' x
}

# big BYTES: the last answer is so long.
big() {
    printf '{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"'
    xs "$1"
    printf '"}],"stopReason":"stop"}}\n'
    settle
}

# numbers LAST: the last answer is all numbers up to it, of seven digits and with a point each.
numbers() {
    printf '{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"'
    seq -f '%07.0f.' 1 "$1" | tr -d '\n'
    printf '"}],"stopReason":"stop"}}\n'
    settle
}

# play FILE: a captured stream.
play() {
    cat "$streams/$1"
}

# Waits for the test.
wait_go() {
    read -r _ < "$place/go"
}

hang() {
    while :; do sleep 1000; done
}

# From here on it takes more than a word to end it.
stubborn() {
    trap '' TERM INT HUP
}

# Starts one that is nobody's child and in nobody's group.
daemon() {
    (setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 1000; done' &)
}

tell "begun $$"
event '{"type":"session","version":3,"id":"fake","cwd":"/"}'
eval "$first"
