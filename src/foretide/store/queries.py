"""The tables of the store, for SQLite and PostgreSQL, and what is read and inserted.

Names start with `foretide_`, so that the store can share a PostgreSQL database with others. The primary key of a
sample is its series and time: every query uses this index, and writing a sample again is harmless.
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
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    delete,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

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

STEPS = Table(
    "foretide_steps",
    METADATA,
    Column("series_id", _ROW_ID, ForeignKey(SERIES.c.id, ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("at", Double, primary_key=True),
    Column("count", BigInteger, nullable=False),
    Column("mean", Double, nullable=False),
    Column("low", Double, nullable=False),
    Column("high", Double, nullable=False),
    sqlite_with_rowid=False,
)
"""Of each sample that stands for others too: how many with itself, and their mean, minimum and maximum."""

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

FORECASTS = Table(
    "foretide_forecasts",
    METADATA,
    Column("pipeline", Text, primary_key=True),
    Column("at", Double, primary_key=True),
    Column("json", Text, nullable=False),
)

ADDED = (DECISIONS, SETUPS, STEPS, FORECASTS)
"""Tables that an older store may not have."""


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


def steps_oldest_first(wanted: Selection) -> Select[Any]:
    """Samples in the order of time, each with the count, mean, minimum and maximum of those that it stands for."""
    figures = [func.coalesce(STEPS.c.count, 1)]
    figures += [func.coalesce(column, SAMPLES.c.value) for column in (STEPS.c.mean, STEPS.c.low, STEPS.c.high)]
    own = (STEPS.c.series_id == SAMPLES.c.series_id) & (STEPS.c.at == SAMPLES.c.at)
    return (
        select(SERIES.c.metric, SERIES.c.subject, SAMPLES.c.at, SAMPLES.c.value, *figures)
        .select_from(SERIES.join(SAMPLES, SAMPLES.c.series_id == SERIES.c.id).outerjoin(STEPS, own))
        .where(*wanted.of_series(), *wanted.of_time(SAMPLES.c.at))
        .order_by(SAMPLES.c.at, SERIES.c.id)
    )


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


def keep_newest(connection: Connection, table: Table, pipeline: str, order: ColumnElement[Any], most: int) -> None:
    """Delete all but the newest `most` rows of a pipeline."""
    own = table.c.pipeline == pipeline
    newest_deleted = connection.scalar(select(order).where(own).order_by(order.desc()).limit(1).offset(most))
    if newest_deleted is not None:
        connection.execute(delete(table).where(own, order <= newest_deleted))
