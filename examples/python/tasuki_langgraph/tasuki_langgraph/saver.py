"""A checkpointer of LangGraph whose threads are boards of a Tasuki broker.

Each `put` is one update of a board, which names the checkpoint that it is based on: when two runs
continue a thread from the same newest checkpoint, the second is refused with `ConcurrentWriter`.
A thread continues from an earlier checkpoint where the config names its `checkpoint_id`, so that
it was read as what it is, an earlier one.
"""

import copy
import json
import random
import threading
from collections import OrderedDict

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from tasuki.v1 import board_pb2 as wire
from tasuki_langgraph import layout
from tasuki_langgraph.errors import BrokerError, ConcurrentWriter
from tasuki_langgraph.transport import Call, Item, Pause, Transport

# What is remembered of threads: numbers of checkpoints, forks that may be made, empty threads.
REMEMBERED_MAX = 4096

# In one page of a list, and results in one call.
PAGE = 50
RESULTS_PER_CALL = 64

# For how long writes wait for their checkpoint, which LangGraph may be saving meanwhile, in
# seconds, and how often they look.
SAVED_WITHIN_S = 10
LOOK_S = 0.005
LOOK_S_MAX = 0.1


class Memory:
    """The newest entries of a dict, for several threads."""

    def __init__(self):
        self.lock, self.entries = threading.Lock(), OrderedDict()

    def put(self, key, value):
        with self.lock:
            self.entries[key] = value
            self.entries.move_to_end(key)
            if REMEMBERED_MAX < len(self.entries):
                self.entries.popitem(last=False)

    def get(self, key):
        with self.lock:
            return self.entries.get(key)

    def take(self, key):
        with self.lock:
            return self.entries.pop(key, None)

    def forget(self, board):
        """All that is about a board."""
        with self.lock:
            for key in [key for key in self.entries if board in (key, key[0])]:
                del self.entries[key]


