#!/usr/bin/env python3
"""Random updates of messages, made to a board and to LangGraph's add_messages: both have the same.

    board_messages.py BROKER [SEED]
"""

import json
import random
import sys
import uuid

import grpc
from google.rpc import error_details_pb2, status_pb2
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from tasuki.v1 import board_pb2, board_pb2_grpc, common_pb2

BOARDS = 12
UPDATES = 40

KINDS = {"human": HumanMessage, "ai": AIMessage, "system": SystemMessage}


class Board:
    """One board, written to by one role."""

    def __init__(self, stub, name):
        self.stub, self.name = stub, name
        self.client_id, self.counter = f"python-{uuid.uuid4()}", 0

    def update(self, messages):
        """Whether the broker took the update."""
        self.counter += 1
        request = board_pb2.UpdateBoardRequest(
            key=common_pb2.IdempotencyKey(client_id=self.client_id, counter=self.counter),
            role="langgraph",
            board=self.name,
            updates=[board_pb2.ChannelUpdate(channel="messages", value_json=json.dumps(messages))],
        )
        try:
            self.stub.UpdateBoard(request, timeout=20)
            return True
        except grpc.RpcError as why:
            assert reason(why) == "unknown_message", why
            return False

    def messages(self):
        read = self.stub.ReadBoard(board_pb2.ReadBoardRequest(board=self.name), timeout=20)
        return json.loads(read.channels[0].value_json)


def reason(why):
    for key, value in why.trailing_metadata():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            for detail in status.details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info.reason
    return None


def message(chance, name):
    """A message as JSON, and as LangGraph has it."""
    kind = chance.choice(list(KINDS))
    content = chance.choice(["", "x", "ä \u202e", "long " * 20])
    return {"id": name, "type": kind, "content": content}, KINDS[kind](content=content, id=name)


def removal(name):
    return {"id": name, "type": "remove"}, RemoveMessage(id=name)


def update(chance):
    both = []
    for _ in range(chance.randint(1, 4)):
        name = f"m{chance.randint(1, 6)}"
        dice = chance.random()
        if dice < 0.06:
            both.append(removal(REMOVE_ALL_MESSAGES))
        elif dice < 0.3:
            both.append(removal(name))
        else:
            both.append(message(chance, name))
    return [it[0] for it in both], [it[1] for it in both]


def plain(it):
    if isinstance(it, dict):
        return it["id"], it["type"], it.get("content", "")
    return it.id, it.type, it.content


def main():
    chance = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else None)
    channel = grpc.insecure_channel(sys.argv[1])
    stub = board_pb2_grpc.BoardStub(channel)
    taken, refused, run = 0, 0, uuid.uuid4().hex[:8]
    for number in range(BOARDS):
        board = Board(stub, f"messages-{run}-{number}")
        theirs, is_there = [], False
        for _ in range(UPDATES):
            ours, right = update(chance)
            try:
                after = add_messages(theirs, right)
            except ValueError:
                after = None
            was_taken = board.update(ours)
            assert was_taken == (after is not None), (theirs, right)
            if after is None:
                refused += 1
                continue
            theirs, is_there, taken = after, True, taken + 1
            have, want = [plain(it) for it in board.messages()], [plain(it) for it in theirs]
            assert have == want, f"{right}:\n{have}\n{want}"
        assert is_there, "nothing was taken"
    print(f"{taken} updates as LangGraph has them, {refused} refused as it refuses them")


if __name__ == "__main__":
    main()
