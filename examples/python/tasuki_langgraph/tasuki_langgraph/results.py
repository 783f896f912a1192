"""Results at a checkpoint: what its tasks wrote.

The writes of a task are results of their own, up to `OWN_RESULTS_MAX` at one checkpoint: the broker
has a limit for how many there are. Small writes of further tasks share results, by a digest of the
task's id. A shared result is written as a whole, by one thread or task at a time.

Other savers may write to the same ones, so what is known of them is read again once the checkpoint
was read, as each run does that continues from it. Of two savers that share at the same time, writes
may be lost: their tasks then run again, and one of the two runs is refused at its next checkpoint.
"""

import threading
from collections import OrderedDict

from tasuki.v1 import board_pb2 as wire
from tasuki_langgraph import layout
from tasuki_langgraph.errors import BrokerError, found
from tasuki_langgraph.memory import Memory
from tasuki_langgraph.transport import LOOK_S, LOOK_S_MAX, Call, Pause

# Of 1,024 results at one checkpoint: those of the first tasks, then these, and at most 192 larger
# ones, which are all that the limit of 3 MiB has room for.
OWN_RESULTS_MAX = 256
SHARED_RESULTS_MAX = 512

# Larger writes are never shared, in bytes: a result has at most 1 MiB.
SHARED_BYTES_MAX = 16 * 1024

# Checkpoints whose shared results are remembered, with up to 3 MiB each.
SHARED_REMEMBERED_MAX = 8

# Results in one call.
RESULTS_PER_CALL = 64


class Shared:
    """The shared results of a checkpoint."""

    # Instead of a result's name: all are read.
    READING = ""

    def __init__(self):
        # By name: writes by task and index.
        self.results = {}
        # Writes that are results of their own, by task and index: the name.
        self.own = {}
        self.is_stale = True
        # Results that are written.
        self.busy = set()

class Results:
    """The results of boards."""

    def __init__(self, role):
        self.role = role
        # By board and checkpoint: how many results there are at least.
        self.counts = Memory()
        self.lock = threading.Lock()
        # By board and checkpoint: what is shared there.
        self.shared = OrderedDict()

    def list(self, board, number):
        """By name; `None` if there is no such checkpoint."""
        self._distrust((board, number))
        return (yield from self._list(board, number))

    def _list(self, board, number):
        request = wire.ListBoardResultsRequest(board=board, checkpoint=number)
        listed = yield from found(Call("ListBoardResults", request))
        if listed is None:
            return None
        self.counts.add((board, number), 0, least=len(listed.results))
        return {it.name: layout.load(it.value_json) for it in listed.results}

    def put_writes(self, board, number, serde, writes, task_id, task_path):
        own, shared = layout.pack_writes(serde, writes, task_id, task_path), []
        is_sharing = OWN_RESULTS_MAX < self.counts.add((board, number), len(own))
        if is_sharing:
            for name, result in list(own.items()):
                if sum(len(it["data"]) for it in result) <= SHARED_BYTES_MAX:
                    shared += own.pop(name)
        special = {name: it for name, it in own.items() if it[0]["index"] < 0}
        plain = {name: it for name, it in own.items() if name not in special}
        # As the savers of LangGraph do it: the first of a task's writes stay, what is special is
        # replaced.
        yield from self.put(board, number, special, replace=True)
        kept = yield from self.put(board, number, plain)
        if kept:
            there = layout.merge_writes((yield from self.list(board, number)) or {})
            there = {it["index"] for it in there if it["task_id"] == task_id}
            more = layout.pack_writes(serde, writes, task_id, task_path, there)
            more = {name: it for name, it in more.items() if 0 <= it[0]["index"]}
            yield from self.put(board, number, more)
        if is_sharing and own:
            self._distrust((board, number))
        if shared:
            yield from self._share((board, number), task_id, shared)

    def put(self, board, number, results, replace=False):
        """Names that were there before."""
        inputs = [
            wire.BoardResultInput(name=name, value_json=layout.dump(it))
            for name, it in results.items()
        ]
        kept = []
        for first in range(0, len(inputs), RESULTS_PER_CALL):
            request = wire.PutBoardResultsRequest(
                role=self.role,
                board=board,
                checkpoint=number,
                results=inputs[first : first + RESULTS_PER_CALL],
                replace=replace,
            )
            stored = yield Call("PutBoardResults", request, is_command=True)
            kept += stored.kept
        return kept

    def _distrust(self, place):
        with self.lock:
            if place in self.shared:
                self.shared[place].is_stale = True

    def _share(self, place, task_id, writes):
        name, pause = layout.shared_name(task_id, SHARED_RESULTS_MAX), LOOK_S
        while True:
            shared, step = self._begin(place, name)
            if step is None:
                yield Pause(pause)
                pause = min(2 * pause, LOOK_S_MAX)
                continue
            is_done = False
            try:
                if step == Shared.READING:
                    yield from self._read(place, shared)
                else:
                    yield from self._store(place, shared, name, writes)
                is_done = True
            finally:
                with self.lock:
                    shared.busy.discard(step)
                    if not is_done:
                        shared.is_stale = True
            if step == name:
                return

    def _begin(self, place, name):
        """What is free to be done next: to read all results, or to write this one. `None`: nothing
        is, for the moment."""
        with self.lock:
            shared = self.shared.setdefault(place, Shared())
            self.shared.move_to_end(place)
            idle = [key for key, it in self.shared.items() if not it.busy and it is not shared]
            for key in idle[: max(0, len(self.shared) - SHARED_REMEMBERED_MAX)]:
                del self.shared[key]
            # What is read while others write may be older than what they wrote.
            if shared.is_stale:
                step, is_free = Shared.READING, not shared.busy
            else:
                step, is_free = name, shared.busy.isdisjoint((name, Shared.READING))
            if not is_free:
                return shared, None
            shared.busy.add(step)
            shared.is_stale = False
            return shared, step

    def _read(self, place, shared):
        listed = yield from self._list(*place)
        if listed is None:
            board, number = place
            raise BrokerError("unknown_checkpoint", f"board {board} has no checkpoint {number}")
        shared.results, shared.own = {}, {}
        for name, result in listed.items():
            if layout.is_shared(name):
                shared.results[name] = {(it["task_id"], it["index"]): it for it in result}
            elif name != layout.HIDDEN:
                shared.own |= {(it["task_id"], it["index"]): name for it in result}

    def _store(self, place, shared, name, writes):
        """As results of their own: the first of a task's writes stay, what is special is
        replaced."""
        there = shared.results.get(name, {})
        result, own = dict(there), {}
        for write in writes:
            key, is_special = (write["task_id"], write["index"]), write["index"] < 0
            if key in shared.own:
                if is_special:
                    own[shared.own[key]] = [write]
            elif is_special or key not in result:
                result[key] = write
        if result != there:
            own[name] = [*result.values()]
        yield from self.put(*place, own, replace=True)
        shared.results[name] = result
