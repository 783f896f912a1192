#!/usr/bin/env python3
"""A role's mail from Python: sends, and waits for what comes.

Needs grpcio, and the stubs that README.md says how to make. For example:

    mail.py --role A send --to B --type BR --subject "Login fails" "since yesterday"
    mail.py --role B wait --timeout 60

Exits with 0 when it was sent or came, 1 when the broker refused, 3 when no broker
answers, 4 when a message may or may not have been sent, 7 when nothing came.
"""

import argparse
import json
import sys
import time
import uuid

import grpc
from google.rpc import error_details_pb2, status_pb2

from tasuki.v1 import common_pb2, mailbox_pb2, mailbox_pb2_grpc

# How often a message is sent before its outcome is called unknown, and seconds in between.
ATTEMPTS = 4
PAUSE_S = 0.25

# How long one call is held, in seconds; a longer wait is several calls.
HOLD_S = 20


class Mailbox:
    """One role's mail at a broker."""

    def __init__(self, channel, workspace, role):
        self.stub = mailbox_pb2_grpc.MailboxStub(channel)
        self.caller = common_pb2.Caller(workspace=workspace)
        self.role = role
        # A name of its own: keys are counted for each client.
        self.client_id = f"python-{uuid.uuid4()}"
        self.counter = 0

    def send(self, to, kind, subject, text):
        """Sends once, however often it has to be said: the key names the intent."""
        self.counter += 1
        key = common_pb2.IdempotencyKey(client_id=self.client_id, counter=self.counter)
        request = mailbox_pb2.SendRequest(
            caller=self.caller,
            key=key,
            role=self.role,
            to=to,
            type=kind,
            subject=subject,
            text=text,
            utc_offset_s=time.localtime().tm_gmtoff,
        )
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self.stub.Send(request, timeout=10)
            except grpc.RpcError as why:
                if attempt == ATTEMPTS or not is_retryable(why):
                    raise
                time.sleep(PAUSE_S * attempt)

    def wait(self, timeout_s):
        """The oldest thread with unseen entries, or None."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = HOLD_S if until is None else until - time.monotonic()
            hold = max(0, min(HOLD_S, left))
            request = mailbox_pb2.AwaitMailRequest(
                caller=self.caller,
                role=self.role,
                hold_ms=int(hold * 1000),
                mark=mailbox_pb2.MAIL_MARK_NONE,
            )
            answer = self.stub.AwaitMail(request, timeout=hold + 10).answer
            if answer.standing == mailbox_pb2.MailAnswer.STANDING_MAIL:
                return answer
            is_over = until is not None and until <= time.monotonic()
            if is_over or answer.standing == mailbox_pb2.MailAnswer.STANDING_SUPERSEDED:
                return None

    def seen(self, message_id, through):
        """Until this is said, the next wait gets the same mail again."""
        self.stub.MarkMail(
            mailbox_pb2.MarkMailRequest(
                caller=self.caller,
                role=self.role,
                message_id=message_id,
                through=through,
                mark=mailbox_pb2.MAIL_MARK_SEEN,
            ),
            timeout=10,
        )


def reason(why):
    """What happened, as a program matches on it; empty when no broker of ours spoke."""
    for name, value in why.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info) and info.domain == "tasuki":
                    return info.reason
    return ""


def is_retryable(why):
    codes = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    return reason(why) in ("unavailable", "outcome_unknown", "overloaded") or (
        not reason(why) and why.code() in codes
    )


def printable(text):
    """What others wrote must not steer a terminal."""
    return "".join(c for c in text if c == "\n" or c.isprintable())


def main():
    parser = argparse.ArgumentParser(description="Sends mail as a role, or waits for it.")
    parser.add_argument("--broker", default="127.0.0.1:7420", help="host and port")
    parser.add_argument("--workspace", default="default")
    parser.add_argument("--role", required=True)
    commands = parser.add_subparsers(dest="command", required=True)
    send = commands.add_parser("send")
    send.add_argument("--to", required=True, action="append", help="repeat for each")
    send.add_argument("--type", default="INFO")
    send.add_argument("--subject", default="(no subject)")
    send.add_argument("text")
    wait = commands.add_parser("wait")
    wait.add_argument("--timeout", type=float, help="seconds; none: until mail comes")
    args = parser.parse_args()

    with grpc.insecure_channel(args.broker) as channel:
        mailbox = Mailbox(channel, args.workspace, args.role)
        try:
            if args.command == "send":
                sent = mailbox.send(args.to, args.type, args.subject, args.text)
                told = {
                    "message_id": sent.message_id,
                    "entry": sent.entry,
                    "file_name": sent.file_name,
                    "stored": [receipt.role for receipt in sent.receipts],
                }
                print(json.dumps(told))
                return 0
            mail = mailbox.wait(args.timeout)
            if mail is None:
                return 7
            print(printable(mail.thread.subject))
            for entry in mail.entries:
                to = ", ".join(entry.receivers)
                print(f"\n#{entry.number} {entry.sender} -> {to} ({entry.type})")
                print(printable(entry.text))
            # Printed first, seen then: killed in between, it is shown again.
            sys.stdout.flush()
            mailbox.seen(mail.thread.message_id, mail.entries[-1].number)
            return 0
        except grpc.RpcError as why:
            print(f"error: {why.details()} ({reason(why) or why.code().name})", file=sys.stderr)
            if args.command == "send" and is_retryable(why):
                return 4
            return 3 if why.code() == grpc.StatusCode.UNAVAILABLE else 1


if __name__ == "__main__":
    sys.exit(main())
