"""LangGraph with its checkpoints on boards, where its own savers and this one could differ: time
travel around subgraphs, hidden runs, refused checkpoints, metadata that is no JSON, and steps with
very many tasks. `langgraph_saver.py` runs it.
"""

import asyncio
import itertools
import math
import operator
import threading
import time
import uuid
from typing import Annotated, TypedDict

import tasuki_langgraph.saver
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from tasuki.v1 import board_pb2 as wire
from tasuki_langgraph import BrokerError, ConcurrentWriter, TasukiSaver, layout
from tasuki_langgraph.transport import KEYS_APART_MAX, Call

# More than the broker takes as results of one checkpoint.
FAN_OUT = 1100

# How long writes wait for their checkpoint here, far longer than anything takes on a busy machine:
# what waits for one that was refused takes longer than what is told at once.
SAVED_WITHIN_S = 90
AT_ONCE_S = 60


class State(TypedDict):
    log: Annotated[list, operator.add]


def thread(**more):
    return {"configurable": {"thread_id": str(uuid.uuid4()), **more}}


def chain(checkpointer, *nodes):
    graph, before = StateGraph(State), START
    for name, node in nodes:
        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=checkpointer)


def adds(name):
    return name, lambda state: {"log": [name]}


def put(saver, config, **metadata):
    """A checkpoint that continues from what the config names."""
    return saver.put(config, empty_checkpoint(), {"step": 0, **metadata}, {})


def refused(call):
    try:
        call()
    except ConcurrentWriter as why:
        return why
    raise AssertionError("a second writer was not refused")


def asks(kept):
    """A graph whose second node is a graph that asks. Whether that one has a thread of its own."""

    def build(checkpointer):
        asking = ("ask", lambda state: {"log": [interrupt("?")]})
        inner = chain(True if kept else None, adds("before"), asking)
        return chain(checkpointer, adds("pre"), ("inner", inner), adds("post"))

    return build


async def travelled(build, savers, runs, durability, is_async):
    """The logs of a graph that runs some times, is set back, and gets another answer."""
    config, logs = thread(), []

    async def invoke(value, config):
        graph = build(next(savers))
        how = {"durability": durability}
        if is_async:
            return (await graph.ainvoke(value, config, **how))["log"]
        return graph.invoke(value, config, **how)["log"]

    for number in range(runs):
        await invoke({"log": ["in"]}, config)
        logs.append(await invoke(Command(resume=f"R{number}"), config))
    graph = build(next(savers))
    if is_async:
        history = [it async for it in graph.aget_state_history(config)]
    else:
        history = list(graph.get_state_history(config))
    # The newest first: before the last run of the inner graph, then before its first.
    places = [it.config for it in history if it.next == ("inner",)]
    for number, place in enumerate((places[0], places[-1], places[-1])):
        logs.append(await invoke(None, place))
        logs.append(await invoke(Command(resume=f"T{number}"), config))
    return logs


def travels_around_subgraphs(broker):
    def fresh():
        while True:
            with TasukiSaver(broker) as saver:
                yield saver

    def same(saver):
        while True:
            yield saver

    for kept in (True, False):
        build = asks(kept)
        hows = [("sync", False), ("async", True), ("exit", False)]
        for runs, how in itertools.product((1, 2), hows):
            memory = asyncio.run(travelled(build, same(InMemorySaver()), runs, *how))
            assert not kept or "T2" in memory[-1], memory
            with TasukiSaver(broker) as saver:
                for savers in (same(saver), fresh()):
                    began = time.monotonic()
                    logs = asyncio.run(travelled(build, savers, runs, *how))
                    assert logs == memory, (kept, runs, *how, logs, memory)
                    assert time.monotonic() - began < AT_ONCE_S
    print("a graph travels to before a subgraph as with LangGraph's own savers")


