"""How a thread lies on boards.

One board for each `(thread_id, checkpoint_ns)`, one checkpoint of it for each of LangGraph's, whose
id is the write key. A channel of the graph is a channel of the board, with its version beside it;
`langgraph.checkpoint` and `langgraph.metadata` are the rest. Writes of tasks are results at the
checkpoint.
"""

import base64
import hashlib
import json
import math

from langgraph.checkpoint.base import WRITES_IDX_MAP, writes_sort_key

PREFIX = "lg-"

CHECKPOINT = "langgraph.checkpoint"
METADATA = "langgraph.metadata"
OWN = "langgraph."

# The result that hides a checkpoint: `delete_for_runs`.
HIDDEN = "~hidden"

# What the names of results begin with that several tasks share.
SHARED = "~shared/"

# The only key of an object that is the JSON of Python in base64: see `dump`.
ENCODED = "~json"

# What the broker takes as JSON has 127 levels and numbers that a float can hold; both less a
# margin.
LEVELS_MAX = 100
NUMBER_MAX = 10**300

# The broker's limit of a channel's name, in bytes.
NAME_BYTES_MAX = 128

# Writes that are stored as one result, in bytes: the broker's limit of a value is 1 MiB.
CHUNK_BYTES = 512 * 1024

# The type of a channel that has no value.
EMPTY = "empty"


def digest(text, size):
    # A text of Python may have surrogates, which are no UTF-8.
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=size).hexdigest()


def is_json(value, levels=LEVELS_MAX):
    """Whether a broker takes as JSON what Python writes as JSON."""
    if isinstance(value, str):
        return value.isascii() or value == value.encode("utf-8", "ignore").decode()
    if isinstance(value, int):
        return -NUMBER_MAX < value < NUMBER_MAX
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return 0 < levels and all(
            is_json(key, levels) and is_json(it, levels - 1) for key, it in value.items()
        )
    if isinstance(value, (list, tuple)):
        return 0 < levels and all(is_json(it, levels - 1) for it in value)
    return True


def dump(value):
    """As JSON. What only Python takes as such (`inf`, half of a surrogate pair) is in base64."""
    text = json.dumps(value)
    if is_json(value) and not is_encoded(value):
        return text
    return json.dumps({ENCODED: base64.b64encode(text.encode()).decode()})


def load(text):
    value = json.loads(text)
    return json.loads(base64.b64decode(value[ENCODED])) if is_encoded(value) else value


def is_encoded(value):
    return isinstance(value, dict) and set(value) == {ENCODED}


def thread_prefix(thread_id):
    """What the names of all boards of a thread begin with."""
    return f"{PREFIX}{digest(thread_id, 12)}-"


def board_name(thread_id, checkpoint_ns):
    return thread_prefix(thread_id) + digest(checkpoint_ns, 8)


def channel_name(name):
    """The board's channel of a channel of the graph."""
    is_plain = name.isascii() and name.isprintable() and 0 < len(name) <= NAME_BYTES_MAX
    if is_plain and not name.startswith((OWN, "lg:")):
        return name
    return "lg:" + digest(name, 16)


def pack(serde, value):
    kind, data = serde.dumps_typed(value)
    return {"type": kind, "data": base64.b64encode(data).decode()}


def unpack(serde, packed):
    return serde.loads_typed((packed["type"], base64.b64decode(packed["data"])))


def pack_metadata(serde, metadata):
    """As JSON, which people can read, where that is the same."""
    try:
        plain = json.loads(json.dumps(metadata))
    except (TypeError, ValueError):
        plain = None
    is_same = plain == metadata and set(metadata) != {"packed"}
    return plain if is_same else {"packed": pack(serde, metadata)}


def unpack_metadata(serde, stored):
    return unpack(serde, stored["packed"]) if set(stored) == {"packed"} else stored


def pack_channels(serde, values, new_versions):
    """What a checkpoint changed, by channel of the board."""
    channels = {}
    for name, version in new_versions.items():
        packed = pack(serde, values[name]) if name in values else {"type": EMPTY, "data": ""}
        channels[channel_name(name)] = {**packed, "version": version}
    return channels


def unpack_channels(serde, stored, versions):
    """The values of those channels that the checkpoint has, in the versions that it has."""
    values = {}
    for name, version in versions.items():
        packed = stored.get(channel_name(name))
        if packed and packed["version"] == version and packed["type"] != EMPTY:
            values[name] = unpack(serde, packed)
    return values


def is_shared(name):
    return name.startswith(SHARED)


def shared_name(task_id, count):
    """One of so many results."""
    return f"{SHARED}{int(digest(task_id, 8), 16) % count:03}"


def pack_writes(serde, writes, task_id, task_path, skipped=frozenset()):
    """Results by name: few, and the same for the same writes. `skipped` are there already."""
    results, chunk, size = {}, [], 0
    is_plain = task_id.isascii() and task_id.isprintable() and len(task_id) <= 100
    task = task_id if is_plain and not task_id.startswith("~") else digest(task_id, 16)

    def finish():
        nonlocal chunk, size
        if chunk:
            results[f"{task}/{chunk[0]['index']:06}"] = chunk
        chunk, size = [], 0

    for index, (channel, value) in enumerate(writes):
        index = WRITES_IDX_MAP.get(channel, index)
        if index in skipped:
            continue
        write = {"task_id": task_id, "task_path": task_path, "index": index, "channel": channel}
        write |= pack(serde, value)
        if index < 0:
            results[f"{task}/{index}"] = [write]
            continue
        more = len(dump(write))
        if chunk and CHUNK_BYTES < size + more:
            finish()
        chunk.append(write)
        size += more
    finish()
    return results


def merge_writes(results):
    """Each write of results by name once, in the order in which a super-step applies them."""
    writes = {}
    # What a task has of its own is newer than what it shares.
    for name in sorted(results, key=lambda name: (is_shared(name), name)):
        for write in results[name] if name != HIDDEN else ():
            writes.setdefault((write["task_id"], write["index"]), write)
    return sorted(
        writes.values(),
        key=lambda it: writes_sort_key(it["task_path"], it["task_id"], it["index"]),
    )
