"""A checkpointer of LangGraph whose threads are boards of a Tasuki broker.

Each `put` is one update of a board, which names the checkpoint that it is based on: when two runs
continue a thread from the same newest checkpoint, the second to write is refused with
`ConcurrentWriter`. A thread continues from an earlier checkpoint where the config names its
`checkpoint_id`, so that it was read as what it is, an earlier one; and a subgraph, from where it
was when its graph was at such a checkpoint.
"""

import copy
import random

from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from tasuki.v1 import board_pb2 as wire
from tasuki_langgraph import layout
from tasuki_langgraph.errors import BrokerError, ConcurrentWriter, found, repeated
from tasuki_langgraph.memory import Memory
from tasuki_langgraph.results import Results
from tasuki_langgraph.transport import LOOK_S, LOOK_S_MAX, Call, Item, Pause, Transport

# In one page of a list.
PAGE = 50

# For how long writes wait for their checkpoint, which LangGraph may be saving meanwhile, in
# seconds.
SAVED_WITHIN_S = 10

# Where LangGraph keeps an object of the run in a config. Without it a run is not known again.
RUNTIME = "__pregel_runtime"


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
        # By board and id: the newest checkpoint when an earlier one was read to continue from it.
        self.forks = Memory()
        # By board: the newest checkpoint when none was found to continue from; 0: no board.
        self.roots = Memory()
        # By board and id, and by board and run: why a checkpoint was not written.
        self.refusals = Memory()
        self.results = Results(role)

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
        reader.forks, reader.roots = Memory(), Memory()
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
        """Hides the checkpoints of these runs. They go when the thread is pruned or deleted."""
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
            results = yield from self.results.list(board, number)
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
                self.roots.put(board, newest or 0)
                return None
            number, newest = read.checkpoint.checkpoint, newest or read.board.checkpoint
            results = yield from self.results.list(board, number)
            if results is not None and layout.HIDDEN not in results:
                break
            page = yield from self._page(board, number, 1)
            if not page.checkpoints:
                # All are hidden: the thread begins anew after them.
                self.roots.put(board, newest)
                return None
            number = page.checkpoints[0].checkpoint
        self.numbers.put((board, read.checkpoint.write_key), number)
        if number != newest:
            # What is hidden does not count.
            self.forks.put((board, read.checkpoint.write_key), newest)
        return self._tuple(thread_id, ns, read, results)

    def _tuple(self, thread_id, ns, read, results):
        stored = {it.channel: layout.load(it.value_json) for it in read.channels}
        own = stored[layout.CHECKPOINT]
        if (own["thread_id"], own["checkpoint_ns"]) != (thread_id, ns):
            raise BrokerError("", f"board {read.board.board} is of thread {own['thread_id']!r}")
        checkpoint = layout.unpack(self.serde, own)
        versions = checkpoint["channel_versions"]
        values = layout.unpack_channels(self.serde, stored, versions)
        parent = own["parent"]
        writes = layout.merge_writes(results)
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
            number, newest = 0, None
            if until:
                request = wire.ReadBoardRequest(board=board, write_key=until)
                request.channels.append(layout.CHECKPOINT)
                read = yield from found(Call("ReadBoard", request))
                number = read.checkpoint.checkpoint if read else 0
            is_compared = until and not number
            # The newest before a checkpoint of another namespace: so a subgraph is read when its
            # graph runs again from there. It continues from what is found, or begins anew.
            is_replay = is_compared and ns is not None and limit == 1 and not (filter or wanted)
            while left is None or 0 < left:
                page = yield from self._page(board, number, PAGE)
                if newest is None:
                    newest = page.checkpoints[0].checkpoint if page.checkpoints else 0
                for it in page.checkpoints:
                    is_other = wanted and it.write_key != wanted
                    if is_other or (is_compared and until <= it.write_key):
                        continue
                    if left is not None and left <= 0:
                        return
                    listed = yield from self._listed(board, it.checkpoint, filter)
                    if listed is not None:
                        if is_replay and it.checkpoint != newest:
                            self.forks.put((board, it.write_key), newest)
                        left = None if left is None else left - 1
                        yield Item(listed)
                number = page.next
                if not number:
                    if is_replay and left:
                        self.roots.put(board, newest)
                    break

    def _listed(self, board, number, filter):
        """A checkpoint, if it is there and as the filter says."""
        request = wire.ReadBoardRequest(board=board, checkpoint=number)
        if filter:
            request.channels.append(layout.METADATA)
            read = yield from found(Call("ReadBoard", request))
            if read is None:
                return None
            stored = layout.load(read.channels[0].value_json)
            metadata = layout.unpack_metadata(self.serde, stored)
            if any(metadata.get(key) != value for key, value in filter.items()):
                return None
            del request.channels[:]
        results = yield from self.results.list(board, number)
        read = yield from found(Call("ReadBoard", request))
        if read is None or results is None or layout.HIDDEN in results:
            return None
        own = next(it for it in read.channels if it.channel == layout.CHECKPOINT)
        own = layout.load(own.value_json)
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
        board, run = place(config)[2], run_of(config)
        # Under what the writes of its tasks, which wait for it, look for why it was not written.
        # A run writes no checkpoint of a thread after one that was refused.
        keys = [(board, checkpoint["id"])] + ([(board, run)] if run else [])
        for key in keys:
            self.refusals.take(key)
        try:
            return (yield from self._write(config, checkpoint, metadata, new_versions))
        except Exception as why:
            for key in keys:
                self.refusals.put(key, repeated(why))
            raise

    def _write(self, config, checkpoint, metadata, new_versions):
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
            known = yield from self._number(board, parent)
            if known is None:
                raise ConcurrentWriter(thread_id, ns, parent, "", None, [], is_gone=True)
            fork = self.forks.take((board, parent))
            if fork is not None:
                request.fork, request.newest_checkpoint = True, fork
        else:
            # Who found nothing to continue from begins the thread, after what was there then. It
            # stays noted: of two that found nothing, the second is refused.
            known = self.roots.get(board)
        if known is not None:
            request.expected_checkpoint = known
        try:
            written = yield Call("UpdateBoard", request, is_command=True)
        except BrokerError as why:
            if why.reason not in ("stale_checkpoint", "unknown_checkpoint"):
                raise
            known = known if fork is None else fork
            raise (yield from self._concurrent(thread_id, ns, board, parent, known)) from why
        self.numbers.put((board, checkpoint["id"]), written.checkpoint)
        return config_of(thread_id, ns, checkpoint["id"])

    def _update(self, board, write_key, channels):
        updates = [
            wire.ChannelUpdate(channel=name, value_json=layout.dump(it))
            for name, it in channels.items()
        ]
        return wire.UpdateBoardRequest(
            role=self.role, board=board, schema="any", write_key=write_key, updates=updates
        )

    def _concurrent(self, thread_id, ns, board, parent, known):
        """What whoever was refused is told."""
        if parent:
            # Where it was when it was read says nothing of a thread that was deleted since.
            self.numbers.take((board, parent))
            is_gone = (yield from self._number(board, parent)) is None
        else:
            is_gone = False
        page = yield from self._page(board, 0, PAGE)
        newer = [it for it in page.checkpoints if (known or 0) < it.checkpoint]
        own = (layout.OWN, "branch:")
        channels = {name for it in newer for name in it.channels if not name.startswith(own)}
        by = (newer[0].by_role or newer[0].by_person) if newer else ""
        newest = newer[0].write_key if newer else None
        return ConcurrentWriter(thread_id, ns, parent, by, newest, sorted(channels), is_gone)

    def _put_writes(self, config, writes, task_id, task_path):
        _, _, board = place(config)
        checkpoint_id, run = config["configurable"]["checkpoint_id"], run_of(config)
        waited, pause = 0, LOOK_S
        while (number := (yield from self._number(board, checkpoint_id))) is None:
            # LangGraph saves a checkpoint and the writes of its tasks side by side.
            why = self.refusals.get((board, checkpoint_id)) or self.refusals.get((board, run))
            if why:
                raise repeated(why)
            if SAVED_WITHIN_S <= waited:
                raise BrokerError("unknown_checkpoint", f"no checkpoint {checkpoint_id} was saved")
            yield Pause(pause)
            waited, pause = waited + pause, min(2 * pause, LOOK_S_MAX)
        yield from self.results.put_writes(board, number, self.serde, writes, task_id, task_path)

    # Threads.

    def _delete_thread(self, thread_id):
        boards = yield from self._boards(layout.thread_prefix(str(thread_id)))
        for board in boards:
            yield from self._delete_board(board)

    def _delete_board(self, board):
        request = wire.DeleteBoardRequest(person=self.person, board=board)
        yield from found(Call("DeleteBoard", request, is_command=True))
        for memory in (self.numbers, self.forks, self.roots, self.refusals, self.results.counts):
            memory.forget(board)

    def _delete_for_runs(self, run_ids):
        runs = {str(it) for it in run_ids}
        boards = (yield from self._boards(layout.PREFIX)) if runs else []
        for board in boards:
            for it in (yield from self._all(board)):
                results = yield from self.results.list(board, it.checkpoint)
                if results is None or layout.HIDDEN in results:
                    continue
                request = wire.ReadBoardRequest(board=board, checkpoint=it.checkpoint)
                request.channels.append(layout.METADATA)
                read = yield from found(Call("ReadBoard", request))
                if read is None:
                    continue
                stored = layout.load(read.channels[0].value_json)
                run_id = layout.unpack_metadata(self.serde, stored).get("run_id")
                if run_id in runs:
                    hidden = {layout.HIDDEN: [{"run_id": run_id}]}
                    yield from self.results.put(board, it.checkpoint, hidden)

    def _copy_thread(self, source, target):
        for board in (yield from self._boards(layout.thread_prefix(str(source)))):
            # Of the source's checkpoint the number of the target's.
            numbers, newest = {}, 0
            for it in reversed((yield from self._all(board))):
                results = yield from self.results.list(board, it.checkpoint)
                if results is None or layout.HIDDEN in results:
                    continue
                request = wire.ReadBoardRequest(board=board, checkpoint=it.checkpoint)
                if it.parent in numbers:
                    request.channels.extend(it.channels)
                read = yield Call("ReadBoard", request)
                channels = {one.channel: layout.load(one.value_json) for one in read.channels}
                own = channels[layout.CHECKPOINT]
                own["thread_id"] = str(target)
                copy = layout.board_name(str(target), own["checkpoint_ns"])
                update = self._update(copy, it.write_key, channels)
                update.expected_checkpoint = numbers.get(it.parent, newest)
                update.fork = update.expected_checkpoint != newest
                written = yield Call("UpdateBoard", update, is_command=True)
                numbers[it.checkpoint] = newest = written.checkpoint
                yield from self.results.put(copy, newest, results)

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
        """How many of the newest checkpoints the newest that is not hidden needs; if all are, one.

        A `DeltaChannel` has its value in an earlier checkpoint, and what was added as the writes
        since.
        """
        open_channels, parent = None, None
        listed = yield from self._all(board)
        for count, it in enumerate(listed, 1):
            if open_channels is None:
                results = yield from self.results.list(board, it.checkpoint)
                if results is None or layout.HIDDEN in results:
                    continue
            elif it.checkpoint != parent:
                continue
            request = wire.ReadBoardRequest(board=board, checkpoint=it.checkpoint)
            read = yield from found(Call("ReadBoard", request))
            if read is None:
                continue
            stored = {one.channel: layout.load(one.value_json) for one in read.channels}
            if open_channels is None:
                metadata = layout.unpack_metadata(self.serde, stored[layout.METADATA])
                open_channels = set(metadata.get("counters_since_delta_snapshot") or ())
            versions = layout.unpack(self.serde, stored[layout.CHECKPOINT])["channel_versions"]
            there = layout.unpack_channels(self.serde, stored, versions)
            open_channels -= set(there)
            parent = it.parent
            if not open_channels or not stored[layout.CHECKPOINT]["parent"]:
                return count
        return 1 if open_channels is None else max(1, len(listed))


def place(config):
    """The thread of a config, its namespace and its board."""
    configurable = config["configurable"]
    thread_id = str(configurable["thread_id"])
    ns = configurable.get("checkpoint_ns", "")
    return thread_id, ns, layout.board_name(thread_id, ns)


def config_of(thread_id, ns, checkpoint_id):
    configurable = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": configurable}


def run_of(config):
    """Which run of a graph, or of a subgraph in it; 0: it is not known."""
    runtime = config["configurable"].get(RUNTIME)
    return 0 if runtime is None else id(runtime)