def begins_once(broker):
    """Of those that found nothing to continue from, one begins."""
    with TasukiSaver(broker) as saver, TasukiSaver(broker, role="other") as other:
        config = thread(checkpoint_ns="inner")
        for it in (saver, saver, other):
            assert it.get_tuple(config) is None
        first = put(saver, config)
        refused(lambda: put(saver, config))
        refused(lambda: put(other, config))
        # A replay of its graph from before that: nothing was there.
        past = {"configurable": {"checkpoint_id": "0"}}
        for it in (saver, other):
            assert not list(it.list(config, before=past, limit=1))
        second = put(saver, config)
        refused(lambda: put(saver, config))
        assert refused(lambda: put(other, config)).by == "langgraph"
        # And one from when there was the first.
        later = second["configurable"]["checkpoint_id"] + "~"
        now = {"configurable": {"checkpoint_id": later}}
        third = put(saver, second)
        for it in (saver, other):
            assert [one.config for one in it.list(config, before=now, limit=1)] == [second]
        put(other, second)
        refused(lambda: put(saver, second))
        # A list of history is no wish to continue from there.
        list(saver.list(config, before=third, limit=1))
        list(saver.list(config))
        refused(lambda: put(saver, first))
    print("one begins a thread, or begins it anew")


def runs_are_hidden(broker):
    with TasukiSaver(broker) as saver, TasukiSaver(broker, role="janitor") as janitor:
        called, call = [], janitor.transport.call

        def recorded(it):
            called.append(it.method)
            return call(it)

        janitor.transport.call = recorded
        graph, config = chain(saver, adds("a"), adds("b")), thread()
        of_run = [{**config, "metadata": {"run_id": str(uuid.uuid4())}} for _ in range(3)]
        graph.invoke({"log": ["1"]}, of_run[0])
        janitor.delete_for_runs([of_run[0]["metadata"]["run_id"]])
        assert graph.get_state(config).values == {} and not list(saver.list(config))
        # Two savers begin it anew, and one is refused.
        with TasukiSaver(broker, role="late") as late:
            assert late.get_tuple(config) is None
            assert graph.invoke({"log": ["2"]}, of_run[1])["log"] == ["2", "a", "b"]
            assert refused(lambda: put(late, config)).by == "langgraph"
        # A run that continues the thread meanwhile is not lost.
        everything = janitor._all

        def meanwhile(board):
            listed = yield from everything(board)
            if not meanwhile.log and board.startswith(prefix):
                meanwhile.log = graph.invoke({"log": ["3"]}, of_run[2])["log"]
            return listed

        prefix, meanwhile.log = layout.thread_prefix(config["configurable"]["thread_id"]), None
        janitor._all = meanwhile
        janitor.delete_for_runs([of_run[1]["metadata"]["run_id"]])
        assert meanwhile.log == ["2", "a", "b", "3", "a", "b"], meanwhile.log
        assert graph.get_state(config).values["log"] == meanwhile.log
        assert "DeleteBoard" not in called, called
        # Of a thread that is hidden as a whole one checkpoint remains, and it goes on.
        janitor.delete_for_runs([of_run[2]["metadata"]["run_id"]])
        saver.prune([config["configurable"]["thread_id"]])
        assert graph.get_state(config).values == {}
        assert graph.invoke({"log": ["4"]}, config)["log"] == ["4", "a", "b"]
    print("hidden runs leave a thread that goes on")


def is_refused_at_once(broker):
    """Also where LangGraph goes on before a checkpoint is saved."""
    with TasukiSaver(broker, role="one") as one, TasukiSaver(broker, role="two") as two:
        started, may_go_on = threading.Event(), threading.Event()

        def slow(state):
            started.set()
            may_go_on.wait(60)
            return {"log": ["slow"]}

        slower = chain(one, ("slow", slow), *map(adds, "abcd"))
        for durability in ("async", "sync"):
            config, outcome = thread(), []
            chain(two, adds("x")).invoke({"log": []}, config)

            def run():
                try:
                    outcome.append(slower.invoke({"log": []}, config, durability=durability))
                except Exception as why:
                    outcome.append(why)

            started.clear()
            may_go_on.clear()
            running = threading.Thread(target=run)
            running.start()
            assert started.wait(60)
            # Else the first to write would be the other one.
            while slower.get_state(config).next != ("slow",):
                time.sleep(0.01)
            chain(two, adds("y")).invoke({"log": []}, config)
            began = time.monotonic()
            may_go_on.set()
            running.join()
            took = time.monotonic() - began
            assert isinstance(outcome[0], ConcurrentWriter) and outcome[0].by == "two", outcome
            assert took < AT_ONCE_S, took

        # What is too large is told as what it is, and the thread goes on.
        config = thread()
        large = chain(one, ("large", lambda state: {"log": ["x" * 2_000_000]}), *map(adds, "abc"))

        async def run_async():
            return await large.ainvoke({"log": []}, config)

        for run in (lambda: large.invoke({"log": []}, config), lambda: asyncio.run(run_async())):
            began = time.monotonic()
            try:
                run()
                raise AssertionError("a value of 2 MB was stored")
            except BrokerError as why:
                assert why.reason == "too_large", why
            took = time.monotonic() - began
            assert took < AT_ONCE_S, took
        assert chain(one, adds("a")).invoke({"log": []}, config)["log"] == ["a"]
    print("a refused checkpoint is told at once")


