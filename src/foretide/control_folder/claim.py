"""Which query a control folder belongs to, and by which plans the state in the query's checkpoint was placed.

query.json                         in the control folder: the query's id, its checkpoint, and a token for each join
CHECKPOINT/foretide-joins/X.json   hashes of the plans by which the state of join X may have been placed

Spark keeps the id of a query in its checkpoint, so it stays the same over restarts, and when the checkpoint is copied.
When a query starts, each of its joins is checked and admitted: its token is written into the file of its plan, which
every batch reads, and a batch with another token fails. The record in the checkpoint is written before a plan is
published, and again after it, so it accepts the plan in force whenever the process dies. A control folder that is lost,
emptied or put back from a backup does not fit it. If both are lost, nothing is left that could tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foretide.control_folder.filesystem import open_filesystem
from foretide.errors import ControlFolderError, JoinPlanError
from foretide.joins.placement.plan_change import BatchHistory

if TYPE_CHECKING:
    from foretide.control_folder.folder import ControlFolder
    from foretide.joins.placement.timeline import Timeline

RECORDS = "foretide-joins"
_FORMAT = 1
_NEW_START = "start with a new checkpoint and a new control folder"


@dataclass(frozen=True, slots=True)
class Claim:
    """The query that a control folder belongs to: its id, its checkpoint, and the token of each of its joins."""

    query: str
    checkpoint: str
    tokens: Mapping[str, str]


def admit(folder: ControlFolder, claim: Claim, *, fresh: bool) -> None:
    """Give the control folder, and the plans of these joins, to a query that starts; `fresh` if it has no batch yet.

    Raises:
        ControlFolderError: The folder belongs to another query.
        JoinPlanError: The plan in the folder is not the one that the state was placed by.
    """
    owner = folder.claim()
    for name in claim.tokens:
        check_plan(folder, name, claim.query, claim.checkpoint, fresh=fresh)
    for name in claim.tokens:
        plan = folder.join_plan(name)
        if plan is not None:
            _write_record(claim.checkpoint, name, [plan.fingerprint])
        if fresh or owner is None or owner.query != claim.query:
            folder.keep_join_past(name, BatchHistory())  # what is there is about the batches of another query
    folder.write_claim(claim)


def check_plan(folder: ControlFolder, name: str, query: str, checkpoint: str, *, fresh: bool = False) -> None:
    """Refuse the plan of a join that is not the one by which the state in the checkpoint was placed."""
    owner, plan = folder.claim(), folder.join_plan(name)
    if plan is None:
        raise JoinPlanError(f"join '{name}': its plan is gone from '{folder.location}'; put it back, or {_NEW_START}")
    if owner is not None and owner.query != query and not plan.is_empty:
        raise ControlFolderError(
            f"the control folder '{folder.location}' belongs to the query with id {owner.query} (checkpoint "
            f"'{owner.checkpoint}'), which has placed rows of join '{name}' by it; this is the query with id {query}. "
            "Give it a control folder of its own"
        )
    accepted = _read_record(checkpoint, name)
    if accepted is None and not plan.is_empty and not fresh:
        raise JoinPlanError(
            f"join '{name}': nothing in checkpoint '{checkpoint}' says that its state was placed by the plan in "
            f"'{folder.location}'; put the folder '{RECORDS}' of the checkpoint back, or {_NEW_START}"
        )
    if accepted is not None and plan.fingerprint not in accepted:
        raise JoinPlanError(
            f"join '{name}': the state in checkpoint '{checkpoint}' was not placed by the plan in "
            f"'{folder.location}', which is {'empty' if plan.is_empty else 'an older one'}, so pairs would be lost; "
            f"put the last control folder back, or {_NEW_START}"
        )


def check_plans(folder: ControlFolder, checkpoint: str) -> None:
    """The same for all joins of a control folder, before the query of this checkpoint is started again."""
    query = _query_id(checkpoint)
    for name in folder.joins() if query is not None else ():
        if query is not None and folder.join_plan(name) is not None:
            check_plan(folder, name, query, checkpoint)


def check_query(folder: ControlFolder, query: str) -> None:
    """Refuse to control a query with the plans of another one."""
    owner = folder.claim()
    if owner is not None and owner.query != query and folder.joins():
        raise ControlFolderError(
            f"the control folder '{folder.location}' belongs to the query with id {owner.query}, not to this one "
            f"with id {query}; pass the control folder of this query"
        )


def _query_id(checkpoint: str) -> str | None:
    """The id that Spark keeps in a checkpoint; None before the first start."""
    try:
        return str(json.loads(open_filesystem(checkpoint).read("metadata") or "")["id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


# ---- the record in the checkpoint


@contextmanager
def accepting(
    claim: Claim | None, token: str | None, name: str, before: Timeline | None, after: Timeline
) -> Iterator[None]:
    """Have the checkpoint accept both plans while one replaces the other, and afterwards the new one alone.

    A plan that no query may use yet (it has no token) is not recorded.

    Raises:
        JoinPlanError: It is not known which checkpoint that is, or it does not accept the plan before.
    """
    if token is None or before is None or before.fingerprint == after.fingerprint:
        yield
        return
    if claim is None:
        raise JoinPlanError(f"join '{name}': query.json is gone or damaged, so its plan stays; start the query again")
    accepted = _read_record(claim.checkpoint, name)
    if accepted is not None and before.fingerprint not in accepted:
        raise JoinPlanError(
            f"join '{name}': its plan was replaced by another one while the query ran, so it is not changed any more; "
            f"stop the query, and put the last control folder back, or {_NEW_START}"
        )
    _write_record(claim.checkpoint, name, [before.fingerprint, after.fingerprint])
    yield
    _write_record(claim.checkpoint, name, [after.fingerprint])


def _read_record(checkpoint: str, name: str) -> frozenset[str] | None:
    """The plans that a checkpoint accepts for a join; None without a record."""
    text = open_filesystem(f"{checkpoint}/{RECORDS}").read(f"{name}.json")
    if text is None:
        return None
    try:
        data = json.loads(text)
        if data["format"] == _FORMAT:
            return frozenset(map(str, data["plans"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise JoinPlanError(
        f"'{checkpoint}/{RECORDS}/{name}.json', which says by what plan the state of join '{name}' was placed, cannot "
        f"be read; put the last one back, or {_NEW_START}"
    )


def _write_record(checkpoint: str, name: str, plans: Iterable[str]) -> None:
    record = {"format": _FORMAT, "plans": sorted(set(plans))}
    open_filesystem(f"{checkpoint}/{RECORDS}").write(f"{name}.json", json.dumps(record))
