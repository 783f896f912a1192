"""Plays one role of a turn loop through the official MCP SDK for Python.

Prints one line of JSON: what it saw. `--refused-first` makes it hand over a turn it does not
hold before anything else, and say `ready` on standard error afterwards.
"""

import argparse
import asyncio
import json
import sys
from contextlib import asynccontextmanager
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

# One waiting call, in seconds, and how often it is made before giving up.
HOLD = 20
CALLS_MAX = 10


@asynccontextmanager
async def connected(args):
    if args.transport == "http":
        async with streamablehttp_client(args.target[0]) as (read, write, _):
            yield read, write
    elif args.transport == "sse":
        async with sse_client(args.target[0]) as streams:
            yield streams
    else:
        command, *rest = args.target
        async with stdio_client(StdioServerParameters(command=command, args=rest)) as streams:
            yield streams


async def my_turn(session, role):
    for _ in range(CALLS_MAX):
        result = await session.call_tool("await_my_turn", {"agent_id": role, "timeout_sec": HOLD})
        assert not result.isError, result
        answer = json.loads(result.content[0].text)
        if answer["can_start"] or answer["is_finished"]:
            return answer
        assert answer["still_waiting"] and answer["hint"], answer
    raise TimeoutError(f"it never became the turn of {role}")


async def hand_over(session, role, number, complete=False, **more):
    return await session.call_tool(
        "handover_work",
        {
            "current_agent_id": role,
            "work_summary": f"{role} did {number}",
            "next_instruction": f"go on after {number}",
            "is_task_complete": complete,
            **more,
        },
    )


async def play(args):
    role, saw = args.role, {"sdk": "python", "transport": args.transport, "turns": []}
    async with connected(args) as (read, write):
        wait = timedelta(seconds=2 * HOLD)
        async with ClientSession(read, write, read_timeout_seconds=wait) as session:
            hello = await session.initialize()
            saw["server"], saw["protocol"] = hello.serverInfo.name, hello.protocolVersion
            saw["tools"] = sorted(tool.name for tool in (await session.list_tools()).tools)
            if args.refused_first:
                refused = await hand_over(session, role, 0)
                saw["refused"] = {
                    "is_error": refused.isError,
                    "error": refused.structuredContent["error"],
                    "text": refused.content[0].text,
                }
                print("ready", file=sys.stderr, flush=True)
            for number in range(1, args.rounds + 1):
                answer = await my_turn(session, role)
                assert answer["can_start"], answer
                saw["turns"].append(answer)
                is_last = args.completes and number == args.rounds
                done = await hand_over(session, role, number, is_last, turn=answer["turn"])
                assert not done.isError, done
                saw["handed_over"] = done.content[0].text
            saw["finished"] = (await my_turn(session, role))["is_finished"]
    print(json.dumps(saw))


parser = argparse.ArgumentParser()
parser.add_argument("--transport", choices=["http", "sse", "stdio"], required=True)
parser.add_argument("--role", required=True)
parser.add_argument("--rounds", type=int, required=True)
parser.add_argument("--refused-first", action="store_true")
parser.add_argument("--completes", action="store_true")
parser.add_argument("target", nargs="+", help="a URL, or for stdio a command with arguments")
asyncio.run(play(parser.parse_args()))
