"""An MCP server of the official SDK for Python, which can be made to misbehave.

`VERSION` names a file: what it holds is part of what the server says of its tools.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("python")
version = Path(os.environ["VERSION"]).read_text().strip()


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(description=f"Greets somebody, version {version}.")
def greet(name: str) -> str:
    return f"Hello, {name}!"


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, with progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
        await asyncio.sleep(0.01)
    return f"counted to {to}"


@server.tool()
def flood() -> str:
    """Writes what nobody asked for, without an end."""
    changed = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    while True:
        sys.stdout.write((changed + "\n") * 1000)
        sys.stdout.flush()


@server.tool()
def huge() -> str:
    """Answers with 100 MB."""
    return "x" * 100_000_000


@server.tool()
def garbage() -> str:
    """Writes what is no message, then answers."""
    sys.stdout.write("%% not JSON at all %%\n\x00\xff{]\n")
    sys.stdout.flush()
    return "after the garbage"


if version == "2":

    @server.tool()
    def added() -> str:
        """Came with version 2."""
        return "new"


server.run()
