"""Decisions and setups in the store, on a connection that the caller has opened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, func, select

from foretide.control.decisions.decision import Decision, from_json
from foretide.control.decisions.effects import merge_effects
from foretide.control.history import RecordedWorld
from foretide.errors import CodecError
from foretide.store.queries import keep_newest, upsert
from foretide.store.records import Encoded
from foretide.store.schema import DECISIONS, SETUPS

MAX_DECISIONS = 10_000
"""Decisions of a pipeline that are kept by default."""

MAX_SETUPS = 1_000
"""Setups of a pipeline that are kept."""

DECISIONS_PER_STATEMENT = 1_000
"""Databases limit the parameters of a statement."""

OnProblem = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DecisionSelection:
    """Which decisions to read. None means all."""

    pipeline: str
    last: int | None = None
    since: float | None = None
    ids: Collection[int] | None = None
    acted: bool = False

    def newest_first(self) -> Select[Any]:
        """The query for them."""
        column = DECISIONS.c
        query = select(column.id, column.json).where(column.pipeline == self.pipeline)
        if self.since is not None:
            query = query.where(column.at >= self.since)
        if self.ids is not None:
            query = query.where(column.id.in_(self.ids))
        if self.acted:
            query = query.where(column.acted)
        return query.order_by(column.id.desc()).limit(self.last)


def newest_id(pipeline: str) -> Select[Any]:
    """The query for the highest number of a pipeline's decisions."""
    return select(func.max(DECISIONS.c.id)).where(DECISIONS.c.pipeline == pipeline)


def setups_of(pipeline: str) -> Select[Any]:
    """The query for the setups of a pipeline, in the order of time."""
    return select(SETUPS.c.at, SETUPS.c.json).where(SETUPS.c.pipeline == pipeline).order_by(SETUPS.c.at)


def read_back(rows: Iterable[tuple[float, str]], kind: type[T], what: str, on_problem: OnProblem) -> Iterator[T]:
    """What can be read of rows; what cannot is reported and left out."""
    for number, text in rows:
        try:
            yield from_json(kind, text)
        except CodecError as error:
            on_problem(f"{what} {number:.15g} of the store was left out: {error}")


def write_decisions(
    connection: Connection, pipeline: str, decisions: Sequence[Encoded[Decision]], max_decisions: int
) -> None:
    """Write decisions, add the effects they report to earlier ones, and keep no more than `max_decisions`."""
    for start in range(0, len(decisions), DECISIONS_PER_STATEMENT):
        part = decisions[start : start + DECISIONS_PER_STATEMENT]
        kept = _kept(connection, pipeline, _ids(each.record for each in part))
        changed: dict[int, Encoded[Decision]] = {}
        for new in part:
            merged = merge_effects(new.record, kept)
            kept |= merged
            changed |= {number: new if each is new.record else Encoded.of(each) for number, each in merged.items()}
        _write(connection, pipeline, changed)
    keep_newest(connection, DECISIONS, pipeline, DECISIONS.c.id, max_decisions)


def _ids(decisions: Iterable[Decision]) -> set[int]:
    """Their own numbers, and those whose effects they report."""
    return {number for each in decisions for number in (each.id, *(e.decision for e in each.effects_of_earlier))}


def write_setups(connection: Connection, pipeline: str, setups: Sequence[Encoded[RecordedWorld]]) -> None:
    """Write setups; one of the same time replaces the old one."""
    rows = [{"pipeline": pipeline, "at": float(each.record.at), "json": each.json} for each in setups]
    connection.execute(upsert(SETUPS, connection.dialect), rows)
    keep_newest(connection, SETUPS, pipeline, SETUPS.c.at, MAX_SETUPS)


def _kept(connection: Connection, pipeline: str, ids: set[int]) -> dict[int, Decision]:
    """Stored decisions, locked until the transaction ends; damaged ones count as absent."""
    query = DecisionSelection(pipeline, ids=ids).newest_first().with_for_update()
    rows = [(number, text) for number, text in connection.execute(query)]
    found = read_back(rows, Decision, "decision", lambda _: None)
    return {decision.id: decision for decision in found}


def _write(connection: Connection, pipeline: str, decisions: dict[int, Encoded[Decision]]) -> None:
    rows = [
        {"pipeline": pipeline, "id": number, "at": float(each.record.at), "acted": each.record.acted, "json": each.json}
        for number, each in sorted(decisions.items())
    ]
    if rows:
        connection.execute(upsert(DECISIONS, connection.dialect), rows)
