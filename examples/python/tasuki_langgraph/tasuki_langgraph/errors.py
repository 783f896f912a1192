"""What can go wrong between a graph and the broker."""

from google.rpc import error_details_pb2, status_pb2

import grpc


class BrokerError(Exception):
    """The broker refused a call, or did not answer.

    `reason` is what programs match on (`unknown_board`, …); empty when no broker answered.
    """

    def __init__(self, reason, message):
        super().__init__(f"{message} ({reason})" if reason else message)
        self.reason = reason


class ConcurrentWriter(Exception):
    """Another run continued the thread from the same checkpoint, or the checkpoint is gone with its
    thread; nothing was written.

    Run the graph again: it continues from the newest checkpoint. To continue from an earlier one
    on purpose, name its `checkpoint_id` in the config.
    """

    def __init__(
        self, thread_id, checkpoint_ns, checkpoint_id, by, newest, channels, is_gone=False
    ):
        if is_gone:
            what = (
                f"thread {thread_id!r} has no checkpoint {checkpoint_id}: the thread was deleted "
                "or pruned meanwhile, or never had it"
            )
        else:
            changed = ", ".join(channels) or "no channel"
            what = (
                f"thread {thread_id!r} was continued by {by or 'another run'} meanwhile: since "
                f"checkpoint {checkpoint_id or '(none)'} changed: {changed}"
            )
        super().__init__(
            f"{what}. Nothing was written; run the graph again to continue from the newest "
            "checkpoint"
        )
        self.thread_id = thread_id
        self.checkpoint_ns = checkpoint_ns
        # What this run was based on; `None`: it found the thread empty.
        self.checkpoint_id = checkpoint_id
        # The role or person that wrote the newest checkpoint, and its id.
        self.by = by
        self.newest_checkpoint_id = newest
        # Channels that were written to since, by name.
        self.channels = channels
        # Whether the thread does not have the checkpoint that this run was based on.
        self.is_gone = is_gone


def from_rpc(why):
    """A refusal as what it is."""
    for name, value in why.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain == "tasuki":
                    return BrokerError(info.reason, why.details())
    is_gone = why.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    return BrokerError("" if is_gone else why.code().name.lower(), why.details())


def found(call):
    """The answer; `None` where what the call names is not there."""
    try:
        return (yield call)
    except BrokerError as why:
        if why.reason in ("unknown_board", "unknown_checkpoint"):
            return None
        raise


def repeated(why):
    """The same error once more, without the stack of the first and all that is on it."""
    kind = type(why)
    if kind not in (BrokerError, ConcurrentWriter):
        return BrokerError("not_saved", f"{kind.__name__}: {why}")
    same = kind.__new__(kind, *why.args)
    same.__dict__.update(why.__dict__)
    return same


def is_retryable(why):
    """Whether the same call may succeed later. Under the same key it takes effect once."""
    return why.reason in ("", "unavailable", "outcome_unknown")
