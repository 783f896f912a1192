"""Calls of the broker, for threads and for asyncio.

What a saver does is a generator: it yields calls and pauses, and gets their answers. So it is
written once; `Transport.run` and `Transport.arun` carry it out.
"""

import asyncio
import threading
import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from tasuki.v1 import board_pb2_grpc, common_pb2
from tasuki_langgraph.errors import BrokerError, from_rpc, is_retryable

# For how long a call is repeated that gets no answer, and what one try may take, in seconds.
RETRY_S = 30
TRY_S = 20

# Between two tries: the first pause, doubled each time up to the longest.
PAUSE_S = 0.05
PAUSE_S_MAX = 1.0

# How far the keys of commands without an answer are apart: the broker forgets one that is 256 below
# the newest, and then refuses to repeat its call.
KEYS_APART_MAX = 200

# Calls that tasks of asyncio have in flight; threads are few by themselves.
IN_FLIGHT_MAX = 64

# How often somebody looks who waits for another thread or task, in seconds.
LOOK_S = 0.005
LOOK_S_MAX = 0.1

# What a checkpoint has in one message, with the broker's limits.
OPTIONS = [("grpc.max_receive_message_length", 16 * 1024 * 1024)]


@dataclass
class Call:
    """A method of the service `Board`, and its request."""

    method: str
    request: Any
    is_command: bool = False


@dataclass
class Pause:
    seconds: float


@dataclass
class Item:
    """One of what is listed."""

    value: Any


class Transport:
    """A connection to a broker."""

    def __init__(self, address, workspace, token, root_certificates):
        self.address = address
        self.workspace = workspace
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self.root_certificates = root_certificates
        self.lock = threading.Lock()
        # A name of its own: keys are counted for each client.
        self.client_id = f"langgraph-{uuid.uuid4()}"
        # The newest key, and those of commands that have no answer yet.
        self.counter, self.unanswered = 0, set()
        self.channel = self.stub = None
        self.aio_channel = self.aio_stub = self.in_flight = self.loop = None

    def prepare(self, call):
        """Fills in who calls. The key names the intent however often it is sent; `False`: there is
        none for now."""
        call.request.caller.CopyFrom(common_pb2.Caller(workspace=self.workspace))
        if not call.is_command:
            return True
        with self.lock:
            counter = self.counter + 1
            if self.unanswered and KEYS_APART_MAX <= counter - min(self.unanswered):
                return False
            self.counter = counter
            self.unanswered.add(counter)
        key = common_pb2.IdempotencyKey(client_id=self.client_id, counter=counter)
        call.request.key.CopyFrom(key)
        return True

    def finish(self, call):
        if call.is_command:
            with self.lock:
                self.unanswered.discard(call.request.key.counter)

    def connect(self):
        with self.lock:
            if self.stub is None:
                self.channel = self.open(grpc)
                self.stub = board_pb2_grpc.BoardStub(self.channel)
            return self.stub

    def aconnect(self):
        """Of the loop that runs: a channel belongs to one."""
        loop = asyncio.get_running_loop()
        with self.lock:
            if self.loop is not loop:
                self.aio_channel = self.open(grpc.aio)
                self.aio_stub = board_pb2_grpc.BoardStub(self.aio_channel)
                self.in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
                self.loop = loop
            return self.aio_stub, self.in_flight

    def open(self, api):
        if self.root_certificates is None:
            return api.insecure_channel(self.address, options=OPTIONS)
        credentials = grpc.ssl_channel_credentials(self.root_certificates)
        return api.secure_channel(self.address, credentials, options=OPTIONS)

    def close(self):
        with self.lock:
            if self.channel is not None:
                self.channel.close()
            self.channel = self.stub = None

    async def aclose(self):
        with self.lock:
            channel = self.aio_channel
            self.aio_channel = self.aio_stub = self.in_flight = self.loop = None
        if channel is not None:
            await channel.close()

    def call(self, call):
        method = getattr(self.connect(), call.method)
        while not self.prepare(call):
            time.sleep(LOOK_S)
        try:
            until, pause = time.monotonic() + RETRY_S, PAUSE_S
            while True:
                try:
                    return method(call.request, timeout=TRY_S, metadata=self.metadata)
                except grpc.RpcError as error:
                    why = from_rpc(error)
                if not is_retryable(why) or until < time.monotonic():
                    raise why
                time.sleep(pause)
                pause = min(2 * pause, PAUSE_S_MAX)
        finally:
            self.finish(call)

    async def acall(self, call):
        stub, in_flight = self.aconnect()
        method = getattr(stub, call.method)
        async with in_flight:
            while not self.prepare(call):
                await asyncio.sleep(LOOK_S)
            try:
                until, pause = time.monotonic() + RETRY_S, PAUSE_S
                while True:
                    try:
                        return await method(call.request, timeout=TRY_S, metadata=self.metadata)
                    except grpc.RpcError as error:
                        why = from_rpc(error)
                    if not is_retryable(why) or until < time.monotonic():
                        raise why
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, PAUSE_S_MAX)
            finally:
                self.finish(call)

    def items(self, steps):
        """Carries it out, and gives what it lists. What it returns comes last, as `Done`."""
        answer, why = None, None
        with closing(steps):
            while True:
                try:
                    asked = steps.send(answer) if why is None else steps.throw(why)
                except StopIteration as done:
                    yield Done(done.value)
                    return
                answer, why = None, None
                if isinstance(asked, Item):
                    yield asked
                elif isinstance(asked, Pause):
                    time.sleep(asked.seconds)
                else:
                    try:
                        answer = self.call(asked)
                    except BrokerError as error:
                        why = error

    async def aitems(self, steps):
        answer, why = None, None
        with closing(steps):
            while True:
                try:
                    asked = steps.send(answer) if why is None else steps.throw(why)
                except StopIteration as done:
                    yield Done(done.value)
                    return
                answer, why = None, None
                if isinstance(asked, Item):
                    yield asked
                elif isinstance(asked, Pause):
                    await asyncio.sleep(asked.seconds)
                else:
                    try:
                        answer = await self.acall(asked)
                    except BrokerError as error:
                        why = error

    def run(self, steps):
        for done in self.items(steps):
            if isinstance(done, Done):
                return done.value
        return None

    async def arun(self, steps):
        async for done in self.aitems(steps):
            if isinstance(done, Done):
                return done.value
        return None


@dataclass
class Done:
    value: Any