def has_any_metadata(broker):
    surrogate = "\ud800"
    cases = {
        "inf": math.inf,
        "surrogate": surrogate,
        "large": 10**400,
        "pair": "\U0001f600",
        "nested": {"a": [math.inf, {"b": surrogate}]},
        "packed": {"a": 1},
        "~json": "e30=",
    }
    deep = None
    for _ in range(150):
        deep = [deep]
    cases["deep"] = deep
    with TasukiSaver(broker) as saver:
        for key, value in cases.items():
            config = thread(checkpoint_ns="")
            stored = saver.put(config, empty_checkpoint(), {key: value}, {})
            found = saver.get_tuple(stored)
            assert found.metadata[key] == value, (key, found.metadata)
            for wanted, count in ((value, 1), ("else", 0)):
                assert len(list(saver.list(config, filter={key: wanted}))) == count, key
        not_a_number = {**thread(), "metadata": {"score": math.nan, "text": surrogate}}
        graph = chain(saver, adds("a"))
        graph.invoke({"log": []}, not_a_number)
        assert math.isnan(graph.get_state(not_a_number).metadata["score"])
        # Also in the names of a thread, a task and a channel.
        config = thread(checkpoint_ns=surrogate)
        config["configurable"]["thread_id"] += surrogate
        stored = put(saver, config, source=surrogate)
        saver.put_writes(stored, [(surrogate, 1)], surrogate, surrogate)
        found = saver.get_tuple(config)
        assert found.pending_writes == [(surrogate, surrogate, 1)], found.pending_writes
        assert found.config["configurable"]["thread_id"] == config["configurable"]["thread_id"]
        assert len(list(saver.list(config))) == 1
        target = uuid.uuid4().hex + surrogate
        saver.copy_thread(config["configurable"]["thread_id"], target)
        config["configurable"]["thread_id"] = target
        assert saver.get_tuple(config).pending_writes == found.pending_writes
        saver.delete_thread(target)
        assert saver.get_tuple(config) is None
    print("metadata and names are what they were, also where they are no JSON")


def fans_out(broker):
    """More tasks in one step than a checkpoint has results."""

    def build(saver, node):
        graph = StateGraph(State)
        graph.add_node("work", node)
        graph.add_node("join", lambda state: {"log": ["done"]})
        sends = [Send("work", {"number": number}) for number in range(FAN_OUT)]
        graph.add_conditional_edges(START, lambda state: sends)
        graph.add_edge("work", "join")
        return graph.compile(checkpointer=saver)

    def work(state):
        return {"log": [state["number"]]}

    def ask(state):
        number = state["number"]
        return {"log": [[number, interrupt(number), interrupt(-number)]]}

    async def answer(value, config):
        """In a process of its own, as it were."""
        async with TasukiSaver(broker) as saver:
            graph = build(saver, ask)
            await graph.ainvoke(value, config)
            state = await graph.aget_state(config)
        return {it.id: it.value for it in state.interrupts}, state.values["log"]

    async def answer_all(config):
        asked, _ = await answer({"log": []}, config)
        assert sorted(asked.values()) == list(range(FAN_OUT)), len(asked)
        # First half of them, so that some ask for the second time.
        some = {id_: f"for {value}" for id_, value in list(asked.items())[::2]}
        while asked:
            asked, log = await answer(Command(resume=some), config)
            some = {id_: f"for {value}" for id_, value in asked.items()}
        return log

    with TasukiSaver(broker) as saver:
        log = build(saver, work).invoke({"log": []}, thread())["log"]
        assert log == [*range(FAN_OUT), "done"], log
    log = asyncio.run(answer_all(thread()))
    expected = [[it, f"for {it}", f"for {-it}"] for it in range(FAN_OUT)]
    assert log == [*expected, "done"], log
    print(f"{FAN_OUT} tasks of one step write, ask and are answered")


