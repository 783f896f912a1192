#!/usr/bin/env python3
"""LangGraph with its checkpoints on boards: its conformance suite, and graphs that are killed,
forked and raced.

    langgraph_saver.py BROKER
"""

import asyncio
import operator
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from typing import Annotated, TypedDict

from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

import langgraph_edges
from tasuki_langgraph import ConcurrentWriter, TasukiSaver

BROKER = sys.argv[1]

# How long a race may take, in seconds.
PATIENCE_S = 60


class State(TypedDict):
    n: int
    log: Annotated[list, operator.add]


def build(checkpointer, ran=None, killed_in=None):
    """Four nodes, two of them side by side. `ran`: a file that each adds its name to."""

    def node(name):
        def run(state):
            if ran:
                with open(ran, "a") as file:
                    file.write(name + "\n")
            if killed_in == name:
                os.kill(os.getpid(), signal.SIGKILL)
            added = {"log": [name]}
            return added | {"n": state["n"] + 1} if name in ("plan", "done") else added

        return run

    graph = StateGraph(State)
    for name in ("plan", "code", "docs", "done"):
        graph.add_node(name, node(name))
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "code")
    graph.add_edge("plan", "docs")
    graph.add_edge(["code", "docs"], "done")
    graph.add_edge("done", END)
    return graph.compile(checkpointer=checkpointer)


def thread():
    return {"configurable": {"thread_id": str(uuid.uuid4())}}


INPUT = {"n": 0, "log": ["in"]}
WHOLE = ["in", "plan", "code", "docs", "done"]


def conforms():
    @checkpointer_test(name="TasukiSaver")
    async def checkpointer():
        async with TasukiSaver(BROKER) as saver:
            yield saver

    report = asyncio.run(validate(checkpointer))
    for name, it in report.results.items():
        assert it.detected and it.passed, (name, it.failures)
    passed = sum(it.tests_passed for it in report.results.values())
    print(f"{passed} tests of {len(report.results)} capabilities conform")


def is_killed_and_resumes():
    with tempfile.TemporaryDirectory() as folder:
        ran, config = os.path.join(folder, "ran"), thread()
        child = [sys.executable, __file__, BROKER, "--run", config["configurable"]["thread_id"], ran]
        assert subprocess.run(child).returncode == -signal.SIGKILL
        with TasukiSaver(BROKER) as saver:
            graph = build(saver, ran)
            state = graph.get_state(config)
            assert state.next == ("done",), state
            assert graph.invoke(None, config)["log"] == WHOLE
            history = list(graph.get_state_history(config))
        with open(ran) as file:
            names = file.read().split()
    assert sorted(names) == ["code", "docs", "done", "done", "plan"], names
    assert [it.metadata["step"] for it in history] == [3, 2, 1, 0, -1]
    print("a killed run resumes where it was")


def forks():
    with TasukiSaver(BROKER) as saver:
        graph, config = build(saver), thread()
        graph.invoke(INPUT, config)
        planned = next(it for it in graph.get_state_history(config) if it.next == ("code", "docs"))
        # By an update of an earlier state, and by running on from there.
        forked = graph.update_state(planned.config, {"n": 100})
        assert graph.invoke(None, forked)["n"] == 101
        assert graph.invoke(None, planned.config)["n"] == 2
        assert graph.get_state(config).values == {"n": 2, "log": WHOLE}
        for durability in ("sync", "async", "exit"):
            graph.invoke({"n": 5, "log": []}, config, durability=durability)
        assert graph.get_state(config).values["n"] == 7
        # The permission to fork is used up: the same again, from what was read before, is refused.
        saved = saver.get_tuple(planned.config)
        child = saved.checkpoint | {"id": str(uuid.uuid4())}
        saver.put(saved.config, child, saved.metadata, {})
        other = saved.checkpoint | {"id": str(uuid.uuid4())}
        try:
            saver.put(saved.config, other, saved.metadata, {})
            raise AssertionError("a second fork was taken for a continuation")
        except ConcurrentWriter:
            pass
        # Nor is it one to leave behind what nobody had seen.
        saved = saver.get_tuple(planned.config)
        with TasukiSaver(BROKER, role="other") as faster:
            build(faster).invoke(INPUT, config)
        try:
            saver.put(saved.config, other, saved.metadata, {})
            raise AssertionError("a fork left behind what nobody had seen")
        except ConcurrentWriter as why:
            assert why.by == "other" and {"log", "n"} <= set(why.channels), why
    print("a thread continues from an earlier checkpoint where that is asked for")


