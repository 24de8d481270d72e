"""The questions that are put to the store, as SQLAlchemy statements. They run on no connection of their own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Dialect, Select, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from foretide.store.schema import ALARMS, SAMPLES, SERIES


@dataclass(frozen=True, slots=True)
class Selection:
    """Which samples are meant. None means all; `since` is included, `until` is not."""

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
    """An INSERT that knows ON CONFLICT: both databases write it alike, and SQLAlchemy has one for each."""
    return postgresql.insert(table) if dialect.name == "postgresql" else sqlite.insert(table)


def upsert(table: Table, dialect: Dialect) -> postgresql.Insert | sqlite.Insert:
    """Insert rows; one of the same primary key takes the place of the old one."""
    insert, key = _insert(table, dialect), list(table.primary_key.columns.keys())
    values = {name: insert.excluded[name] for name in table.columns.keys() if name not in key}  # noqa: SIM118
    return insert.on_conflict_do_update(index_elements=key, set_=values)


def insert_missing(table: Table, dialect: Dialect) -> postgresql.Insert | sqlite.Insert:
    """Insert rows that are not there yet."""
    return _insert(table, dialect).on_conflict_do_nothing()
