"""Actions that have an extent (replicas, executors, rows a batch): how much is in force, and asking for another."""

from __future__ import annotations

from foretide.control.actions.registry import Action, SetAdmission, SetExecutors, SetReplicas
from foretide.control.world.observed import Observed


def amount_now(action: Action, observed: Observed) -> float | None:
    """The number that the action would change, as it is now."""
    match action:
        case SetReplicas(edge):
            now = observed.replicas(edge)
            return None if now is None else float(now)
        case SetExecutors():
            return float(len(observed.executors))
        case SetAdmission(spout):
            limit = observed.admission.get(spout)
            return float("inf") if limit is None else float(limit)
        case _:
            return None


def with_amount(action: Action, amount: float) -> Action:
    """The same action to another extent; actions without an amount stay as they are."""
    match action:
        case SetReplicas(edge):
            return SetReplicas(edge, int(amount))
        case SetExecutors():
            return SetExecutors(int(amount))
        case SetAdmission(spout):
            return SetAdmission(spout, None if amount == float("inf") else int(amount))
        case _:
            return action


def gives_back(action: Action, observed: Observed) -> bool:
    """Whether it frees capacity: fewer replicas or executors."""
    now = amount_now(action, observed)
    if isinstance(action, SetAdmission) or now is None or action.amount is None:
        return False
    return action.amount < now