class TasukiSaver(BaseCheckpointSaver):
    """Keeps checkpoints on boards of a broker. `role` is who writes them.

    `person` deletes threads, which a token needs the right `steer` for.
    """

    def __init__(
        self,
        broker="127.0.0.1:7420",
        *,
        workspace="default",
        role="langgraph",
        person="langgraph",
        token=None,
        root_certificates=None,
        serde=None,
    ):
        super().__init__(serde=serde)
        self.role, self.person = role, person
        self.transport = Transport(broker, workspace, token, root_certificates)
        # By board and id: the number of a checkpoint.
        self.numbers = Memory()
        # By board and id: the newest checkpoint when an earlier one was read by its id.
        self.forks = Memory()
        # Boards that were not there when they were read.
        self.empty = Memory()

    def close(self):
        self.transport.close()

    async def aclose(self):
        await self.transport.aclose()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()

    # As LangGraph's own savers make them.
    def get_next_version(self, current, channel):
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    def get_delta_channel_history(self, *, config, channels):
        reader = self._reader()
        return BaseCheckpointSaver.get_delta_channel_history(
            reader, config=config, channels=channels
        )

    async def aget_delta_channel_history(self, *, config, channels):
        reader = self._reader()
        return await BaseCheckpointSaver.aget_delta_channel_history(
            reader, config=config, channels=channels
        )

    def _reader(self):
        """One whose reads allow no fork: LangGraph reads earlier checkpoints by id here."""
        reader = copy.copy(self)
        reader.forks = Memory()
        return reader

    def get_tuple(self, config):
        return self.transport.run(self._get_tuple(config))

    async def aget_tuple(self, config):
        return await self.transport.arun(self._get_tuple(config))

    def list(self, config, *, filter=None, before=None, limit=None):
        for it in self.transport.items(self._list(config, filter, before, limit)):
            if isinstance(it, Item):
                yield it.value

    async def alist(self, config, *, filter=None, before=None, limit=None):
        async for it in self.transport.aitems(self._list(config, filter, before, limit)):
            if isinstance(it, Item):
                yield it.value

    def put(self, config, checkpoint, metadata, new_versions):
        return self.transport.run(self._put(config, checkpoint, metadata, new_versions))

    async def aput(self, config, checkpoint, metadata, new_versions):
        return await self.transport.arun(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(self, config, writes, task_id, task_path=""):
        self.transport.run(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(self, config, writes, task_id, task_path=""):
        await self.transport.arun(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id):
        self.transport.run(self._delete_thread(thread_id))

    async def adelete_thread(self, thread_id):
        await self.transport.arun(self._delete_thread(thread_id))

    def delete_for_runs(self, run_ids):
        """Hides the checkpoints of these runs. A board of which none is left is deleted; else they
        go when the thread is pruned."""
        self.transport.run(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids):
        await self.transport.arun(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id, target_thread_id):
        self.transport.run(self._copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id, target_thread_id):
        await self.transport.arun(self._copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids, *, strategy="keep_latest"):
        self.transport.run(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids, *, strategy="keep_latest"):
        await self.transport.arun(self._prune(thread_ids, strategy))

    # Reading.

    def _get_tuple(self, config):
        thread_id, ns, board = place(config)
        wanted = get_checkpoint_id(config)
        if wanted:
            request = wire.ReadBoardRequest(board=board, write_key=wanted)
            read = yield from found(Call("ReadBoard", request))
            if read is None:
                return None
            number, newest = read.checkpoint.checkpoint, read.board.checkpoint
            self.numbers.put((board, wanted), number)
            results = yield from self._results(board, number)
            if results is None or layout.HIDDEN in results:
                return None
            if number != newest:
                self.forks.put((board, wanted), newest)
            return self._tuple(thread_id, ns, read, results)
        number, newest = 0, None
        while True:
            request = wire.ReadBoardRequest(board=board, checkpoint=number)
            read = yield from found(Call("ReadBoard", request))
            if read is None:
                self.empty.put(board, True)
                return None
            number, newest = read.checkpoint.checkpoint, newest or read.board.checkpoint
            results = yield from self._results(board, number)
            if results is not None and layout.HIDDEN not in results:
                break
            page = yield from self._page(board, number, 1)
            if not page.checkpoints:
                self.empty.put(board, True)
                return None
            number = page.checkpoints[0].checkpoint
        self.numbers.put((board, read.checkpoint.write_key), number)
        if number != newest:
            # What is hidden does not count.
            self.forks.put((board, read.checkpoint.write_key), newest)
        return self._tuple(thread_id, ns, read, results)

    def _tuple(self, thread_id, ns, read, results):
        stored = {it.channel: json.loads(it.value_json) for it in read.channels}
        own = stored[layout.CHECKPOINT]
        if (own["thread_id"], own["checkpoint_ns"]) != (thread_id, ns):
            raise BrokerError("", f"board {read.board.board} is of thread {own['thread_id']!r}")
        checkpoint = layout.unpack(self.serde, own)
        versions = checkpoint["channel_versions"]
        values = layout.unpack_channels(self.serde, stored, versions)
        parent = own["parent"]
        writes = layout.merge_writes(it for name, it in results.items() if name != layout.HIDDEN)
        return CheckpointTuple(
            config=config_of(thread_id, ns, own["id"]),
            checkpoint={**checkpoint, "channel_values": values},
            metadata=layout.unpack_metadata(self.serde, stored[layout.METADATA]),
            parent_config=config_of(thread_id, ns, parent) if parent else None,
            pending_writes=[
                (it["task_id"], it["channel"], layout.unpack(self.serde, it)) for it in writes
            ],
        )

    def _list(self, config, filter, before, limit):
        ns = config["configurable"].get("checkpoint_ns") if config else None
        wanted = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        if config is None:
            boards = yield from self._boards(layout.PREFIX)
        elif ns is None:
            thread_id = str(config["configurable"]["thread_id"])
            boards = yield from self._boards(layout.thread_prefix(thread_id))
        else:
            boards = [place(config)[2]]
        left = limit
        for board in boards:
            number = 0
            if until:
                request = wire.ReadBoardRequest(board=board, write_key=until)
                request.channels.append(layout.CHECKPOINT)
                read = yield from found(Call("ReadBoard", request))
                number = read.checkpoint.checkpoint if read else 0
            is_compared = until and not number
            while left is None or 0 < left:
                page = yield from self._page(board, number, PAGE)
                for it in page.checkpoints:
                    is_other = wanted and it.write_key != wanted
                    if is_other or (is_compared and until <= it.write_key):
                        continue
                    if left is not None and left <= 0:
                        return
                    listed = yield from self._listed(board, it.checkpoint, filter)
                    if listed is not None:
                        left = None if left is None else left - 1
                        yield Item(listed)
                number = page.next
                if not number:
                    break

    def _listed(self, board, number, filter):
        """A checkpoint, if it is there and as the filter says."""
        request = wire.ReadBoardRequest(board=board, checkpoint=number)
        if filter:
            request.channels.append(layout.METADATA)
            read = yield from found(Call("ReadBoard", request))
            if read is None:
                return None
            stored = json.loads(read.channels[0].value_json)
            metadata = layout.unpack_metadata(self.serde, stored)
            if any(metadata.get(key) != value for key, value in filter.items()):
                return None
            del request.channels[:]
        results = yield from self._results(board, number)
        read = yield from found(Call("ReadBoard", request))
        if read is None or results is None or layout.HIDDEN in results:
            return None
        own = next(it for it in read.channels if it.channel == layout.CHECKPOINT)
        own = json.loads(own.value_json)
        self.numbers.put((board, own["id"]), number)
        return self._tuple(own["thread_id"], own["checkpoint_ns"], read, results)

    def _boards(self, prefix):
        names, after = [], ""
        while True:
            request = wire.ListBoardsRequest(prefix=prefix, after=after)
            page = yield Call("ListBoards", request)
            names += [it.board for it in page.boards]
            after = page.next
            if not after:
                return names

    def _page(self, board, before, limit):
        """The checkpoints before one, the newest first. Empty if there is no such board."""
        request = wire.ListCheckpointsRequest(board=board, before=before, limit=limit)
        page = yield from found(Call("ListCheckpoints", request))
        return page or wire.ListCheckpointsResponse()

    def _all(self, board):
        """All checkpoints, the newest first."""
        listed, number = [], 0
        while True:
            page = yield from self._page(board, number, PAGE)
            listed += page.checkpoints
            number = page.next
            if not number:
                return listed

    def _results(self, board, number):
        """By name; `None` if there is no such checkpoint."""
        request = wire.ListBoardResultsRequest(board=board, checkpoint=number)
        listed = yield from found(Call("ListBoardResults", request))
        return listed and {it.name: json.loads(it.value_json) for it in listed.results}

    def _number(self, board, checkpoint_id):
        """`None`: the board has no such checkpoint."""
        number = self.numbers.get((board, checkpoint_id))
        if number is None:
            request = wire.ReadBoardRequest(board=board, write_key=checkpoint_id)
            request.channels.append(layout.CHECKPOINT)
            read = yield from found(Call("ReadBoard", request))
            if read is not None:
                number = read.checkpoint.checkpoint
                self.numbers.put((board, checkpoint_id), number)
        return number

    # Writing.

    def _put(self, config, checkpoint, metadata, new_versions):
        thread_id, ns, board = place(config)
        parent = get_checkpoint_id(config)
        rest = {key: it for key, it in checkpoint.items() if key != "channel_values"}
        own = {"thread_id": thread_id, "checkpoint_ns": ns, "id": checkpoint["id"], "parent": parent}
        channels = layout.pack_channels(self.serde, checkpoint["channel_values"], new_versions)
        channels[layout.CHECKPOINT] = own | layout.pack(self.serde, rest)
        metadata = get_checkpoint_metadata(config, metadata)
        channels[layout.METADATA] = layout.pack_metadata(self.serde, metadata)
        request = self._update(board, checkpoint["id"], channels)
        fork = None
        if parent:
            number = yield from self._number(board, parent)
            if number is None:
                raise ConcurrentWriter(thread_id, ns, parent, "", None, [])
            request.expected_checkpoint = number
            fork = self.forks.take((board, parent))
            if fork is not None:
                request.fork, request.newest_checkpoint = True, fork
        elif self.empty.get(board):
            request.expected_checkpoint = 0
        try:
            written = yield Call("UpdateBoard", request, is_command=True)
        except BrokerError as why:
            if why.reason != "stale_checkpoint":
                raise
            known = request.expected_checkpoint if fork is None else fork
            raise (yield from self._concurrent(thread_id, ns, board, parent, known)) from why
        self.numbers.put((board, checkpoint["id"]), written.checkpoint)
        return config_of(thread_id, ns, checkpoint["id"])

    def _update(self, board, write_key, channels):
        updates = [
            wire.ChannelUpdate(channel=name, value_json=json.dumps(it))
            for name, it in channels.items()
        ]
        return wire.UpdateBoardRequest(
            role=self.role, board=board, schema="any", write_key=write_key, updates=updates
        )

    def _concurrent(self, thread_id, ns, board, parent, known):
        """What whoever was refused is told."""
        page = yield from self._page(board, 0, PAGE)
        newer = [it for it in page.checkpoints if known < it.checkpoint]
        own = (layout.OWN, "branch:")
        channels = {name for it in newer for name in it.channels if not name.startswith(own)}
        by = (newer[0].by_role or newer[0].by_person) if newer else ""
        newest = newer[0].write_key if newer else None
        return ConcurrentWriter(thread_id, ns, parent, by, newest, sorted(channels))

    def _put_writes(self, config, writes, task_id, task_path):
        _, _, board = place(config)
        checkpoint_id = config["configurable"]["checkpoint_id"]
        waited, pause = 0, LOOK_S
        while (number := (yield from self._number(board, checkpoint_id))) is None:
            # LangGraph saves a checkpoint and the writes of its tasks side by side.
            if SAVED_WITHIN_S <= waited:
                raise BrokerError("unknown_checkpoint", f"no checkpoint {checkpoint_id} was saved")
            yield Pause(pause)
            waited, pause = waited + pause, min(2 * pause, LOOK_S_MAX)
        results = layout.pack_writes(self.serde, writes, task_id, task_path)
        special = {name: it for name, it in results.items() if it[0]["index"] < 0}
        plain = {name: it for name, it in results.items() if name not in special}
        # As the savers of LangGraph do it: the first of a task's writes stay, what is special is
        # replaced.
        yield from self._store(board, number, special, replace=True)
        kept = yield from self._store(board, number, plain)
        if kept:
            stored = yield from self._results(board, number) or {}
            there = layout.merge_writes(it for name, it in stored.items() if name != layout.HIDDEN)
            there = {it["index"] for it in there if it["task_id"] == task_id}
            missing = set(range(len(writes))) - there - {
                index for index, it in enumerate(writes) if it[0] in WRITES_IDX_MAP
            }
            if missing:
                more = layout.pack_writes(self.serde, writes, task_id, task_path, there)
                more = {name: it for name, it in more.items() if 0 <= it[0]["index"]}
                yield from self._store(board, number, more)

    def _store(self, board, number, results, replace=False):
        """Names that were there before."""
        inputs = [
            wire.BoardResultInput(name=name, value_json=json.dumps(it))
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

    # Threads.

    def _delete_thread(self, thread_id):
        boards = yield from self._boards(layout.thread_prefix(str(thread_id)))
        for board in boards:
            yield from self._delete_board(board)

    def _delete_board(self, board):
        request = wire.DeleteBoardRequest(person=self.person, board=board)
        yield from found(Call("DeleteBoard", request, is_command=True))
        for memory in (self.numbers, self.forks, self.empty):
            memory.forget(board)

    def _delete_for_runs(self, run_ids):
        runs = {str(it) for it in run_ids}
        boards = (yield from self._boards(layout.PREFIX)) if runs else []
        for board in boards:
            is_any_left = False
            for it in (yield from self._all(board)):
                results = yield from self._results(board, it.checkpoint)
                if results is None or layout.HIDDEN in results:
                    continue
                request = wire.ReadBoardRequest(board=board, checkpoint=it.checkpoint)
                request.channels.append(layout.METADATA)
                read = yield from found(Call("ReadBoard", request))
                if read is None:
                    continue
                stored = json.loads(read.channels[0].value_json)
                run_id = layout.unpack_metadata(self.serde, stored).get("run_id")
                if run_id in runs:
                    hidden = {layout.HIDDEN: [{"run_id": run_id}]}
                    yield from self._store(board, it.checkpoint, hidden)
                else:
                    is_any_left = True
            if not is_any_left:
                yield from self._delete_board(board)

    def _copy_thread(self, source, target):
        for board in (yield from self._boards(layout.thread_prefix(str(source)))):
            # Of the source's checkpoint the number of the target's.
            numbers, newest = {}, 0
            for it in reversed((yield from self._all(board))):
                results = yield from self._results(board, it.checkpoint)
                if results is None or layout.HIDDEN in results:
                    continue
                request = wire.ReadBoardRequest(board=board, checkpoint=it.checkpoint)
                if it.parent in numbers:
                    request.channels.extend(it.channels)
                read = yield Call("ReadBoard", request)
                channels = {one.channel: json.loads(one.value_json) for one in read.channels}
                own = channels[layout.CHECKPOINT]
                own["thread_id"] = str(target)
                copy = layout.board_name(str(target), own["checkpoint_ns"])
                update = self._update(copy, it.write_key, channels)
                update.expected_checkpoint = numbers.get(it.parent, newest)
                update.fork = update.expected_checkpoint != newest
                written = yield Call("UpdateBoard", update, is_command=True)
                numbers[it.checkpoint] = newest = written.checkpoint
                yield from self._store(copy, newest, results)

    def _prune(self, thread_ids, strategy):
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"strategy {strategy!r} is neither 'keep_latest' nor 'delete'")
        for thread_id in thread_ids:
            if strategy == "delete":
                yield from self._delete_thread(thread_id)
                continue
            for board in (yield from self._boards(layout.thread_prefix(str(thread_id)))):
                keep = yield from self._needed(board)
                request = wire.PruneBoardRequest(role=self.role, board=board, keep=keep)
                yield from found(Call("PruneBoard", request, is_command=True))
                for memory in (self.numbers, self.forks):
                    memory.forget(board)

    def _needed(self, board):
        """How many of the newest checkpoints the newest that is not hidden needs.

        A `DeltaChannel` has its value in an earlier checkpoint, and what was added as the writes
        since.
        """
        open_channels, parent = None, None
        listed = yield from self._all(board)
        for count, it in enumerate(listed, 1):
            if open_channels is None:
                results = yield from self._results(board, it.checkpoint)
                if results is None or layout.HIDDEN in results:
                    continue
            elif it.checkpoint != parent:
                continue
            request = wire.ReadBoardRequest(board=board, checkpoint=it.checkpoint)
            read = yield from found(Call("ReadBoard", request))
            if read is None:
                continue
            stored = {one.channel: json.loads(one.value_json) for one in read.channels}
            if open_channels is None:
                metadata = layout.unpack_metadata(self.serde, stored[layout.METADATA])
                open_channels = set(metadata.get("counters_since_delta_snapshot") or ())
            versions = layout.unpack(self.serde, stored[layout.CHECKPOINT])["channel_versions"]
            there = layout.unpack_channels(self.serde, stored, versions)
            open_channels -= set(there)
            parent = it.parent
            if not open_channels:
                return count
        return max(1, len(listed))


def place(config):
    """The thread of a config, its namespace and its board."""
    configurable = config["configurable"]
    thread_id = str(configurable["thread_id"])
    ns = configurable.get("checkpoint_ns", "")
    return thread_id, ns, layout.board_name(thread_id, ns)


def config_of(thread_id, ns, checkpoint_id):
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": configurable}


def found(call):
    """The answer; `None` where what the call names is not there."""
    try:
        return (yield call)
    except BrokerError as why:
        if why.reason in ("unknown_board", "unknown_checkpoint"):
            return None
        raise



