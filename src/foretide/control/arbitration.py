"""Which wishes stand when some contradict each other: the policy of the higher rank wins."""

from __future__ import annotations

from collections.abc import Iterable

from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost, Restart
from foretide.control.actions.restart import QUERY
from foretide.control.decisions.decision import Contest, Wish
from foretide.control.world.observed import Observed

_ANYTHING = "anything"


def arbitrate(wishes: Iterable[Wish], observed: Observed) -> tuple[list[Wish], list[Contest]]:
    """The wishes that stand, and the contests that the others lost. Wishes come in order of rank.

    Two contradict each other if they act on one target, on a host and one of its workers, or if one is a restart.
    """
    standing: list[Wish] = []
    contests: list[Contest] = []
    claimed: dict[str, Wish] = {}
    for wish in wishes:
        touches, claims = _reach(wish.action, observed)
        rival = next((claimed[each] for each in touches if each in claimed), None)
        if rival is None:
            standing.append(wish)
            claimed |= dict.fromkeys(claims, wish)
        elif rival.action != wish.action:
            contests.append(Contest(rival.policy, wish, rival.action.target))
    return standing, contests


def _reach(action: Action, observed: Observed) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The claims of others that it contradicts, and its own claims."""
    match action:
        case Restart():
            return (_ANYTHING,), (action.target, _ANYTHING)
        case QuarantineHost(host) | ReleaseHost(host):
            return (action.target, f"a worker of {host}", QUERY), (action.target, _ANYTHING)
        case Quarantine(worker) | Release(worker):
            host = observed.executors.get(worker, "")
            return (action.target, f"host {host}", QUERY), (action.target, f"a worker of {host}", _ANYTHING)
        case _:
            return (action.target, QUERY), (action.target, _ANYTHING)
