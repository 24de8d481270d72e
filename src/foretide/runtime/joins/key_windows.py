"""Rows of a join's keys by window: counts of the last one, and a forecast for the next.

Batches report the most frequent keys of both sides. A window is the batches that ended in its seconds. All rows that no
frequent key accounts for are the tail, which the hash spreads evenly.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from foretide.forecasting.key_models import KeyVote
from foretide.joins.plan import Loads, loads_of
from foretide.metrics.batch import JoinSide
from foretide.runtime.forecasts.keys import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foretide.forecasting.key_models import Key
    from foretide.joins.settings import WindowSettings
    from foretide.metrics.batch import BatchReport
    from foretide.runtime.forecasts.keys import LiveKeyForecast

_LEFT, _RIGHT = 0, 1
_OTHERS = "others"
_MAX_NAMES = 5_000


class KeyWindows:
    """Counts keys window by window; on each side the model that did best of late forecasts the next window.

    `count` windows are over; the last one had `batches` batches.
    """

    def __init__(self, windows: WindowSettings, net: LiveKeyForecast | None = None) -> None:
        self.windows, self.count, self.batches = windows, 0, 0
        self.names: dict[int, str] = {}
        self._net, self._votes = net, (KeyVote(), KeyVote())
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
                self._remember_names(side.names)
        number = self.windows.number(report.finished)
        if number > self._number and report.finished - self._began >= self.windows.window:
            self._number = number
            self._close(report.finished - self.windows.window)
            return True
        return False

    def _remember_names(self, names: Mapping[int, str]) -> None:
        """Remember the names of the latest keys."""
        self.names = {**self.names, **names}
        if len(self.names) > _MAX_NAMES:
            self.names = dict(names)

    def _close(self, since: float) -> None:
        while len(self._batches) > 1 and self._batches[0][0] <= since:
            self._batches.popleft()
        left, right = _total(left for _, left, _ in self._batches), _total(right for *_, right in self._batches)
        if not left.rows + right.rows:
            return
        self._take_forecast()
        self._last, self._last_rows = (left.keys or {}, right.keys or {}), (left.rows, right.rows)
        self.batches = len(self._batches)
        sides = [self._counts(side) for side in (_LEFT, _RIGHT)]
        for vote, window in zip(self._votes, sides, strict=True):
            vote.learn(window)
        self.count += 1
        if self._net is not None:
            self._net.learn(self.count, sides)

    def _counts(self, side: int) -> dict[Key, float]:
        counts: dict[Key, float] = {key: float(rows) for key, rows in self._last[side].items()}
        counts[_OTHERS] = max(self._last_rows[side] - sum(counts.values()), 0.0)
        return counts

    def _take_forecast(self) -> None:
        """Hand the net's forecast of the open window to the votes, if it has arrived."""
        expected = None if self._net is None else self._net.expected(self.count)
        for vote, shares in zip(self._votes, expected or (), strict=False):
            vote.add(MODEL, shares)

    @property
    def complete(self) -> int:
        """Windows whose forecast is final: the last one counts only once a net that keeps up has answered."""
        return self.count if self._net is None or not self._net.is_awaited(self.count) else self.count - 1

    @property
    def forecast_by(self) -> str:
        """The models behind the forecast, each once."""
        return " and ".join(dict.fromkeys(vote.best.model for vote in self._votes if vote.best))

    def last(self, partitions: int) -> Loads:
        """Rows of the last window."""
        left, right = self._last
        return loads_of(left, right, self._last_rows, partitions)

    def forecast(self, partitions: int) -> Loads:
        """Rows of the next window, if as many arrive as in the last one."""
        if not self.count:
            return (), ()
        self._take_forecast()
        counts = [
            {int(key): share * rows for key, share in best.shares.items() if key != _OTHERS} if best else {}
            for best, rows in zip((vote.best for vote in self._votes), self._last_rows, strict=True)
        ]
        return loads_of(counts[_LEFT], counts[_RIGHT], self._last_rows, partitions)


def _total(sides: Iterable[JoinSide | None]) -> JoinSide:
    """One side of several batches, added up."""
    keys: Counter[int] = Counter()
    rows = 0
    for side in sides:
        if side is not None:
            keys.update(side.keys or {})
            rows += side.rows
    return JoinSide(rows, None, keys)