def knows_shared_writes(broker):
    """What is known of single results holds of shared ones."""
    with TasukiSaver(broker) as saver, TasukiSaver(broker) as other:
        stored = put(saver, thread(checkpoint_ns=""))
        for number in range(400):
            saver.put_writes(stored, [("a", number), ("b", number)], f"task{number:04}")
        for number in (0, 399):
            for it in (saver, other):
                assert it.get_tuple(stored)
                it.put_writes(stored, [("a", "x"), ("b", "x"), ("c", "x")], f"task{number:04}")
        for text in ("first", "x" * 20_000, "last"):
            for it in (saver, other):
                assert it.get_tuple(stored)
                it.put_writes(stored, [("__error__", text)], "task0399")
        large = [("a", "y" * 100_000)]
        saver.put_writes(stored, large, "task0400")
        found = saver.get_tuple(stored).pending_writes
        assert len(found) == len({(task, channel) for task, channel, _ in found}) == 804, len(found)
        for number in (0, 399):
            there = [it[1:] for it in found if it[0] == f"task{number:04}" and it[1] in "abc"]
            assert there == [("a", number), ("b", number), ("c", "x")], there
        assert ("task0399", "__error__", "last") in found
        assert ("task0400", *large[0]) in found
        # There is room for what hides it.
        run_id = str(uuid.uuid4())
        hidden = put(saver, stored, run_id=run_id)

        async def many():
            async with TasukiSaver(broker) as saver:
                puts = (
                    saver.aput_writes(hidden, [("a", number)], f"task{number}")
                    for number in range(FAN_OUT)
                )
                # Some are cancelled, and the others go on.
                tasks = [asyncio.ensure_future(it) for it in puts]
                await asyncio.sleep(0.2)
                cancelled = [it for it in tasks[300:] if not it.done()][:5]
                for it in cancelled:
                    it.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
                assert all(it is None or isinstance(it, asyncio.CancelledError) for it in ends)
                return len(cancelled)

        cancelled = asyncio.run(many())
        found = {it[0] for it in saver.get_tuple(hidden).pending_writes}
        assert FAN_OUT - cancelled <= len(found), len(found)
        saver.delete_for_runs([run_id])
        assert saver.get_tuple(hidden) is None
    print("shared results are as single ones")


def repeats_a_late_call(broker):
    """The broker forgets keys that are far below the newest, so no call leaves another behind."""
    with TasukiSaver(broker) as saver:
        stored = put(saver, thread(checkpoint_ns=""))
        configurable = stored["configurable"]
        board = layout.board_name(configurable["thread_id"], "")
        number = saver.numbers.get((board, configurable["checkpoint_id"]))
        request = wire.PutBoardResultsRequest(role="langgraph", board=board, checkpoint=number)
        request.results.add(name="late", value_json="[]")
        late = Call("PutBoardResults", request, is_command=True)
        assert saver.transport.prepare(late)

        def put_many():
            for index in range(300):
                saver.put_writes(stored, [("a", index)], f"task{index}")

        others = threading.Thread(target=put_many)
        others.start()
        others.join(0.5)
        while saver.transport.counter < KEYS_APART_MAX:
            time.sleep(0.01)
        others.join(0.5)
        assert others.is_alive() and saver.transport.counter < 256
        method = saver.transport.connect().PutBoardResults
        assert method(late.request).stored == 1
        saver.transport.finish(late)
        others.join()
        assert len(saver.get_tuple(stored).pending_writes) == 300
    print("a late call is repeated under its key")


def tells_what_is_gone(broker):
    with TasukiSaver(broker) as saver, TasukiSaver(broker) as other:
        graph, config = chain(saver, adds("a")), thread()
        for is_made_anew in (False, True):
            graph.invoke({"log": []}, config)
            before = graph.get_state(config).config
            other.delete_thread(config["configurable"]["thread_id"])
            if is_made_anew:
                chain(other, adds("b")).invoke({"log": []}, config)
            for it in (saver, other):
                update = chain(it, adds("a")).update_state
                why = refused(lambda: update(before, {"log": ["x"]}))
                assert why.is_gone and "deleted or pruned" in str(why), why
                assert "no channel" not in str(why), why
    print("a run of a deleted thread is told so")


def main(broker):
    tasuki_langgraph.saver.SAVED_WITHIN_S = SAVED_WITHIN_S
    runs_are_hidden(broker)
    travels_around_subgraphs(broker)
    begins_once(broker)
    is_refused_at_once(broker)
    has_any_metadata(broker)
    tells_what_is_gone(broker)
    knows_shared_writes(broker)
    repeats_a_late_call(broker)
    fans_out(broker)
