"""Uses real MCP servers through a node's gateway, with the official SDK for Python.

`use URL` calls everything that the servers have, at the address of all of them and at the address of
one. `disturb URL DIRECTORY` kills, stops, floods and upgrades one server while it calls the others.
It fails with what is wrong; it prints one line of JSON with how long calls took.
"""

import asyncio
import json
import os
import signal
import statistics
import sys
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import mcp.types as types
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

# For anything to happen on a busy machine, in seconds.
PATIENCE = 90
# The longest that a call of a server may take that nothing happened to, in seconds: far less than
# any limit of one that hangs.
USUAL = 5.0


class Client:
    """What the user, the model and the notifications of a client say."""

    def __init__(self):
        self.updated = asyncio.Queue()
        self.listed_anew = asyncio.Event()

    async def elicit(self, context, params):
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})

    async def sample(self, context, params):
        text = types.TextContent(type="text", text="what the model says")
        return types.CreateMessageResult(role="assistant", content=text, model="none")

    async def hear(self, message):
        match getattr(message, "root", None):
            case types.ResourceUpdatedNotification(params=params):
                await self.updated.put(str(params.uri))
            case types.ToolListChangedNotification():
                self.listed_anew.set()


@asynccontextmanager
async def session(url, client):
    async with streamablehttp_client(url) as (read, write, _):
        async with ClientSession(
            read,
            write,
            elicitation_callback=client.elicit,
            sampling_callback=client.sample,
            message_handler=client.hear,
        ) as it:
            await it.initialize()
            yield it


def text(result):
    return "".join(part.text for part in result.content if part.type == "text")


async def call(it, tool, arguments=None, **more):
    result = await it.call_tool(tool, arguments or {}, timedelta(seconds=PATIENCE), **more)
    assert not result.isError, (tool, text(result))
    return result


async def await_tools(it, client, wanted):
    """Waits until tools are listed: a server's are once it has started."""
    until = time.monotonic() + PATIENCE
    while True:
        client.listed_anew.clear()
        names = [tool.name for tool in (await it.list_tools()).tools]
        missing = [name for name in wanted if name not in names]
        if not missing:
            return
        assert time.monotonic() < until, (missing, names)
        try:
            await asyncio.wait_for(client.listed_anew.wait(), 1)
        except asyncio.TimeoutError:
            # What changed before this client listened is not said again.
            pass


async def use(url):
    everything = "everything__", "everything+"
    client = Client()
    async with session(url, client) as it:
        wanted = [
            "everything__echo",
            "files__read_text_file",
            "memory__create_entities",
            "python__add",
        ]
        await await_tools(it, client, wanted)
        said = text(await call(it, "files__read_text_file", {"path": "hello.txt"}))
        assert said == "hello from a file\n", said
        entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
        await call(it, "memory__create_entities", {"entities": [entity]})
        found = await call(it, "memory__search_nodes", {"query": "program"})
        assert found.structuredContent["entities"][0]["name"] == "Ada", found
        assert text(await call(it, "python__add", {"a": 20, "b": 22})) == "42"
        progress = []

        async def note(at, total, message):
            progress.append((at, total, message))

        await call(it, "python__count", {"to": 5}, progress_callback=note)
        assert progress == [(n, 5, f"at {n}") for n in range(1, 6)], progress
        environment = json.loads(text(await call(it, "everything__get-env")))
        assert "PATH" in environment and "SECRET" not in environment, environment
        try:
            await it.call_tool("everything__nothing", {})
            raise AssertionError("there is no such tool")
        except McpError as error:
            assert error.error.code == -32602, error
        refused = await it.call_tool("files__read_text_file", {"path": "/etc/passwd"})
        assert refused.isError and "denied" in text(refused), refused
        found = await call(it, "gateway_find", {"query": "read a text file"})
        assert "files__read_text_file" in text(found), found
        asked = {"tool": "python__greet", "arguments": {"name": "Ada"}}
        assert text(await call(it, "gateway_call", asked)) == "Hello, Ada!"
    await use_everything(url, *everything)
    await use_everything(f"{url}/server/everything", "", "")


