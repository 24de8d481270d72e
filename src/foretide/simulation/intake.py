"""The intake of a micro-batch driver: rows that have arrived and wait for a batch, oldest first."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from foretide.simulation.variation import ArrivalStream, Floats, Integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foretide.simulation.report import Books
    from foretide.simulation.scenario import Scenario


class Rows(NamedTuple):
    """Rows for operators: since when each is there to be read, its tree, and the operator's position."""

    times: Floats
    trees: Integers
    operators: Integers

    @classmethod
    def joined(cls, pieces: Sequence[Rows]) -> Rows:
        """All of them in one."""
        if not pieces:
            return cls(np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        times, trees, operators = zip(*pieces, strict=True)
        return cls(np.concatenate(times), np.concatenate(trees), np.concatenate(operators))

    def cut(self, at: int) -> tuple[Rows, Rows]:
        """The first `at` rows, and the rest."""
        first, rest = zip(*((column[:at], column[at:]) for column in self), strict=True)
        return Rows(*first), Rows(*rest)


class Intake:
    """Rows from outside, of all operators that get any."""

    def __init__(self, scenario: Scenario, rngs: Sequence[np.random.Generator], books: Books) -> None:
        self._streams = [
            ArrivalStream(scenario.curve_of(name), scenario.arrivals_of(name), rng, scenario.duration)
            for name, rng in zip(scenario.network.names, rngs, strict=True)
        ]
        self._limit = scenario.limit
        self._ledger, self._meters = books.ledger, books.tuples
        self._backlog: deque[Rows] = deque()

    def next_arrival(self) -> float:
        """When the oldest row that no batch has taken arrives, or did; infinite if there is none."""
        if self._backlog:
            return float(self._backlog[0].times[0])
        return min(stream.peek() for stream in self._streams)

    def take(self, now: float) -> Rows:
        """What a batch that starts now takes: all that has arrived, or as much of it as the limit allows."""
        self._receive(now)
        room = math.inf if self._limit is None else self._limit
        taken: list[Rows] = []
        while self._backlog and room > 0:
            rows = self._backlog.popleft()
            if len(rows.times) > room:
                rows, rest = rows.cut(int(room))
                self._backlog.appendleft(rest)
            taken.append(rows)
            room -= len(rows.times)
        return Rows.joined(taken)

    def _receive(self, now: float) -> None:
        arrived = [stream.until(math.nextafter(now, math.inf)) for stream in self._streams]
        times = np.concatenate(arrived)
        if len(times):
            order = np.argsort(times, kind="stable")
            operators = np.repeat(np.arange(len(arrived)), [len(each) for each in arrived])
            times = times[order]
            for meter, each in zip(self._meters, arrived, strict=True):
                meter.arrived += len(each)
            self._backlog.append(Rows(times, self._ledger.plant(times), operators[order]))
