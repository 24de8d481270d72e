"""What was sent and received, and what follows from it: latency, losses, doubles. Values only; times are given.

Moments are microseconds since 1970, as whole numbers; timestamps of Kafka's records have milliseconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Whole = NDArray[np.int64]

_MICROS = 1_000_000
_COLUMNS = ("row", "due", "received", "created")


@dataclass(frozen=True)
class Latency:
    """Percentiles of a number of tuples, in milliseconds; NaN without any."""

    tuples: int
    p50: float
    p90: float
    p99: float
    p999: float
    max: float

    @classmethod
    def of(cls, milliseconds: NDArray[np.floating] | Whole) -> Self:
        """Of these tuples.

        >>> Latency.of(np.arange(1, 1001)).p99
        990.0
        """
        if milliseconds.size == 0:
            return cls(0, *[float("nan")] * 5)
        # a value that occurred, not one between two: with few tuples the slowest is not averaged away
        found = np.quantile(milliseconds, (0.5, 0.9, 0.99, 0.999, 1.0), method="inverted_cdf")
        return cls(milliseconds.size, *(float(value) for value in found))


@dataclass(frozen=True)
class Sent:
    """The rows of a feed: row i was due at `due[i]` and handed to the client at `sent[i]`, its record's timestamp.

    Attributes:
        due: When each row was due.
        sent: When each row was sent.
        failed: How many of them the broker never confirmed.
    """

    due: Whole
    sent: Whole
    failed: int = 0

    @property
    def lateness(self) -> Latency:
        """How late rows were sent. If that is much, the feed could not keep up."""
        return Latency.of((self.sent - self.due) / 1000)

    def save(self, path: Path) -> None:
        """Write it to a file."""
        np.savez(path, due=self.due, sent=self.sent, failed=np.int64(self.failed))

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` wrote."""
        with np.load(path) as found:
            return cls(found["due"], found["sent"], int(found["failed"]))


@dataclass(frozen=True)
class Received:
    """The records of an output topic, in the order of their arrival.

    Attributes:
        row: The number of the row in each record.
        due: When it was due.
        received: When the record arrived at the consumer.
        created: The record's timestamp, in milliseconds.
        unreadable: Records without a row and a due time; they are not among the others.
    """

    row: Whole
    due: Whole
    received: Whole
    created: Whole
    unreadable: int = 0

    @property
    def milliseconds(self) -> NDArray[np.float64]:
        """From the moment a tuple was due to its receipt."""
        return np.asarray((self.received - self.due) / 1000, dtype=np.float64)

    def due_between(self, first: int, last: int) -> Self:
        """Those that were due in a span of time."""
        return self.where((self.due >= first) & (self.due < last))

    def where(self, chosen: NDArray[np.bool_]) -> Self:
        """Those that are chosen."""
        return type(self)(self.row[chosen], self.due[chosen], self.received[chosen], self.created[chosen])

    def record_milliseconds(self, sent: Sent) -> Whole:
        """From the timestamp of the record that was sent to that of the record received."""
        return np.asarray(self.created - sent.sent[self.row] // 1000, dtype=np.int64)

    def save(self, path: Path) -> None:
        """Write it to a file."""
        np.savez(
            path, row=self.row, due=self.due, received=self.received, created=self.created,
            unreadable=np.int64(self.unreadable),
        )  # fmt: skip

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` wrote."""
        with np.load(path) as found:
            row, due, received, created = (found[name] for name in _COLUMNS)
            return cls(row, due, received, created, int(found["unreadable"]))

    @classmethod
    def joined(cls, parts: Sequence[Received]) -> Self:
        """Several, one after the other."""
        row, due, received, created = (np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS)
        return cls(row, due, received, created, sum(part.unreadable for part in parts))


@dataclass(frozen=True)
class Account:
    """What became of the rows: every one should have been received exactly once."""

    sent: int
    lost: int
    doubled: int
    unknown: int

    @classmethod
    def of(cls, sent: Sent, received: Received) -> Self:
        """By the numbers of the rows.

        >>> when = np.arange(4)
        >>> Account.of(Sent(when, when), Received(np.array([0, 1, 1, 9]), when, when, when))
        Account(sent=4, lost=2, doubled=1, unknown=1)
        """
        known = received.row[(received.row >= 0) & (received.row < sent.due.size)]
        times = np.bincount(known, minlength=sent.due.size)
        doubled = int(np.maximum(times - 1, 0).sum())
        return cls(sent.due.size, int((times == 0).sum()), doubled, received.row.size - known.size)


@dataclass(frozen=True)
class Live:
    """The latency of what arrived in the last seconds.

    Attributes:
        at: The moment at which it was looked at.
        seconds: The length of the window.
        received: All records since the start.
        latency: That of the window.
    """

    at: int
    seconds: float
    received: int
    latency: Latency

    @property
    def rate(self) -> float:
        """Tuples per second in the window."""
        return self.latency.tuples / self.seconds


class Window:
    """Keeps what arrived in the last seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._total = seconds, 0
        self._parts: deque[tuple[Whole, NDArray[np.float64]]] = deque()

    def add(self, part: Received) -> None:
        """Take in what has arrived, later than all before."""
        self._total += part.row.size
        self._parts.append((part.received, part.milliseconds))

    def live(self, now: int) -> Live:
        """What arrived in the last seconds before `now`."""
        oldest = now - round(self._seconds * _MICROS)
        while self._parts and (self._parts[0][0].size == 0 or self._parts[0][0][-1] < oldest):
            self._parts.popleft()
        kept = [milliseconds[received >= oldest] for received, milliseconds in self._parts]
        return Live(now, self._seconds, self._total, Latency.of(np.concatenate(kept) if kept else np.empty(0)))
