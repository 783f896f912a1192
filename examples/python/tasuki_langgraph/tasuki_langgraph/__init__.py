"""Checkpoints of LangGraph, kept on boards of a Tasuki broker."""

from tasuki_langgraph.errors import BrokerError, ConcurrentWriter
from tasuki_langgraph.saver import TasukiSaver

__all__ = ["BrokerError", "ConcurrentWriter", "TasukiSaver"]
