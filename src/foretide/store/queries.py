"""The tables of the store, for SQLite and PostgreSQL, and what is read, inserted and deleted.

Names start with `foretide_`, so that the store can share a PostgreSQL database with others. The primary key of a
sample is its series and time: every query uses this index, and writing a sample again is harmless. Old rows are deleted
in small transactions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Double,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    delete,
    exists,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

VERSION = 1
"""Version of these tables. A store of a newer version is refused.

A new table does not change the version: older releases ignore it, and newer ones add it to a store without it.
"""

METADATA = MetaData()

_ROW_ID = BigInteger().with_variant(Integer, "sqlite")  # only INTEGER counts by itself in SQLite

SCHEMA = Table("foretide_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

SERIES = Table(
    "foretide_series",
    METADATA,
    Column("id", _ROW_ID, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("subject", Text, nullable=False),
    UniqueConstraint("pipeline", "metric", "subject"),
    sqlite_autoincrement=True,  # an id is never used again: other processes may still hold it
)

SAMPLES = Table(
    "foretide_samples",
    METADATA,
    Column("series_id", _ROW_ID, ForeignKey(SERIES.c.id), primary_key=True, autoincrement=False),
    Column("at", Double, primary_key=True),
    Column("value", Double, nullable=False),
    sqlite_with_rowid=False,  # the index is the table: half the space, one tree to write
)

ALARMS = Table(
    "foretide_alarms",
    METADATA,
    Column("id", _ROW_ID, primary_key=True),
    Column("pipeline", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("rule", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("source", Text, nullable=False),
    UniqueConstraint("pipeline", "at", "rule", "subject", "source"),
)

DECISIONS = Table(
    "foretide_decisions",
    METADATA,
    Column("pipeline", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("acted", Boolean, nullable=False),
    Column("json", Text, nullable=False),
    Index("foretide_decisions_at", "at"),
)

SETUPS = Table(
    "foretide_setups",
    METADATA,
    Column("pipeline", Text, primary_key=True),
    Column("at", Double, primary_key=True),
    Column("json", Text, nullable=False),
)

ADDED = (DECISIONS, SETUPS)
"""Tables that an older store may not have."""

CHUNK = 5_000
"""Samples deleted in one transaction: some hundredths of a second on a disk."""

SERIES_AT_ONCE = 1_000
"""Series named in one statement; databases limit its parameters."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which samples to read. None means all; `since` is included, `until` is not."""

    pipeline: str
    metrics: Collection[str] | None = None
    subjects: Collection[str] | None = None
    since: float | None = None
    until: float | None = None

    def of_series(self) -> list[ColumnElement[bool]]:
        """The conditions on the series."""
        conditions = [SERIES.c.pipeline == self.pipeline]
        if self.metrics is not None:
            conditions.append(SERIES.c.metric.in_(self.metrics))
        if self.subjects is not None:
            conditions.append(SERIES.c.subject.in_(self.subjects))
        return conditions

    def of_time(self, at: ColumnElement[float]) -> list[ColumnElement[bool]]:
        """The conditions on the time."""
        earliest = [] if self.since is None else [at >= self.since]
        return earliest if self.until is None else [*earliest, at < self.until]


def samples_newest_first(wanted: Selection) -> Select[Any]:
    """Samples, the newest first."""
    return _samples(wanted).order_by(SAMPLES.c.at.desc(), SERIES.c.id.desc())


def samples_oldest_first(wanted: Selection) -> Select[Any]:
    """Samples in the order of time; those of one moment in the order in which their series were first seen."""
    return _samples(wanted).order_by(SAMPLES.c.at, SERIES.c.id)


def _samples(wanted: Selection) -> Select[Any]:
    return (
        select(SERIES.c.metric, SERIES.c.subject, SAMPLES.c.at, SAMPLES.c.value)
        .join_from(SERIES, SAMPLES, SAMPLES.c.series_id == SERIES.c.id)
        .where(*wanted.of_series(), *wanted.of_time(SAMPLES.c.at))
    )


