"""Forgetting what is old, a little at a time, so that no writer waits long."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, delete, exists, select
from sqlalchemy.exc import IntegrityError

from foretide.store.schema import ALARMS, DECISIONS, SAMPLES, SERIES, SETUPS

CHUNK = 5_000
"""Samples deleted in one transaction: some hundredths of a second on a disk."""

SERIES_AT_ONCE = 1_000
"""Series named in one statement; databases limit its parameters."""


def forget_samples(engine: Engine, before: float, at_most: int | None = None) -> int:
    """Delete samples from before a moment, a chunk a transaction. Says how many; fewer than `at_most` means all."""
    removed = 0
    while at_most is None or removed < at_most:
        share = CHUNK if at_most is None else min(CHUNK, at_most - removed)
        with engine.begin() as connection:
            gone = _forget_chunk(connection, before, share)
        if not gone:
            break
        removed += gone
    return removed


def _forget_chunk(connection: Connection, before: float, rows: int) -> int:
    """Delete old samples of some series, at most so many; 0 only when there are none."""
    aged = exists().where(SAMPLES.c.series_id == SERIES.c.id, SAMPLES.c.at < before)
    some = connection.scalars(select(SERIES.c.id).where(aged).order_by(SERIES.c.id).limit(SERIES_AT_ONCE)).all()
    old = SAMPLES.c.series_id.in_(some) & (SAMPLES.c.at < before)
    in_order = select(SAMPLES.c.series_id, SAMPLES.c.at).where(old).order_by(SAMPLES.c.series_id, SAMPLES.c.at)
    too_many = connection.execute(in_order.limit(1).offset(rows)).one_or_none()
    if too_many is None:
        return connection.execute(delete(SAMPLES).where(old)).rowcount
    series, first_kept = too_many
    whole = SAMPLES.c.series_id.in_([other for other in some if other < series]) & (SAMPLES.c.at < before)
    part = (SAMPLES.c.series_id == series) & (SAMPLES.c.at < first_kept)
    return sum(connection.execute(delete(SAMPLES).where(old)).rowcount for old in (whole, part))


def forget_empty_series(engine: Engine) -> None:
    """Delete series that have no sample left."""
    empty = ~exists().where(SAMPLES.c.series_id == SERIES.c.id)
    try:
        with engine.begin() as connection:
            connection.execute(delete(SERIES).where(empty))
    except IntegrityError:
        return  # one of them just got a sample from another process; the rest go next time


def forget_alarms(engine: Engine, before: float) -> None:
    """Delete alarms from before a moment: there are few."""
    with engine.begin() as connection:
        connection.execute(delete(ALARMS).where(ALARMS.c.at < before))


def forget_decisions(engine: Engine, before: float) -> None:
    """Delete decisions from before a moment, and setups that were replaced before it."""
    later = SETUPS.alias()
    replaced = exists().where(later.c.pipeline == SETUPS.c.pipeline, later.c.at > SETUPS.c.at, later.c.at <= before)
    with engine.begin() as connection:
        connection.execute(delete(DECISIONS).where(DECISIONS.c.at < before))
        connection.execute(delete(SETUPS).where(replaced))


def keep_newest(connection: Connection, table: Table, pipeline: str, order: ColumnElement[Any], most: int) -> None:
    """Delete all but the newest so many rows of a pipeline."""
    mine = table.c.pipeline == pipeline
    first_gone = connection.scalar(select(order).where(mine).order_by(order.desc()).limit(1).offset(most))
    if first_gone is not None:
        connection.execute(delete(table).where(mine, order <= first_gone))