async def use_everything(url, name, uri):
    """What `server-everything` has, at an address where its names and addresses begin so."""
    client = Client()
    async with session(url, client) as it:
        if not name:
            names = [tool.name for tool in (await it.list_tools()).tools]
            assert "echo" in names and "gateway_call" not in names, names
        assert text(await call(it, f"{name}echo", {"message": "x" * 1000})) == "Echo: " + "x" * 1000
        progress = []

        async def note(at, total, message):
            progress.append(at)

        steps = {"duration": 1, "steps": 4}
        tool = f"{name}trigger-long-running-operation"
        await call(it, tool, steps, progress_callback=note)
        assert progress == [1, 2, 3, 4], progress
        structured = await call(it, f"{name}get-structured-content", {"location": "Chicago"})
        assert structured.structuredContent["conditions"], structured
        image = await call(it, f"{name}get-tiny-image")
        assert any(part.type == "image" for part in image.content), image
        said = text(await call(it, f"{name}trigger-elicitation-request"))
        assert "Ada" in said, said
        said = text(await call(it, f"{name}trigger-sampling-request", {"prompt": "x"}))
        assert "what the model says" in said, said

        resources = (await it.list_resources()).resources
        own = [str(it.uri) for it in resources if str(it.uri).startswith(f"{uri}demo://")]
        assert own, resources
        contents = (await it.read_resource(AnyUrl(own[0]))).contents
        assert contents[0].text, contents
        templates = (await it.list_resource_templates()).resourceTemplates
        assert any(it.uriTemplate.startswith(f"{uri}demo://") for it in templates), templates
        prompts = [prompt.name for prompt in (await it.list_prompts()).prompts]
        assert f"{name}completable-prompt" in prompts, prompts
        prompt = f"{name}completable-prompt"
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        completion = await it.complete(reference, {"name": "department", "value": "S"})
        assert completion.completion.values == ["Sales", "Support"], completion
        got = await it.get_prompt(prompt, {"department": "Sales", "name": "Eve"})
        assert "promote Eve" in got.messages[0].content.text, got

        watched = f"{uri}demo://resource/dynamic/text/1"
        await it.subscribe_resource(AnyUrl(watched))
        await call(it, f"{name}toggle-subscriber-updates")
        updated = await asyncio.wait_for(client.updated.get(), PATIENCE)
        assert updated == watched, updated
        await it.unsubscribe_resource(AnyUrl(watched))
        await call(it, f"{name}toggle-subscriber-updates")


OTHERS = [
    ("files__read_text_file", {"path": "hello.txt"}),
    ("memory__search_nodes", {"query": "nobody"}),
    ("python__add", {"a": 1, "b": 2}),
]


async def usual(it, times, until):
    """Calls the other servers until something else is over, or twenty times each."""
    calls = 0
    while calls < 20 or not until.done():
        for tool, arguments in OTHERS:
            began = time.monotonic()
            await call(it, tool, arguments)
            took = time.monotonic() - began
            assert took < USUAL, f"{tool} took {took:.1f} s"
            times.append(took)
        calls += 1
        await asyncio.sleep(0.01)


async def answers(it, tool, arguments):
    """Until a server that was away answers again."""
    for _ in range(PATIENCE * 2):
        try:
            result = await it.call_tool(tool, arguments)
            if not result.isError:
                return text(result)
        except McpError:
            pass
        await asyncio.sleep(0.5)
    raise AssertionError(f"{tool} never came back")


async def fails(it, tool, code, arguments=None):
    try:
        result = await it.call_tool(tool, arguments or {}, timedelta(seconds=PATIENCE))
    except McpError as error:
        assert error.error.code == code, error
        assert "noisy" in error.error.message, error
        return error.error.message
    raise AssertionError(f"{tool} answered {text(result)[:100]!r}")


async def disturb(url, directory):
    pid, version = directory / "pid", directory / "version"

    def send(what):
        os.kill(int(pid.read_text()), what)

    async def killed(it):
        long = asyncio.create_task(fails(it, "noisy__count", -32603, {"to": 100_000}))
        await asyncio.sleep(0.3)
        send(signal.SIGKILL)
        await long

    async def hung(it):
        send(signal.SIGSTOP)
        try:
            # Its limit is 2 s.
            await fails(it, "noisy__add", -32001, {"a": 1, "b": 1})
        finally:
            send(signal.SIGKILL)

    async def flooded(it):
        await fails(it, "noisy__flood", -32603)

    async def huge(it):
        await fails(it, "noisy__huge", -32603)

    async def garbage(it):
        try:
            await it.call_tool("noisy__garbage", {}, timedelta(seconds=PATIENCE))
        except McpError as error:
            assert error.error.code in (-32603, -32001), error

    async def upgraded(it):
        version.write_text("2")
        send(signal.SIGTERM)
        assert await answers(it, "noisy__added", {}) == "new"
        # What it says of itself is another thing than what was approved.
        assert "no tool" in await fails(it, "noisy__greet", -32602, {"name": "Ada"})

    took = {}
    async with session(url, Client()) as it:
        for tool, arguments in [*OTHERS, ("noisy__add", {"a": 1, "b": 1})]:
            await answers(it, tool, arguments)
        took["before"] = []
        await usual(it, took["before"], asyncio.create_task(asyncio.sleep(0)))
        for disturbance in [killed, hung, flooded, huge, garbage, upgraded]:
            name = disturbance.__name__
            times = took[name] = []
            under_way = asyncio.create_task(disturbance(it))
            await usual(it, times, under_way)
            await under_way
            back = asyncio.create_task(answers(it, "noisy__add", {"a": 1, "b": 1}))
            await usual(it, times, back)
            await back

    def summed(times):
        times.sort()
        middle, worst = statistics.median(times), times[-1]
        return {"calls": len(times), "median_ms": round(middle * 1e3, 2), "max_ms": round(worst * 1e3, 1)}

    print(json.dumps({name: summed(times) for name, times in took.items()}))


what, url, *rest = sys.argv[1:]
if what == "use":
    asyncio.run(use(url))
else:
    asyncio.run(disturb(url, Path(rest[0])))
