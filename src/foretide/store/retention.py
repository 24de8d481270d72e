"""What a pipeline keeps: how far back its samples count, and the deletion of older ones in small transactions.

Age is counted in recorded time. A pause of more than a day, in which the pipeline was stopped or over which its clock
jumped, does not count: nothing becomes old by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, exists, func, select
from sqlalchemy.exc import IntegrityError

from foretide.store.queries import ALARMS, DECISIONS, FORECASTS, SAMPLES, SERIES, SETUPS, STEPS

CHUNK = 5_000
"""Samples deleted in one transaction: some hundredths of a second on a disk."""

SERIES_AT_ONCE = 1_000
"""Series named in one statement; databases limit its parameters."""

LONGEST_PAUSE = 24 * 3600.0
"""A longer time without any sample does not count."""

_STRIDES = 50
"""An age is counted in about so many queries."""

OnPause = Callable[[float, float], None]


def recorded_before(
    connection: Connection, pipeline: str, now: float, age: float, on_pause: OnPause = lambda _from, _to: None
) -> float:
    """The time before which samples of a pipeline are older than `age` seconds; -inf if none can be.

    Args:
        connection: To the store.
        pipeline: Whose samples they are.
        now: The time from which to count back. Later samples, of a clock that was ahead, are left alone.
        age: Seconds of recorded time.
        on_pause: Told of each pause that does not count: its begin and its end.
    """
    pause = max(LONGEST_PAUSE, age / _STRIDES)
    time, left = now, age
    while True:
        oldest = _sample_time(connection, pipeline, since=time - pause, until=time, newest=False)
        if oldest is None:
            newest = _sample_time(connection, pipeline, since=-math.inf, until=time, newest=True)
            if newest is None:
                return -math.inf
            on_pause(newest, time)
            time = newest
        elif left <= time - oldest:
            return time - left
        else:
            left, time = left - (time - oldest), oldest


def _sample_time(connection: Connection, pipeline: str, *, since: float, until: float, newest: bool) -> float | None:
    """The time of the oldest or newest sample in a period: one step down the index for each series."""
    at = SAMPLES.c.at
    of_series = select(at).where(SAMPLES.c.series_id == SERIES.c.id, at < until)
    of_series = of_series if since == -math.inf else of_series.where(at >= since)
    one = of_series.order_by(at.desc() if newest else at).limit(1).correlate(SERIES).scalar_subquery()
    best = func.max(one) if newest else func.min(one)
    return connection.scalar(select(best).where(SERIES.c.pipeline == pipeline))


def delete_samples(engine: Engine, pipeline: str, before: float, at_most: int | None = None) -> int:
    """Delete a pipeline's samples from before a time, one chunk per transaction.

    Returns the number deleted, which is below `at_most` if all are.
    """
    removed = 0
    while at_most is None or removed < at_most:
        share = CHUNK if at_most is None else min(CHUNK, at_most - removed)
        with engine.begin() as connection:
            gone = _delete_chunk(connection, pipeline, before, share)
        if not gone:
            break
        removed += gone
    return removed


def _delete_chunk(connection: Connection, pipeline: str, before: float, rows: int) -> int:
    """Delete at most `rows` old samples; 0 only if there are none left."""
    aged = exists().where(SAMPLES.c.series_id == SERIES.c.id, SAMPLES.c.at < before)
    own = select(SERIES.c.id).where(SERIES.c.pipeline == pipeline, aged)
    some = connection.scalars(own.order_by(SERIES.c.id).limit(SERIES_AT_ONCE)).all()
    old = _older(SAMPLES, some, before)
    in_order = select(SAMPLES.c.series_id, SAMPLES.c.at).where(old).order_by(SAMPLES.c.series_id, SAMPLES.c.at)
    too_many = connection.execute(in_order.limit(1).offset(rows)).one_or_none()
    if too_many is None:
        return _delete_parts(connection, [(some, before)])
    series, first_kept = too_many
    return _delete_parts(connection, [([other for other in some if other < series], before), ([series], first_kept)])


def _delete_parts(connection: Connection, parts: Iterable[tuple[Sequence[int], float]]) -> int:
    """Delete the samples of series from before a time, and what they stand for; returns the number of samples."""
    removed = 0
    for series, before in parts:
        connection.execute(delete(STEPS).where(_older(STEPS, series, before)))
        removed += connection.execute(delete(SAMPLES).where(_older(SAMPLES, series, before))).rowcount
    return removed


def _older(table: Table, series: Sequence[int], before: float) -> ColumnElement[bool]:
    return table.c.series_id.in_(series) & (table.c.at < before)


def delete_empty_series(engine: Engine, pipeline: str) -> None:
    """Delete series of a pipeline that have no sample left."""
    empty = ~exists().where(SAMPLES.c.series_id == SERIES.c.id)
    try:
        with engine.begin() as connection:
            connection.execute(delete(SERIES).where(SERIES.c.pipeline == pipeline, empty))
    except IntegrityError:
        return  # one of them just got a sample from another process; the rest go next time


def delete_alarms(engine: Engine, pipeline: str, before: float) -> None:
    """Delete a pipeline's alarms from before a time."""
    with engine.begin() as connection:
        connection.execute(delete(ALARMS).where(ALARMS.c.pipeline == pipeline, ALARMS.c.at < before))


def delete_decisions(engine: Engine, pipeline: str, before: float) -> None:
    """Delete a pipeline's decisions and forecasts from before a time, and setups that were replaced before it."""
    later = SETUPS.alias()
    replaced = exists().where(later.c.pipeline == SETUPS.c.pipeline, later.c.at > SETUPS.c.at, later.c.at <= before)
    with engine.begin() as connection:
        connection.execute(delete(DECISIONS).where(DECISIONS.c.pipeline == pipeline, DECISIONS.c.at < before))
        connection.execute(delete(FORECASTS).where(FORECASTS.c.pipeline == pipeline, FORECASTS.c.at < before))
        connection.execute(delete(SETUPS).where(SETUPS.c.pipeline == pipeline, replaced))
