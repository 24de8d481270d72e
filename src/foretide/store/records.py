"""Records of the store besides samples: alarms, decisions and setups, and checks of what can be stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Self, TypeVar

from sqlalchemy import Connection, Select, delete, func, select

from foretide.control.decisions.decision import Decision, from_json, to_json
from foretide.control.decisions.effects import merge_effects
from foretide.control.history import RecordedForecasts, RecordedWorld
from foretide.errors import CodecError, StoreError
from foretide.metrics.metric import Sample
from foretide.metrics.steps import StepSample
from foretide.store.queries import DECISIONS, FORECASTS, SETUPS, keep_newest, upsert

MAX_DECISION_ID = 2**63 - 1
"""The largest number of a decision in the store."""

MAX_NAME_BYTES = 512
"""Maximum bytes of a name. Indexes of PostgreSQL hold three such names, and not much more."""

MAX_DECISIONS = 10_000
"""Decisions of a pipeline that are kept by default."""

MAX_SETUPS = 1_000
"""Setups of a pipeline that are kept."""

FORECASTS_KEPT_SECONDS = 12 * 3600.0
"""Forecasts of a pipeline are kept for so long."""

_SHOWN = 40
"""Characters of a value that an error shows."""

DECISIONS_PER_STATEMENT = 1_000
"""Databases limit the parameters of a statement."""


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """A series: a metric of a subject."""

    metric: str
    subject: str


@dataclass(frozen=True, slots=True)
class AlarmRecord:
    """An alarm.

    Attributes:
        rule: The name of the alarm rule, or the kind of an audit failure.
        subject: What it is about; empty for the whole pipeline.
        source: The likely cause, or what raised it.
    """

    at: float
    rule: str
    severity: str
    subject: str
    message: str
    source: str


Recorded = TypeVar("Recorded", Decision, RecordedWorld, RecordedForecasts)


@dataclass(frozen=True, slots=True)
class Encoded(Generic[Recorded]):
    """A decision, setup or forecasts and the JSON, or the `problem` for which there is none."""

    record: Recorded
    json: str = ""
    problem: str | None = None

    @classmethod
    def of(cls, record: Recorded) -> Self:
        """Encode it."""
        try:
            return cls(record, to_json(record))
        except (TypeError, ValueError) as error:
            return cls(record, problem=f"it cannot be written as JSON ({error})")

    def __str__(self) -> str:
        return str(self.record)


Kept = Sample | AlarmRecord | Encoded[Decision] | Encoded[RecordedWorld] | Encoded[RecordedForecasts]
"""All that a store keeps."""


def storage_problem(record: Kept) -> str | None:
    """Why a record cannot be stored, or None.

    >>> storage_problem(Sample("cpu.percent", "worker-1", at=0.0, value=float("nan")))
    'its value is nan; it must be a finite number'
    """
    if isinstance(record, Encoded):
        return _number_problem("time", record.record.at) or _id_problem(record.record) or record.problem
    if isinstance(record, Sample):
        wrong = _number_problem("value", record.value) or name_problem(record.metric)
    else:
        wrong = name_problem(record.rule) or name_problem(record.severity) or name_problem(record.source)
    return wrong or _number_problem("time", record.at) or name_problem(record.subject)


def _id_problem(record: Decision | RecordedWorld | RecordedForecasts) -> str | None:
    if isinstance(record, Decision) and not 0 < record.id <= MAX_DECISION_ID:
        return f"its number is {record.id}; they count up from 1"
    return None


def _number_problem(what: str, figure: float) -> str | None:
    return None if _is_finite(figure) else f"its {what} is {figure}; it must be a finite number"


@lru_cache(maxsize=10_000)
def name_problem(name: str) -> str | None:
    """Why a name cannot be stored, or None.

    >>> name_problem("bolt/3")
    >>> name_problem("bolt" * 200)
    "the name 'boltboltboltboltboltboltboltboltboltbolt...' is 800 bytes long; the maximum is 512"
    """
    if storable_text(name) != name:
        return f"the name {name!a} has a character that databases do not accept"
    length = len(name.encode())
    if length > MAX_NAME_BYTES:
        return f"the name '{name[:40]}...' is {length} bytes long; the maximum is {MAX_NAME_BYTES}"
    return None


def storable_text(text: str) -> str:
    """A text without the characters that databases do not accept.

    >>> storable_text("lost" + chr(0) + " 3 rows")
    'lost 3 rows'
    """
    return text.replace("\0", "").encode(errors="replace").decode()


Row = TypeVar("Row", Sample, StepSample, AlarmRecord)


def read_row(kind: type[Row], table: str, row: Sequence[Any]) -> Row:
    """A row as a record. SQLite keeps text and blobs in columns of numbers if somebody puts them there.

    Raises:
        StoreError: A value is not of the type of its column; names the row.
    """
    for place, value in enumerate(row):
        number = _is_number_at(kind, place)
        if not (_is_finite(value) if number else isinstance(value, str)):
            wanted = "a finite number" if number else "text"
            where = ", ".join(repr(each)[:_SHOWN] for each in row)
            raise StoreError(
                f"the store is damaged: a row of {table} ({where}) has {value!r:.40} where {wanted} belongs; delete "
                "the row, or move the store away"
            )
    return kind(*row)


def _is_number_at(kind: type[Any], place: int) -> bool:
    return place == 0 if kind is AlarmRecord else place > 1


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


OnProblem = Callable[[str], None]
T = TypeVar("T")


def decisions_newest_first(
    pipeline: str,
    *,
    last: int | None = None,
    since: float | None = None,
    ids: Collection[int] | None = None,
    acted: bool = False,
) -> Select[Any]:
    """The query for decisions; None means all."""
    column = DECISIONS.c
    query = select(column.id, column.json).where(column.pipeline == pipeline)
    if since is not None:
        query = query.where(column.at >= since)
    if ids is not None:
        query = query.where(column.id.in_([each for each in ids if 0 <= each <= MAX_DECISION_ID]))
    if acted:
        query = query.where(column.acted)
    return query.order_by(column.id.desc()).limit(None if last is None else min(last, MAX_DECISION_ID))


def newest_id(pipeline: str) -> Select[Any]:
    """The query for the highest number of a pipeline's decisions."""
    return select(func.max(DECISIONS.c.id)).where(DECISIONS.c.pipeline == pipeline)


