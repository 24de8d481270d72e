"""Series of equal steps: from a packaged trace, from a CSV or Parquet file, and from samples at any times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from foretide.errors import BadSeriesError, FileError, ForecastError
from foretide.files import read_text
from foretide.forecasting.history import LEARNT
from foretide.formatting import shorten
from foretide.workloads.traces import TRACES, load_trace

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")
_LATE_STEPS = 5
_GRACE = 0.25
_FADING = 0.2


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each step, oldest first; None is a gap.

    Attributes:
        step_seconds: The length of a step; None where it is not known.
        last_at: The time of the last value in seconds since 1970; None where it is not known.
    """

    name: str
    values: tuple[float | None, ...]
    step_seconds: float | None
    last_at: float | None = None


def load_series(source: str, column: str | None = None) -> Series:
    """The trace of that name, or the file at that path.

    >>> load_series("taxi").step_seconds
    1800.0

    Args:
        source: A name in `TRACES`, or a path that ends in .csv or .parquet.
        column: Which column of a file; by default the last one that holds numbers.

    Raises:
        ForecastError: There is no such trace, file or column.
        BadSeriesError: A value is not a load, or the times of a file do not rise; the message says in which row.
    """
    if source in TRACES:
        trace = load_trace(source)
        return Series(trace.name, tuple(map(float, trace.values)), trace.period_seconds, trace.last_at)
    path = Path(source)
    if not _exists(path):
        raise ForecastError(f"'{source}' is neither a file nor a packaged trace ({', '.join(TRACES)})")
    frame = _read(path)
    place = _column(frame, column, source)
    values = _numbers(frame.iloc[:, place], source)
    return Series(path.stem, values, *(_step(frame.iloc[:, 0], source) if place else (None, None)))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # no valid name of a file
        return False


def resampled(name: str, samples: Iterable[tuple[float, float]], step: float) -> Series:
    """Samples at any times (seconds, value) as the mean of each step; None where a step has no sample.

    A silence of more steps than a model learns counts as that many.

    >>> resampled("load", [(0.0, 4.0), (4.0, 6.0), (11.0, 9.0)], 5.0).values
    (5.0, None, 9.0)
    """
    ordered = sorted(samples, key=itemgetter(0))
    steps: TimeSteps[float] = TimeSteps(step, max_gap=LEARNT)
    whole = [each for at, value in ordered for each in steps.add(at, value)]
    whole += steps.pass_time(ordered[-1][0] + 2 * step)
    last = None if steps.last is None else steps.last * step
    return Series(name, tuple(map(mean_of, whole)), step, last)


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

    def continue_from(self, last: int, interval: float = 0.0) -> None:
        """Continue after a step that is known from elsewhere, with the usual time between samples if that is known."""
        self.last, self._open, self._items, self._interval = last, None, [], interval

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


MAX_LOAD = 1e15
"""The largest value of a file: far beyond any real load, and still readable."""
_MAX_CSV_BYTES = 500_000_000


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - slow to import

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix == ".csv":
            return pd.read_csv(StringIO(read_text(path, "CSV", _MAX_CSV_BYTES)), low_memory=False)
    except FileError as error:
        raise ForecastError(str(error)) from error
    except Exception as error:  # pandas and Arrow raise anything for damaged files
        reason = shorten(str(error).partition("\n")[0])
        raise ForecastError(f"'{path}' cannot be read as {path.suffix[1:]}: {reason}") from error
    raise ForecastError(f"'{path}' must end in .csv or .parquet")


def _column(frame: pd.DataFrame, column: str | None, source: str) -> int:
    """The position of a column of numbers, of which some may be damaged."""
    names = [str(name) for name in frame.columns]
    numeric = [place for place in range(len(names)) if _is_numeric(frame.iloc[:, place])]
    if column is None and numeric:
        return numeric[-1]
    if column in names and names.index(column) in numeric:
        return names.index(column)
    wanted = "column of numbers" if column is None else f"column '{column}' of numbers"
    found = ", ".join(shorten(names[place])[1:-1] for place in numeric[:20])
    raise ForecastError(f"'{source}' has no {wanted}; it has {found or 'none at all'}.")


def _is_numeric(values: pd.Series[Any]) -> bool:
    """Whether at least half of the cells that are not empty are numbers."""
    if values.dtype.kind in "biufM":
        return values.dtype.kind in "iuf"
    filled = int(values.notna().sum())
    return filled > 0 and 2 * int(_as_numbers(values).notna().sum()) >= filled


def _as_numbers(values: pd.Series[Any]) -> pd.Series[Any]:
    import pandas as pd  # noqa: PLC0415

    return pd.to_numeric(values.map(str, na_action="ignore"), errors="coerce")


def _numbers(column: pd.Series[Any], source: str) -> tuple[float | None, ...]:
    """The values of a column; an empty cell is a gap. A cell that is no load is refused with its row."""
    numbers = column if column.dtype.kind in "iuf" else _as_numbers(column)
    damaged = np.flatnonzero(numbers.isna() & column.notna())
    if len(damaged):
        cell = shorten(str(column.iloc[damaged[0]]))
        raise BadSeriesError(f"row {damaged[0] + 1} of '{source}': {cell} is not a number; leave a gap empty")
    values = numbers.to_numpy(dtype=np.float64)
    wrong = np.flatnonzero((values < 0) | (values > MAX_LOAD))
    if len(wrong):
        raise BadSeriesError(
            f"'{source}': value {wrong[0] + 1} of {len(values)} must be between 0 and {MAX_LOAD:,.0f}, "
            f"got {values[wrong[0]]:g}; leave a gap empty"
        )
    return tuple(None if np.isnan(each) else each for each in values.tolist())


_TIME_NAMES = frozenset({"time", "timestamp", "datetime", "date", "ts"})


def _step(first: pd.Series[Any], source: str) -> tuple[float | None, float | None]:
    """The median interval and the last of the times in the first column, if it holds any; they must rise row by row."""
    import pandas as pd  # noqa: PLC0415

    times = first
    if first.dtype.kind not in "biufMm" and _is_numeric(first):  # numbers, but for some cells
        if str(first.name).lower() not in _TIME_NAMES:
            return None, None
        times = _as_numbers(first)
    elif first.dtype.kind not in "biufMm":
        times = pd.to_datetime(first.map(str, na_action="ignore"), errors="coerce", format="ISO8601", utc=True)
        if 2 * int(times.notna().sum()) < len(times):
            return None, None
    elif first.dtype.kind != "M" and str(first.name).lower() not in _TIME_NAMES:
        return None, None
    missing = np.flatnonzero(times.isna())
    if len(missing):
        cell = shorten(str(first.iloc[missing[0]]))
        raise BadSeriesError(f"row {missing[0] + 1} of '{source}': {cell} is not a time, as the others of its column")
    back = np.flatnonzero(times.to_numpy()[1:] <= times.to_numpy()[:-1])
    if len(back):
        row, cell = back[0] + 2, shorten(str(first.iloc[back[0] + 1]))
        raise BadSeriesError(
            f"row {row} of '{source}': the time {cell} is not later than that of row {row - 1}; "
            "sort the rows by time, one row for each step"
        )
    if len(times) <= 1:
        return None, None
    if times.dtype.kind == "M":
        return float(times.diff().dt.total_seconds().median()) or None, times.iloc[-1].timestamp()
    return None, None