def newest_of_each_series(wanted: Selection) -> Select[Any]:
    """The newest sample of each series: two steps down the index a series, however many samples there are."""

    def newest(column: ColumnElement[float]) -> Any:
        of_series = select(column).where(SAMPLES.c.series_id == SERIES.c.id)
        return of_series.order_by(SAMPLES.c.at.desc()).limit(1).scalar_subquery()

    return (
        select(SERIES.c.metric, SERIES.c.subject, newest(SAMPLES.c.at), newest(SAMPLES.c.value))
        .where(*wanted.of_series())
        .order_by(SERIES.c.id)
    )


def series_of(pipeline: str) -> Select[Any]:
    """The series of a pipeline, in the order in which they were first seen."""
    return select(SERIES.c.metric, SERIES.c.subject).where(SERIES.c.pipeline == pipeline).order_by(SERIES.c.id)


def alarms_newest_first(wanted: Selection) -> Select[Any]:
    """Alarms of a pipeline, the newest first."""
    alarm = ALARMS.c
    return (
        select(alarm.at, alarm.rule, alarm.severity, alarm.subject, alarm.message, alarm.source)
        .where(alarm.pipeline == wanted.pipeline, *wanted.of_time(alarm.at))
        .order_by(alarm.at.desc(), alarm.id.desc())
    )


def _insert(table: Table, dialect: Dialect) -> postgresql.Insert | sqlite.Insert:
    """An INSERT with ON CONFLICT, of which SQLAlchemy has one for each database."""
    return postgresql.insert(table) if dialect.name == "postgresql" else sqlite.insert(table)


def upsert(table: Table, dialect: Dialect) -> postgresql.Insert | sqlite.Insert:
    """Insert rows; one of the same primary key replaces the old one."""
    insert, key = _insert(table, dialect), list(table.primary_key.columns.keys())
    values = {name: insert.excluded[name] for name in table.columns.keys() if name not in key}  # noqa: SIM118
    return insert.on_conflict_do_update(index_elements=key, set_=values)


def insert_missing(table: Table, dialect: Dialect) -> postgresql.Insert | sqlite.Insert:
    """Insert rows that do not exist yet."""
    return _insert(table, dialect).on_conflict_do_nothing()


def delete_samples(engine: Engine, before: float, at_most: int | None = None) -> int:
    """Delete samples from before a time, one chunk per transaction; the number deleted, below `at_most` if all are."""
    removed = 0
    while at_most is None or removed < at_most:
        share = CHUNK if at_most is None else min(CHUNK, at_most - removed)
        with engine.begin() as connection:
            gone = _delete_chunk(connection, before, share)
        if not gone:
            break
        removed += gone
    return removed


def _delete_chunk(connection: Connection, before: float, rows: int) -> int:
    """Delete at most `rows` old samples; 0 only if there are none left."""
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


def delete_empty_series(engine: Engine) -> None:
    """Delete series that have no sample left."""
    empty = ~exists().where(SAMPLES.c.series_id == SERIES.c.id)
    try:
        with engine.begin() as connection:
            connection.execute(delete(SERIES).where(empty))
    except IntegrityError:
        return  # one of them just got a sample from another process; the rest go next time


def delete_alarms(engine: Engine, before: float) -> None:
    """Delete alarms from before a time."""
    with engine.begin() as connection:
        connection.execute(delete(ALARMS).where(ALARMS.c.at < before))


def delete_decisions(engine: Engine, before: float) -> None:
    """Delete decisions from before a time, and setups that were replaced before it."""
    later = SETUPS.alias()
    replaced = exists().where(later.c.pipeline == SETUPS.c.pipeline, later.c.at > SETUPS.c.at, later.c.at <= before)
    with engine.begin() as connection:
        connection.execute(delete(DECISIONS).where(DECISIONS.c.at < before))
        connection.execute(delete(SETUPS).where(replaced))


def keep_newest(connection: Connection, table: Table, pipeline: str, order: ColumnElement[Any], most: int) -> None:
    """Delete all but the newest `most` rows of a pipeline."""
    own = table.c.pipeline == pipeline
    newest_deleted = connection.scalar(select(order).where(own).order_by(order.desc()).limit(1).offset(most))
    if newest_deleted is not None:
        connection.execute(delete(table).where(own, order <= newest_deleted))
