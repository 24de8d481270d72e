"""Recorded load: the public traces that come with the package, as plain numbers."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from foretide.errors import WorkloadError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Trace:
    """A count for each period of equal length, in the order of time.

    Attributes:
        name: One of `TRACES`.
        period_seconds: The length of a period as it was recorded.
        values: What was counted in each period; read-only.
        unit: What was counted.
        last_at: When the last period began, in seconds since 1970: the recorded local time, taken as UTC.
    """

    name: str
    period_seconds: float
    values: NDArray[np.float64]
    unit: str
    last_at: float


_SOURCES = {
    "tweets-aapl": ("Twitter_volume_AAPL.csv.xz", 300.0, "tweets"),
    "tweets-amzn": ("Twitter_volume_AMZN.csv.xz", 300.0, "tweets"),
    "tweets-fb": ("Twitter_volume_FB.csv.xz", 300.0, "tweets"),
    "tweets-goog": ("Twitter_volume_GOOG.csv.xz", 300.0, "tweets"),
    "tweets-ko": ("Twitter_volume_KO.csv.xz", 300.0, "tweets"),
    "taxi": ("nyc_taxi.csv.xz", 1800.0, "passengers"),
}

TRACES: tuple[str, ...] = tuple(_SOURCES)
"""The names that `load_trace` knows."""


def load_trace(name: str) -> Trace:
    """The trace of that name.

    >>> load_trace("taxi").values[:3].tolist()
    [10844.0, 8127.0, 6210.0]

    Raises:
        WorkloadError: The name is unknown; the message lists all names.
    """
    if name not in TRACES:
        raise WorkloadError(f"unknown trace {name!r}; choose one of {', '.join(TRACES)}.")
    return _read(name)


@cache
def _read(name: str) -> Trace:
    file, period, unit = _SOURCES[name]
    packed = resources.files("foretide.workloads").joinpath("data", file).read_bytes()
    lines = lzma.decompress(packed).decode().splitlines()[1:]
    values = np.array([float(line.rpartition(",")[2]) for line in lines])
    values.setflags(write=False)
    last = datetime.fromisoformat(lines[-1].partition(",")[0]).replace(tzinfo=UTC)
    return Trace(name, period, values, unit, last.timestamp())