def setups_of(pipeline: str, last: int | None) -> Select[Any]:
    """The query for the setups of a pipeline, the newest first."""
    own = select(SETUPS.c.at, SETUPS.c.json).where(SETUPS.c.pipeline == pipeline)
    return own.order_by(SETUPS.c.at.desc()).limit(last)


def forecasts_of(pipeline: str, since: float | None, until: float | None) -> Select[Any]:
    """The query for the forecasts of a pipeline, in the order of time."""
    column = FORECASTS.c
    query = select(column.at, column.json).where(column.pipeline == pipeline).order_by(column.at)
    query = query if since is None else query.where(column.at >= since)
    return query if until is None else query.where(column.at < until)


def read_back(rows: Iterable[tuple[float, str]], kind: type[T], what: str, on_problem: OnProblem) -> Iterator[T]:
    """What can be read of rows; what cannot is reported and left out."""
    for number, text in rows:
        try:
            yield from_json(kind, text)
        except CodecError as error:
            shown = f"{number:.15g}" if isinstance(number, int | float) else repr(number)
            on_problem(f"{what} {shown} of the store was left out: {error}")


def write_decisions(
    connection: Connection, pipeline: str, decisions: Sequence[Encoded[Decision]], max_decisions: int
) -> None:
    """Write decisions, add the effects they report to earlier ones, and keep no more than `max_decisions`."""
    for start in range(0, len(decisions), DECISIONS_PER_STATEMENT):
        part = decisions[start : start + DECISIONS_PER_STATEMENT]
        own = {each.record.id for each in part}
        earlier = {effect.decision for each in part for effect in each.record.effects_of_earlier}
        kept = _kept(connection, pipeline, own | earlier)
        changed: dict[int, Encoded[Decision]] = {}
        for new in part:
            merged = merge_effects(new.record, kept)
            kept |= merged
            changed |= {number: new if each is new.record else Encoded.of(each) for number, each in merged.items()}
        _write(connection, pipeline, changed)
    keep_newest(connection, DECISIONS, pipeline, DECISIONS.c.id, max_decisions)


def write_setups(connection: Connection, pipeline: str, setups: Sequence[Encoded[RecordedWorld]]) -> None:
    """Write setups; one of the same time replaces the old one."""
    rows = [{"pipeline": pipeline, "at": float(each.record.at), "json": each.json} for each in setups]
    connection.execute(upsert(SETUPS, connection.dialect), rows)
    keep_newest(connection, SETUPS, pipeline, SETUPS.c.at, MAX_SETUPS)


def write_forecasts(connection: Connection, pipeline: str, forecasts: Sequence[Encoded[RecordedForecasts]]) -> None:
    """Write forecasts, and delete those that are too old."""
    rows = [{"pipeline": pipeline, "at": float(each.record.at), "json": each.json} for each in forecasts]
    connection.execute(upsert(FORECASTS, connection.dialect), rows)
    oldest = max(each.record.at for each in forecasts) - FORECASTS_KEPT_SECONDS
    connection.execute(delete(FORECASTS).where(FORECASTS.c.pipeline == pipeline, FORECASTS.c.at < oldest))


def _kept(connection: Connection, pipeline: str, ids: set[int]) -> dict[int, Decision]:
    """Stored decisions, locked until the transaction ends; damaged ones count as absent."""
    query = decisions_newest_first(pipeline, ids=ids).with_for_update()
    rows = [(number, text) for number, text in connection.execute(query)]
    return {each.id: each for each in read_back(rows, Decision, "decision", lambda _: None)}


def _write(connection: Connection, pipeline: str, decisions: dict[int, Encoded[Decision]]) -> None:
    rows = [
        {"pipeline": pipeline, "id": number, "at": float(each.record.at), "acted": each.record.acted, "json": each.json}
        for number, each in sorted(decisions.items())
    ]
    if rows:
        connection.execute(upsert(DECISIONS, connection.dialect), rows)
