"""Who wins when wishes disagree: the order of the policies, said aloud."""

from __future__ import annotations

from collections.abc import Iterable

from foretide.control.actions import Action, Quarantine, QuarantineHost, Release, ReleaseHost, Restart
from foretide.control.decision import Contest, Wish
from foretide.control.observed import Observed


def arbitrate(wishes: Iterable[Wish], observed: Observed) -> tuple[list[Wish], list[Contest]]:
    """The wishes that stand, and those that lost. Wishes come in order of rank: an earlier one beats a later one."""
    standing: list[Wish] = []
    contests: list[Contest] = []
    for wish in wishes:
        rival = next((each for each in standing if conflict(each.action, wish.action, observed)), None)
        if rival is None:
            standing.append(wish)
        elif rival.action != wish.action:
            contests.append(Contest(rival.policy, wish, rival.action.target))
    return standing, contests


def conflict(one: Action, other: Action, observed: Observed) -> bool:
    """Whether two actions must not be taken together."""
    if one.target == other.target or isinstance(one, Restart) or isinstance(other, Restart):
        return True
    hosts = {_host(action) for action in (one, other)} - {None}
    workers = {_worker(action) for action in (one, other)} - {None}
    return any(observed.executors.get(worker) in hosts for worker in workers if worker is not None)


def _host(action: Action) -> str | None:
    return action.host if isinstance(action, QuarantineHost | ReleaseHost) else None


def _worker(action: Action) -> str | None:
    return action.worker if isinstance(action, Quarantine | Release) else None
