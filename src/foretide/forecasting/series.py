"""Where a series comes from: a packaged trace by its name, or a CSV or Parquet file. The one place that knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import ForecastError
from foretide.forecasting.history import checked
from foretide.workloads.traces import TRACES, load_trace

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Series:
    """Values on a regular grid, oldest first; None is a gap. `step_seconds` is None where nothing says it."""

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
        BadSeriesError: A value is no load.
    """
    if source in TRACES:
        trace = load_trace(source)
        return Series(trace.name, tuple(map(float, trace.values)), trace.period_seconds)
    path = Path(source)
    if not path.is_file():
        raise ForecastError(f"'{source}' is neither a file nor a packaged trace ({', '.join(TRACES)}).")
    frame = _read(path)
    numbers = frame[_column(frame, column, source)]
    series = Series(path.stem, tuple(None if np.isnan(each) else float(each) for each in numbers), _step(frame))
    checked(series.values)
    return series


def on_a_grid(name: str, measured: Sequence[tuple[float, float]], step: float) -> Series:
    """What was measured at any times (seconds, value), as the mean of each step; None where there is none.

    >>> on_a_grid("load", [(0.0, 4.0), (4.0, 6.0), (11.0, 9.0)], 5.0).values
    (5.0, None, 9.0)
    """
    steps: dict[int, list[float]] = {}
    for at, value in measured:
        steps.setdefault(int(at // step), []).append(value)
    whole = range(min(steps), max(steps) + 1)
    values = tuple(sum(steps[each]) / len(steps[each]) if each in steps else None for each in whole)
    return Series(name, values, step)


def _read(path: Path) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 slow to import, and only files need it

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        if path.suffix == ".csv":
            return pd.read_csv(path)
    except (ValueError, OSError) as error:  # what pandas and Arrow raise for damaged files
        raise ForecastError(f"'{path}' cannot be read: {error}") from error
    raise ForecastError(f"'{path}' should end in .csv or .parquet.")


def _column(frame: pd.DataFrame, column: str | None, source: str) -> str:
    numeric = [str(name) for name in frame.select_dtypes("number").columns]
    if column is None and numeric:
        return numeric[-1]
    if column in numeric:
        return column
    wanted = "a column of numbers" if column is None else f"a column '{column}' of numbers"
    raise ForecastError(f"'{source}' has no {wanted[2:]}; it has {', '.join(numeric) or 'none at all'}.")


def _step(frame: pd.DataFrame) -> float | None:
    """The usual distance of the first column's times, if it holds times."""
    import pandas as pd  # noqa: PLC0415

    first = frame.iloc[:, 0]
    if first.dtype == object:
        first = pd.to_datetime(first, errors="coerce", format="ISO8601")
    if first.dtype.kind != "M" or first.isna().any() or len(first) <= 1:
        return None
    return float(first.diff().dt.total_seconds().median()) or None
