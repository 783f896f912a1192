#!/usr/bin/env python3
"""How long a broker takes for LangGraph's checkpoints, beside SQLite on the same disk.

    langgraph_measure.py BROKER [RUNS]

The medians say what one call takes, and one step of a graph whose nodes do nothing. SQLite is
LangGraph's SqliteSaver with its own settings, which leave it to the system when the log is on the
disk; the third has `synchronous=FULL`, which waits for it as the broker does.
"""

import os
import statistics
import sys
import tempfile
import time
import uuid
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from tasuki_langgraph import TasukiSaver

BROKER = sys.argv[1]
RUNS = int(sys.argv[2]) if 2 < len(sys.argv) else 100

# Steps of one run, and messages in the state before.
STEPS = 4
MESSAGES = 20


class State(TypedDict):
    messages: Annotated[list, add_messages]


def build(checkpointer):
    graph, before = StateGraph(State), START
    for number in range(STEPS):
        name = f"step{number}"
        graph.add_node(name, lambda _, name=name: {"messages": [("ai", name)]})
        graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=checkpointer)


def timed(saver):
    """The same saver, and the times that its calls take, in milliseconds."""
    times = {"put": [], "put_writes": [], "get_tuple": []}

    class Timed(type(saver)):
        pass

    def wrap(name):
        method = getattr(type(saver), name)

        def call(self, *args, **kwargs):
            begun = time.perf_counter()
            try:
                return method(self, *args, **kwargs)
            finally:
                times[name].append(1000 * (time.perf_counter() - begun))

        setattr(Timed, name, call)

    for name in times:
        wrap(name)
    saver.__class__ = Timed
    return saver, times


def measure(name, saver):
    saver, times = timed(saver)
    graph, steps = build(saver), []
    messages = [("human", "x" * 200)] * MESSAGES
    for _ in range(RUNS):
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        begun = time.perf_counter()
        graph.invoke({"messages": messages}, config, durability="sync")
        steps.append(1000 * (time.perf_counter() - begun) / STEPS)
    medians = {it: statistics.median(all_times) for it, all_times in times.items()}
    print(
        f"{name:16} put {medians['put']:6.2f} ms  put_writes {medians['put_writes']:6.2f} ms  "
        f"get_tuple {medians['get_tuple']:6.2f} ms  step {statistics.median(steps):6.2f} ms  "
        f"({RUNS} runs of {STEPS} steps)",
        flush=True,
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            with TasukiSaver(BROKER) as saver:
                measure("TasukiSaver", saver)
            for name, setting in (("SqliteSaver", None), ("SqliteSaver FULL", "FULL")):
                path = os.path.join(folder, uuid.uuid4().hex)
                with SqliteSaver.from_conn_string(path) as saver:
                    saver.setup()
                    if setting:
                        saver.conn.execute(f"PRAGMA synchronous={setting}")
                    measure(name, saver)


if __name__ == "__main__":
    main()
