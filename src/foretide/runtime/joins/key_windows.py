"""Rows of a join's keys over windows: what was seen in the last one, and what is foreseen for the next.

Batches tell the most frequent keys of both sides. A window is the batches that ended in its seconds. All rows that no
frequent key accounts for are the tail, which the hash spreads evenly.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from foretide.forecasting.keys.vote import KeyVote
from foretide.joins.plan import KeyLoad, TailLoad
from foretide.metrics.batch import JoinSide
from foretide.runtime.forecasts.keys import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foretide.forecasting.keys.models import Key
    from foretide.joins.settings import WindowSettings
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.forecasts.keys import LiveKeyForecast

_LEFT, _RIGHT = 0, 1
_OTHERS = "others"
_MOST_NAMES = 5_000
Loads = tuple[tuple[KeyLoad, ...], tuple[TailLoad, ...]]


class KeyWindows:
    """Counts keys window by window. What comes next is told by whichever model did best of late, on each side.

    `count` windows are over, the last one with so many `batches`.
    """

    def __init__(self, windows: WindowSettings, seer: LiveKeyForecast | None = None) -> None:
        self.windows, self.count, self.batches = windows, 0, 0
        self.names: dict[int, str] = {}
        self._seer, self._votes = seer, (KeyVote(), KeyVote())
        self._began: float | None = None
        self._number = 0
        self._batches: deque[tuple[float, JoinSide | None, JoinSide | None]] = deque()
        self._last: tuple[Mapping[int, int], Mapping[int, int]] = ({}, {})
        self._last_rows = (0, 0)

    def see(self, report: BatchReport, left: JoinSide | None, right: JoinSide | None) -> bool:
        """Add a batch, and close a window once it is over; whether that was now."""
        if self._began is None:
            self._began = report.finished - report.duration
            self._number = self.windows.number(self._began)
        self._batches.append((report.finished, left, right))
        for side in (left, right):
            if side is not None:
                self._name(side.names)
        number = self.windows.number(report.finished)
        if number > self._number and report.finished - self._began >= self.windows.window:
            self._number = number
            self._close(report.finished - self.windows.window)
            return True
        return False

    def _name(self, names: Mapping[int, str]) -> None:
        """Remember what keys are called, of the latest ones."""
        self.names = {**self.names, **names}
        if len(self.names) > _MOST_NAMES:
            self.names = dict(names)

    def _close(self, since: float) -> None:
        while len(self._batches) > 1 and self._batches[0][0] <= since:
            self._batches.popleft()
        left, right = _added_up(left for _, left, _ in self._batches), _added_up(right for *_, right in self._batches)
        if not left.rows + right.rows:
            return
        self._hear()
        self._last, self._last_rows = (left.keys or {}, right.keys or {}), (left.rows, right.rows)
        self.batches = len(self._batches)
        sides = [self._known(side) for side in (_LEFT, _RIGHT)]
        for vote, window in zip(self._votes, sides, strict=True):
            vote.learn(window)
        self.count += 1
        if self._seer is not None:
            self._seer.learn(self.count, sides)

    def _known(self, side: int) -> dict[Key, float]:
        known: dict[Key, float] = {key: float(rows) for key, rows in self._last[side].items()}
        known[_OTHERS] = max(self._last_rows[side] - sum(known.values()), 0.0)
        return known

    def _hear(self) -> None:
        """Take in what the net says of the window that is open, if it has said it by now."""
        expected = None if self._seer is None else self._seer.expected(self.count)
        for vote, shares in zip(self._votes, expected or (), strict=False):
            vote.add(MODEL, shares)

    @property
    def told(self) -> int:
        """The windows for which all is known that will be: of the last one only once a net that keeps up has spoken."""
        return self.count if self._seer is None or not self._seer.is_awaited(self.count) else self.count - 1

    @property
    def by(self) -> str:
        """The models that tell what is foreseen."""
        return _said_by(self._votes)

    def last(self, partitions: int) -> Loads:
        """Rows of the last window."""
        left, right = self._last
        return loads_of(left, right, self._last_rows, partitions)

    def foreseen(self, partitions: int) -> Loads:
        """Rows of the window to come, if as many come as in the last one."""
        if not self.count:
            return (), ()
        self._hear()
        counts = [
            {int(key): share * rows for key, share in best.shares.items() if key != _OTHERS} if best else {}
            for best, rows in zip((vote.best for vote in self._votes), self._last_rows, strict=True)
        ]
        return loads_of(counts[_LEFT], counts[_RIGHT], self._last_rows, partitions)


def _added_up(sides: Iterable[JoinSide | None]) -> JoinSide:
    """What several batches saw of one side."""
    keys: Counter[int] = Counter()
    rows = 0
    for side in sides:
        if side is not None:
            keys.update(side.keys or {})
            rows += side.rows
    return JoinSide(rows, None, keys)


def _said_by(votes: Iterable[KeyVote]) -> str:
    """The models that are asked, one after the other, each once."""
    return " and ".join(dict.fromkeys(vote.best.model for vote in votes if vote.best))


def loads_of(left: Mapping[int, float], right: Mapping[int, float], rows: tuple[int, int], partitions: int) -> Loads:
    """The keys that were counted, and the rest of all rows, taken as spread evenly."""
    keys = tuple(KeyLoad(key, left.get(key, 0.0), right.get(key, 0.0)) for key in sorted({*left, *right}))
    rest = [max(0.0, rows[_LEFT] - sum(left.values())), max(0.0, rows[_RIGHT] - sum(right.values()))]
    return keys, (TailLoad(rest[_LEFT] / partitions, rest[_RIGHT] / partitions),) * partitions
