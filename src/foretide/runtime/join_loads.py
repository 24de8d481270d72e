"""Rows of a join's keys over windows: what was seen in the last one, and what is foreseen for the next.

Batches tell the most frequent keys of both sides. A window is as many batches as fill its seconds. All rows that no
frequent key accounts for are the tail, which the hash spreads evenly.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from foretide.forecasting.keys import Key, KeyEwma, KeyModel
from foretide.planning.join_model import KeyLoad, TailLoad

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from foretide.metrics.batch import BatchReport, JoinSide

_LEFT, _RIGHT = 0, 1
_OTHERS = "others"
Loads = tuple[tuple[KeyLoad, ...], tuple[TailLoad, ...]]


class KeyWindows:
    """Counts keys window by window. `model` makes the model that forecasts the keys of one side."""

    def __init__(self, seconds: float, model: Callable[[], KeyModel] = KeyEwma) -> None:
        self.seconds, self.count = seconds, 0
        self._models = (model(), model())
        self._began: float | None = None
        self._open: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        self._rows = [0, 0]
        self._last: tuple[Mapping[int, int], Mapping[int, int]] = ({}, {})
        self._last_rows = (0, 0)

    def see(self, report: BatchReport, left: JoinSide | None, right: JoinSide | None) -> None:
        """Add a batch, and close the window once it is full."""
        if self._began is None:
            self._began = report.finished - report.duration
        for at, side in ((_LEFT, left), (_RIGHT, right)):
            self._open[at].update(side.keys or {} if side else {})
            self._rows[at] += side.rows if side else 0
        if report.finished - self._began >= self.seconds and any(self._rows):
            self._close(report.finished)

    def _close(self, at: float) -> None:
        self._last, self._last_rows = self._open, (self._rows[_LEFT], self._rows[_RIGHT])
        for side, model in enumerate(self._models):
            known: dict[Key, float] = {key: float(rows) for key, rows in self._last[side].items()}
            known[_OTHERS] = max(self._last_rows[side] - sum(known.values()), 0.0)
            model.learn([known])
        self._began, self._open, self._rows = at, (Counter(), Counter()), [0, 0]
        self.count += 1

    def last(self, partitions: int) -> Loads:
        """Rows of the last window."""
        left, right = self._last
        return _loads(left, right, self._last_rows, partitions)

    def foreseen(self, partitions: int) -> Loads:
        """Rows of the window to come, if as many come as in the last one."""
        if not self.count:
            return (), ()
        shares = [model.forecast(1)[0].shares() for model in self._models]
        counts = [
            {int(key): share * rows for key, share in each.items() if key != _OTHERS}
            for each, rows in zip(shares, self._last_rows, strict=True)
        ]
        return _loads(counts[_LEFT], counts[_RIGHT], self._last_rows, partitions)


def _loads(left: Mapping[int, float], right: Mapping[int, float], rows: tuple[int, int], partitions: int) -> Loads:
    keys = tuple(KeyLoad(key, left.get(key, 0.0), right.get(key, 0.0)) for key in sorted({*left, *right}))
    rest = [max(0.0, rows[_LEFT] - sum(left.values())), max(0.0, rows[_RIGHT] - sum(right.values()))]
    return keys, (TailLoad(rest[_LEFT] / partitions, rest[_RIGHT] / partitions),) * partitions
