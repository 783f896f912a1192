"""What a saver remembers of threads."""

import threading
from collections import OrderedDict

# Checkpoints, or boards, of which one thing is remembered.
REMEMBERED_MAX = 4096


class Memory:
    """The newest entries of a dict, for several threads."""

    def __init__(self):
        self.lock, self.entries = threading.Lock(), OrderedDict()

    def put(self, key, value):
        with self.lock:
            self._put(key, value)

    def add(self, key, more, least=0):
        """Counts up, from `least` if it is less, and gives what it is then."""
        with self.lock:
            value = max(self.entries.get(key, 0), least) + more
            self._put(key, value)
            return value

    def _put(self, key, value):
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
