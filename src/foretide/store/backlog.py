"""Records that wait to be written: bounded, in order, and counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Backlog(Generic[Item]):
    """Items to be written, the oldest first. Not thread-safe: its owner holds a lock.

    Items are settled (written or dropped) in the order in which they were received.

    >>> backlog = Backlog[str](capacity=2)
    >>> backlog.put(["a", "b", "c"])
    >>> backlog.take(5), backlog.dropped
    (['b', 'c'], 1)
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[Item] = deque()
        self.received = self.settled = self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def pending(self) -> int:
        """Number of items that are not settled, those taken out included."""
        return self.received - self.settled

    def put(self, items: Iterable[Item]) -> None:
        """Append items."""
        before = len(self._waiting)
        self._waiting.extend(items)
        self.received += len(self._waiting) - before
        self._shrink()

    def take(self, at_most: int) -> list[Item]:
        """Take out the oldest items. Each has to be given back, or counted as settled."""
        return [self._waiting.popleft() for _ in range(min(at_most, len(self._waiting)))]

    def give_back(self, items: list[Item]) -> None:
        """Put items that were taken out back in front. The oldest may be dropped."""
        self._waiting.extendleft(reversed(items))
        self._shrink()

    def reject(self, count: int) -> None:
        """Count items that arrive after the end as dropped."""
        self.received += count
        self.dropped += count
        self.settled += count

    def drop_all(self) -> None:
        """Drop all items in the queue."""
        self._drop(len(self._waiting))

    def _shrink(self) -> None:
        self._drop(len(self._waiting) - self._capacity)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._waiting.popleft()
        self.dropped += max(0, count)
        self.settled += max(0, count)
