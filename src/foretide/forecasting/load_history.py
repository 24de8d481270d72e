"""Earlier load that is handed in: from a file, from what Prometheus answered, or from a store.

Whatever it comes from, it is the load of each source of a pipeline over time. A file without the names of sources is
the load of the only one, `ANY`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foretide.errors import FileError, ForecastError
from foretide.files import read_text
from foretide.forecasting.series import MAX_LOAD, load_series
from foretide.store.metric_store import MetricStore

LOAD = "arrival_rate"
ANY = ""
"""The name of the source where a history does not name any."""

_WEEK = 7 * 86_400.0
_MAX_JSON_BYTES = 500_000_000
_COARSEST = 10
"""A history is used for steps down to this part of its own; between two values the load is taken to go evenly."""

_FINER = 1.5
"""Samples at irregular times come once a step or more often if they are not farther apart than so many steps."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The load of one source: `(seconds since 1970, value)`, oldest first, and the seconds from one to the next."""

    samples: tuple[tuple[float, float], ...]
    step: float

    def in_steps(self, step: float, most: int) -> tuple[list[float | None], int] | None:
        """The last `most` values in steps of another length, and the number of the last one; None if it is too coarse.

        >>> Earlier(((0.0, 2.0), (10.0, 4.0), (20.0, 9.0)), 10.0).in_steps(20.0, 5)
        ([3.0, 9.0], 1)
        """
        if not self.samples or self.step > _COARSEST * step:
            return None
        at, value = np.array(self.samples).T
        if self.step > 1.5 * step:
            fine = np.arange(at[0], at[-1] + step / 2, step)
            at, value = fine, np.interp(fine, at, value)
        number = np.floor(at / step).astype(np.int64)
        first = max(int(number[0]), int(number[-1]) - most + 1)
        place = number[number >= first] - first
        count = np.bincount(place)
        sums = np.bincount(place, weights=value[number >= first])
        means = np.divide(sums, count, out=np.zeros_like(sums), where=count > 0)
        return [mean if known else None for mean, known in zip(means.tolist(), count, strict=True)], int(number[-1])


History = Mapping[str, Earlier]
"""Earlier load by source."""


def read_history(source: str, now: float, step: float | None = None) -> History:
    """The history in a file or a store.

    Args:
        source: A CSV or Parquet file with times in its first column, or the name of a trace, as for `foretide
            forecast`; a `.json` file with the answer of Prometheus to a range query; or a store, as `--store` takes it.
        now: A history without times ends now. One that ended weeks ago is moved by whole weeks, up to the last one.
        step: Seconds between two values of a file that has no times.

    Raises:
        ForecastError: There is no history in it.
        StoreError: The store cannot be opened.
    """
    suffix = Path(source).suffix
    if suffix == ".json":
        found = _of_prometheus(Path(source))
    elif "://" in source or suffix in {".db", ".sqlite"}:
        found = _of_store(source)
    else:
        found = {ANY: _of_file(source, now, step)}
    return {name: _recent(earlier, now) for name, earlier in found.items()}


def _of_file(source: str, now: float, step: float | None) -> Earlier:
    series = load_series(source)
    between = series.step_seconds or step
    if between is None:
        raise ForecastError(f"'{source}' has no times in its first column; give the seconds between two (--step)")
    last = now if series.last_at is None else series.last_at
    begin = last - between * (len(series.values) - 1)
    return _earlier((begin + between * place, value) for place, value in enumerate(series.values) if value is not None)


def _of_store(location: str) -> dict[str, Earlier]:
    with MetricStore.open(location, create=False) as store:
        return of_store(store, store.pipelines())


def of_store(store: MetricStore, pipelines: Iterable[str], since: float | None = None) -> dict[str, Earlier]:
    """The measured load of each source of some pipelines."""
    by_source: dict[str, list[tuple[float, float]]] = {}
    for pipeline in pipelines:
        for each in store.read_steps(pipeline, metrics=[LOAD], since=since):
            by_source.setdefault(each.subject, []).append((each.at, each.mean))
    return {source: _earlier(samples) for source, samples in by_source.items()}


def _of_prometheus(path: Path) -> dict[str, Earlier]:
    """From the answer to `/api/v1/query_range`, or its `data`: a series for each source, by its label `subject`."""
    try:
        document = json.loads(read_text(path, "JSON", _MAX_JSON_BYTES))
        results = document.get("data", document)["result"]
        return {
            str(each["metric"].get("subject", ANY)): _earlier((at, value) for at, value in each["values"])
            for each in results
        }
    except FileError as error:
        raise ForecastError(str(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise ForecastError(
            f"'{path}' is not the answer of Prometheus to a range query: JSON with data.result, a list of series with "
            "'metric' and 'values'"
        ) from None


def _earlier(samples: Iterable[tuple[Any, Any]]) -> Earlier:
    """Samples in the order of time, without those that are no load."""
    numbers = ((float(at), float(value)) for at, value in samples)
    known = sorted(each for each in numbers if math.isfinite(each[0]) and 0 <= each[1] <= MAX_LOAD)
    gaps = np.diff([at for at, _ in known])
    return Earlier(tuple(known), float(np.median(gaps)) if len(gaps) else 1.0)


def moved_by_weeks(at: float, now: float) -> float:
    """A time moved by whole weeks, so that day and hour stay what they are, into the last week."""
    return at + math.floor((now - at) / _WEEK) * _WEEK


def _recent(earlier: Earlier, now: float) -> Earlier:
    """Moved by whole weeks, to end in the last week."""
    if not earlier.samples:
        return earlier
    later = moved_by_weeks(earlier.samples[-1][0], now) - earlier.samples[-1][0]
    return Earlier(tuple((at + later, value) for at, value in earlier.samples), earlier.step)


def merged(histories: Sequence[History]) -> History:
    """All of them, by source; the later one counts where two overlap."""
    found: dict[str, Earlier] = {}
    for history in histories:
        for source, earlier in history.items():
            known = found.get(source)
            samples = {} if known is None else dict(known.samples)
            found[source] = _earlier({**samples, **dict(earlier.samples)}.items())
    return found
