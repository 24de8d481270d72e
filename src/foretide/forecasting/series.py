"""Series of equal steps: from a packaged trace, from a CSV or Parquet file, and from samples at any times."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from foretide.errors import ForecastError
from foretide.forecasting.history import checked
from foretide.workloads.traces import TRACES, load_trace

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")
_LATE_STEPS = 5
_GRACE = 0.25
_FADING = 0.2


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each step, oldest first; None is a gap. `step_seconds` is None where it is not known."""

    name: str
    values: tuple[float | None, ...]
    step_seconds: float | None


def load_series(source: str, column: str | None = None) -> Series:
    """The trace of that name, or the file at that path.

    >>> load_series("taxi").step_seconds
    1800.0

    Args:
        source: A name in `TRACES`, or a path that ends in .csv or .parquet.
        column: Which column of a file; by default the last one that holds numbers.

    Raises:
        ForecastError: There is no such trace, file or column.
        BadSeriesError: A value is negative or not finite.
    """
    if source in TRACES:
        trace = load_trace(source)
        return Series(trace.name, tuple(map(float, trace.values)), trace.period_seconds)
    path = Path(source)
    if not path.is_file():
        raise ForecastError(f"'{source}' is neither a file nor a packaged trace ({', '.join(TRACES)})")
    frame = _read(path)
    numbers = frame[_column(frame, column, source)]
    series = Series(path.stem, tuple(None if np.isnan(each) else float(each) for each in numbers), _step(frame))
    checked(series.values)
    return series


def resampled(name: str, samples: Iterable[tuple[float, float]], step: float) -> Series:
    """Samples at any times (seconds, value) as the mean of each step; None where a step has no sample.

    >>> resampled("load", [(0.0, 4.0), (4.0, 6.0), (11.0, 9.0)], 5.0).values
    (5.0, None, 9.0)
    """
    ordered = sorted(samples, key=itemgetter(0))
    steps: TimeSteps[float] = TimeSteps(step, max_gap=sys.maxsize)
    whole = [each for at, value in ordered for each in steps.add(at, value)]
    whole += steps.pass_time(ordered[-1][0] + 2 * step)
    return Series(name, tuple(map(mean_of, whole)), step)


def mean_of(values: Sequence[float] | None) -> float | None:
    """The mean of the samples of a step; None where there are none."""
    return sum(values) / len(values) if values else None


class TimeSteps(Generic[Item]):
    """Turns samples at any times into steps of equal length: the samples of each whole step, oldest step first.

    A step is whole once its time is over; a step without samples is None. A sample that is a few steps late is ignored.
    One that is even older means that the clock was set back: steps then continue from there.

    >>> steps = TimeSteps(1.0)
    >>> [steps.add(at, value) for at, value in ((0.2, 4.0), (0.8, 6.0), (3.1, 9.0))]
    [[], [], [[4.0, 6.0], None, None]]
    """

    def __init__(self, step: float, max_gap: int = 600, *, close_early: bool = False) -> None:
        """Begin before the first sample.

        Args:
            step: Seconds of a step.
            max_gap: Maximum number of steps without samples in a row: a longer silence, or a clock that was set
                forward, counts as this many.
            close_early: Let `pass_time` close a step as soon as the next sample is expected after its end.
        """
        self.step, self.max_gap, self.close_early = step, max_gap, close_early
        self.last: int | None = None
        """The number of the last whole step, counted from time 0."""
        self._open: int | None = None
        self._items: list[Item] = []
        self._newest = -math.inf
        self._interval = 0.0

    def add(self, at: float, item: Item) -> list[list[Item] | None]:
        """Add a sample; returns the steps that are whole by now."""
        if not math.isfinite(at):
            return []
        number = self.number(at)
        newest = self._open if self._open is not None else self.last
        if newest is not None and number < newest + (self._open is None):
            if newest - number >= _LATE_STEPS:
                self.last, self._open, self._items = number - 1, number, [item]
            return []
        closed = self._close(number) if self._open is not None and number > self._open else []
        self._note_interval(at)
        self._open = number
        self._items.append(item)
        return closed

    def pass_time(self, now: float) -> list[list[Item] | None]:
        """The step that is over at `now` although no later sample came, after a quarter of a step for late samples."""
        if self._open is None:
            return []
        early = self.close_early and self._interval > 0 and self.number(self._newest + self._interval) > self._open
        over = self.number(now - _GRACE * self.step) > self._open
        return self._close(self._open + 1) if early or over else []

    def continue_from(self, last: int) -> None:
        """Continue after a step that is known from elsewhere."""
        self.last, self._open, self._items = last, None, []

    def number(self, at: float) -> int:
        """The number of the step that contains a time."""
        return int(at // self.step)

    def _note_interval(self, at: float) -> None:
        """Update the usual time between two samples."""
        interval = min(max(at - self._newest, 0.0), self.max_gap * self.step)
        if self._newest > -math.inf:
            known = self._interval > 0
            self._interval = self._interval + _FADING * (interval - self._interval) if known else interval
        self._newest = at

    def _close(self, number: int) -> list[list[Item] | None]:
        """The steps from the one after the last whole step to the one before `number`."""
        begun, items = self._open if self._open is not None else number, self._items
        before = 0 if self.last is None else begun - self.last - 1
        self.last, self._open, self._items = number - 1, None, []
        return [*[None] * min(before, self.max_gap), items, *[None] * min(number - begun - 1, self.max_gap)]


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - slow to import

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix == ".csv":
            return pd.read_csv(path)
    except (ValueError, OSError) as error:  # what pandas and Arrow raise for damaged files
        raise ForecastError(f"'{path}' cannot be read: {error}") from error
    raise ForecastError(f"'{path}' must end in .csv or .parquet")


def _column(frame: pd.DataFrame, column: str | None, source: str) -> str:
    numeric = [str(name) for name in frame.select_dtypes("number").columns]
    if column is None and numeric:
        return numeric[-1]
    if column in numeric:
        return column
    wanted = "a column of numbers" if column is None else f"a column '{column}' of numbers"
    raise ForecastError(f"'{source}' has no {wanted[2:]}; it has {', '.join(numeric) or 'none at all'}.")


def _step(frame: pd.DataFrame) -> float | None:
    """The median interval of the first column, if it holds times."""
    import pandas as pd  # noqa: PLC0415

    first = frame.iloc[:, 0]
    if first.dtype == object:
        first = pd.to_datetime(first, errors="coerce", format="ISO8601")
    if first.dtype.kind != "M" or first.isna().any() or len(first) <= 1:
        return None
    return float(first.diff().dt.total_seconds().median()) or None
