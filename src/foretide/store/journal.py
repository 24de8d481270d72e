"""Decisions and setups in the store, on a connection that somebody else has opened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, func, select

from foretide.control.decisions.decision import Decision, Effect
from foretide.control.decisions.decision_json import from_json, to_json
from foretide.control.decisions.news import entries
from foretide.control.history.recorded import RecordedWorld
from foretide.errors import CodecError
from foretide.store.queries import keep_newest, upsert
from foretide.store.schema import DECISIONS, SETUPS

MOST_DECISIONS = 10_000
"""Decisions of a pipeline that are kept, unless said otherwise."""

MOST_SETUPS = 1_000
"""Setups of a pipeline that are kept."""

AT_ONCE = 1_000
"""Decisions in one statement; databases limit its parameters."""

OnProblem = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DecisionsWanted:
    """Which decisions are meant. None means all."""

    pipeline: str
    last: int | None = None
    since: float | None = None
    ids: Collection[int] | None = None
    acted: bool = False

    def newest_first(self) -> Select[Any]:
        """The question for them."""
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
    """The question for the highest number of a pipeline's decisions."""
    return select(func.max(DECISIONS.c.id)).where(DECISIONS.c.pipeline == pipeline)


def setups_of(pipeline: str) -> Select[Any]:
    """The question for the setups of a pipeline, in the order of time."""
    return select(SETUPS.c.at, SETUPS.c.json).where(SETUPS.c.pipeline == pipeline).order_by(SETUPS.c.at)


def read_back(rows: Iterable[tuple[float, str]], kind: type[T], what: str, on_problem: OnProblem) -> Iterator[T]:
    """What can be read of rows; what cannot is told and left out."""
    for number, text in rows:
        try:
            yield from_json(kind, text)
        except CodecError as error:
            on_problem(f"{what} {number:.15g} of the store was left out: {error}")


def write_decisions(connection: Connection, pipeline: str, decisions: Sequence[Decision], most: int) -> None:
    """Write decisions and what their news say of earlier ones, and keep no more than so many."""
    for start in range(0, len(decisions), AT_ONCE):
        part = decisions[start : start + AT_ONCE]
        kept = _kept(connection, pipeline, {each.id for each in part} | _spoken_of(part))
        changed: dict[int, Decision] = {}
        for decision in part:
            new = entries(decision, kept)
            kept |= new
            changed |= new
        _write(connection, pipeline, changed)
    keep_newest(connection, DECISIONS, pipeline, DECISIONS.c.id, most)


def _spoken_of(decisions: Iterable[Decision]) -> set[int]:
    return {news.decision for decision in decisions for news in decision.news}


def set_effect(connection: Connection, pipeline: str, effect: Effect) -> bool:
    """Tell a decision how it turned out. False when it is not kept."""
    kept = _kept(connection, pipeline, {effect.decision})
    _write(connection, pipeline, {number: decision.with_effect(effect) for number, decision in kept.items()})
    return bool(kept)


def write_setups(connection: Connection, pipeline: str, recorded: Sequence[RecordedWorld]) -> None:
    """Write setups; one of the same time takes the place of the old one."""
    rows = [{"pipeline": pipeline, "at": float(each.at), "json": to_json(each)} for each in recorded]
    connection.execute(upsert(SETUPS, connection.dialect), rows)
    keep_newest(connection, SETUPS, pipeline, SETUPS.c.at, MOST_SETUPS)


def _kept(connection: Connection, pipeline: str, ids: set[int]) -> dict[int, Decision]:
    """Decisions that are there, held until the transaction ends; damaged ones count as not there."""
    query = DecisionsWanted(pipeline, ids=ids).newest_first().with_for_update()
    rows = [(number, text) for number, text in connection.execute(query)]
    found = read_back(rows, Decision, "decision", lambda _: None)
    return {decision.id: decision for decision in found}


def _write(connection: Connection, pipeline: str, decisions: dict[int, Decision]) -> None:
    rows = [
        {"pipeline": pipeline, "id": number, "at": float(each.at), "acted": each.acted, "json": to_json(each)}
        for number, each in sorted(decisions.items())
    ]
    if rows:
        connection.execute(upsert(DECISIONS, connection.dialect), rows)