def pauses():
    """A person answers; the graph goes on in another process, as it were."""

    def ask(state):
        return {"n": interrupt("how many?"), "log": ["asked"]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    config = thread()
    with TasukiSaver(BROKER) as saver:
        told = graph.compile(checkpointer=saver).invoke(INPUT, config)
        assert told["__interrupt__"][0].value == "how many?", told
    with TasukiSaver(BROKER) as saver:
        assert graph.compile(checkpointer=saver).invoke(Command(resume=7), config)["n"] == 7
    print("an interrupt is answered by another process")


def racing(saver, barrier):
    """The same saver, whose first reads end together."""

    class Racing(type(saver)):
        def get_tuple(self, config):
            found = super().get_tuple(config)
            try:
                barrier.wait(PATIENCE_S)
            except threading.BrokenBarrierError:
                pass
            return found

    saver.__class__ = Racing
    return saver


def race(savers, config, inputs):
    """What became of each of two runs on one thread: a state, or why not."""
    outcomes = [None, None]

    def run(index):
        try:
            outcomes[index] = build(savers[index]).invoke(inputs[index], config)
        except Exception as why:
            outcomes[index] = why

    runs = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for it in runs:
        it.start()
    for it in runs:
        it.join()
    return outcomes


def refuses_a_second_writer():
    for rounds in range(3):
        # Of two processes, and of two runs in one.
        for is_shared in (False, True):
            config = thread()
            with TasukiSaver(BROKER, role="one") as one, TasukiSaver(BROKER, role="two") as two:
                # At first the thread does not exist yet.
                if rounds:
                    build(one).invoke(INPUT, config)
                before = build(one).get_state(config).values.get("n", 0)
                barrier = threading.Barrier(2)
                if is_shared:
                    savers = [racing(one, barrier)] * 2
                else:
                    savers = [racing(one, barrier), racing(two, barrier)]
                inputs = [{"log": [name]} if rounds else INPUT for name in "ab"]
                outcomes = race(savers, config, inputs)
                refused = [it for it in outcomes if isinstance(it, ConcurrentWriter)]
                went_on = [it for it in outcomes if isinstance(it, dict)]
                assert (len(refused), len(went_on)) == (1, 1), outcomes
                assert refused[0].by in ("one", "two") and refused[0].channels, refused
                with TasukiSaver(BROKER) as after:
                    assert build(after).get_state(config).values["n"] == before + 2
    # The savers that come with LangGraph take both, and one run's work is lost.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoints.db")
        with SqliteSaver.from_conn_string(path) as sqlite:
            for saver in (InMemorySaver(), sqlite):
                config = thread()
                build(saver).invoke(INPUT, config)
                barrier = threading.Barrier(2)
                inputs = [{"log": [name]} for name in "ab"]
                outcomes = race([racing(saver, barrier)] * 2, config, inputs)
                assert all(isinstance(it, dict) for it in outcomes), outcomes
                assert [it["n"] for it in outcomes] == [4, 4], outcomes
                name = type(saver).__mro__[1].__name__
                print(f"{name} takes both of two runs that continue one checkpoint")
    print("TasukiSaver takes one of two runs that continue one checkpoint")


async def runs_with_asyncio():
    class Racing(TasukiSaver):
        """Whose first two reads of a race end together."""

        readers, have_read = 0, None

        async def aget_tuple(self, config):
            found = await super().aget_tuple(config)
            if self.have_read:
                self.readers += 1
                if self.readers == 2:
                    self.have_read.set()
                await self.have_read.wait()
            return found

    async with Racing(BROKER) as saver:
        graph, config = build(saver), thread()
        assert (await graph.ainvoke(INPUT, config))["log"] == WHOLE
        assert len([it async for it in graph.aget_state_history(config)]) == 5
        saver.have_read = asyncio.Event()
        both = (graph.ainvoke({"log": [name]}, config) for name in "ab")
        outcomes = await asyncio.gather(*both, return_exceptions=True)
        refused = [it for it in outcomes if isinstance(it, ConcurrentWriter)]
        went_on = [it for it in outcomes if isinstance(it, dict)]
        assert (len(refused), len(went_on)) == (1, 1), outcomes
    print("the same with asyncio")


class Cutter:
    """Between a saver and its broker: loses answers, and the connection with them."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        host, port = BROKER.split(":")
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection((host, int(port)))
            for source, sink, is_answer in ((near, far, False), (far, near, True)):
                move = threading.Thread(target=self.move, args=(source, sink, is_answer))
                move.daemon = True
                move.start()

    def move(self, source, sink, is_answer):
        try:
            while data := source.recv(65536):
                if is_answer and 0 < self.cuts and b"\x00\x00\x00\x00" in data and 60 < len(data):
                    self.cuts -= 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for it in (source, sink):
            try:
                it.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def survives_lost_answers():
    cutter = Cutter()
    with TasukiSaver(cutter.address) as saver:
        graph, config = build(saver), thread()
        graph.invoke(INPUT, config)
        cutter.cuts = 3
        graph.invoke({"log": ["again"]}, config)
        assert cutter.cuts < 3, "no answer was lost"
        history = list(graph.get_state_history(config))
        assert len(history) == 10 and graph.get_state(config).values["n"] == 4, len(history)
    print(f"{3 - cutter.cuts} answers were lost, and nothing was written twice")


def repeats_are_one():
    with TasukiSaver(BROKER) as saver:
        graph, config = build(saver), thread()
        graph.invoke(INPUT, config)
        saved = saver.get_tuple(config)
        child = saved.checkpoint | {"id": str(uuid.uuid4()), "channel_values": {"n": 9}}
        versions = {"n": saver.get_next_version(saved.checkpoint["channel_versions"]["n"], None)}
        child["channel_versions"] = saved.checkpoint["channel_versions"] | versions
        for _ in range(2):
            stored = saver.put(saved.config, child, saved.metadata, versions)
            saver.put_writes(stored, [("a", 1), ("b", 2)], "task")
        # The first of a task's writes stay, as with LangGraph's own savers.
        saver.put_writes(stored, [("a", 3), ("b", 4), ("c", 5)], "task")
        found = saver.get_tuple(config)
        expected = [("task", "a", 1), ("task", "b", 2), ("task", "c", 5)]
        assert found.pending_writes == expected, found.pending_writes
        assert found.checkpoint["channel_values"]["n"] == 9
        assert len(list(saver.list(config))) == 6
    print("repeats are one")


def keeps_house():
    """A thread goes on after it was pruned, copied, or had its newest run removed."""
    with TasukiSaver(BROKER) as saver:
        graph, config = build(saver), thread()
        graph.invoke(INPUT, config)
        graph.invoke({"log": []}, config)
        state = graph.get_state(config)
        other = thread()
        saver.copy_thread(config["configurable"]["thread_id"], other["configurable"]["thread_id"])
        saver.prune([config["configurable"]["thread_id"]])
        assert len(list(saver.list(config))) == 1 and len(list(saver.list(other))) == 10
        for it in (config, other):
            assert graph.get_state(it).values == state.values
            assert graph.invoke({"log": ["on"]}, it)["n"] == 6
        saved = saver.get_tuple(config)
        child = saved.checkpoint | {"id": str(uuid.uuid4())}
        run_id = str(uuid.uuid4())
        saver.put(saved.config, child, saved.metadata | {"run_id": run_id}, {})
        saver.delete_for_runs([run_id])
        assert saver.get_tuple(config).config == saved.config
        assert graph.invoke({"log": []}, config)["n"] == 8
        everything = {it.config["configurable"]["thread_id"] for it in saver.list(None)}
        assert {it["configurable"]["thread_id"] for it in (config, other)} <= everything
        saver.delete_thread(config["configurable"]["thread_id"])
        assert saver.get_tuple(config) is None
        assert graph.invoke(INPUT, config)["log"] == WHOLE
    print("threads are pruned, copied and deleted")


def has_delta_channels():
    """A channel whose value is the writes since an earlier checkpoint."""

    class Deltas(TypedDict):
        items: Annotated[list, DeltaChannel(lambda it, more: it + sum(more, []), snapshot_frequency=4)]

    graph = StateGraph(Deltas)
    graph.add_node("add", lambda state: {"items": [len(state["items"])]})
    graph.add_edge(START, "add")
    config = thread()
    with TasukiSaver(BROKER) as saver:
        compiled = graph.compile(checkpointer=saver)
        for number in range(7):
            compiled.invoke({"items": ["in"]}, config)
            before = compiled.get_state(config).values
            if number in (3, 5):
                saver.prune([config["configurable"]["thread_id"]])
                assert compiled.get_state(config).values == before, before
        assert len(before["items"]) == 14, before
    print("channels of deltas are whole after pruning")


def main():
    conforms()
    is_killed_and_resumes()
    forks()
    pauses()
    refuses_a_second_writer()
    asyncio.run(runs_with_asyncio())
    survives_lost_answers()
    repeats_are_one()
    keeps_house()
    has_delta_channels()
    langgraph_edges.main(BROKER)


if __name__ == "__main__":
    if sys.argv[2:3] == ["--run"]:
        thread_id, ran = sys.argv[3:]
        with TasukiSaver(BROKER) as saver:
            config = {"configurable": {"thread_id": thread_id}}
            # By default LangGraph goes on before a checkpoint is saved.
            build(saver, ran, "done").invoke(INPUT, config, durability="sync")
    else:
        main()
