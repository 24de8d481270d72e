"""Replaces older samples by one for each step, in small transactions that can be interrupted at any point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Delete, Table, bindparam, delete, func, select

from foretide.metrics.steps import StepSample, by_step, merged
from foretide.store.queries import SAMPLES, SERIES, STEPS, upsert
from foretide.store.records import read_row

ROWS_AT_ONCE = 2_000
"""Samples read in one transaction, which takes about a hundredth of a second."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is to be compacted: samples of a pipeline in a period, to steps of `every` seconds.

    Attributes:
        series: Series with a smaller id are done.
        at: Samples of that series before this time are done.
    """

    pipeline: str
    every: float
    since: float
    until: float
    series: int = 0
    at: float | None = None


def compact(connection: Connection, part: Part) -> Part | None:
    """Compact a piece of a part; returns what is left, None if nothing is."""
    own = select(SERIES.c.id).where(SERIES.c.pipeline == part.pipeline, SERIES.c.id >= part.series)
    ids = connection.scalars(own.order_by(SERIES.c.id).limit(ROWS_AT_ONCE + 1)).all()
    steps: list[tuple[int, list[StepSample]]] = []
    rest, left = None, ROWS_AT_ONCE
    for series in ids:
        since = part.at if series == part.series and part.at is not None else part.since
        if left <= 0:
            rest = replace(part, series=series, at=since)
            break
        bounds = {"series": series, "since": since, "until": part.until, "rows": left + 1}
        rows = connection.execute(_SAMPLES_OF_SERIES, bounds)
        found = [read_row(StepSample, SAMPLES.name, ("", "", *row)) for row in rows]
        whole, own_steps = len(found) <= left, by_step(found, part.every)
        if not whole:  # the end of the last step was not read
            rest = replace(part, series=series, at=own_steps.pop()[0].at if len(own_steps) > 1 else found[-1].at)
        steps += [(series, step) for step in own_steps if len(step) > 1]
        if not whole:
            break
        left -= 1 + len(found)
    _keep_last(connection, steps)
    return rest


def _samples_of_series() -> Any:
    at, value, figures = SAMPLES.c.at, SAMPLES.c.value, (STEPS.c.mean, STEPS.c.low, STEPS.c.high)
    own = (STEPS.c.series_id == SAMPLES.c.series_id) & (STEPS.c.at == at)
    return (
        select(at, value, func.coalesce(STEPS.c.count, 1), *(func.coalesce(column, value) for column in figures))
        .select_from(SAMPLES.outerjoin(STEPS, own))
        .where(SAMPLES.c.series_id == bindparam("series"), at >= bindparam("since"), at < bindparam("until"))
        .order_by(at)
        .limit(bindparam("rows"))
    )


def _delete_between(table: Table) -> Delete:
    inside = (table.c.at >= bindparam("first")) & (table.c.at < bindparam("last"))
    return delete(table).where(table.c.series_id == bindparam("series"), inside)


_SAMPLES_OF_SERIES = _samples_of_series()
_DELETIONS = tuple(map(_delete_between, (STEPS, SAMPLES)))


def _keep_last(connection: Connection, steps: list[tuple[int, list[StepSample]]]) -> None:
    """Delete all but the last sample of each step, and keep the figures of all with it."""
    if not steps:
        return
    ranges = [{"series": series, "first": step[0].at, "last": step[-1].at} for series, step in steps]
    for deletion in _DELETIONS:
        connection.execute(deletion, ranges)
    rows = []
    for series, step in steps:
        kept = merged(step)
        figures = {"count": kept.count, "mean": kept.mean, "low": kept.low, "high": kept.high}
        rows.append({"series_id": series, "at": kept.at, **figures})
    connection.execute(upsert(STEPS, connection.dialect), rows)
