"""What people ask of a running loop, from any terminal: targets, drained hosts, restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foretide.control.actions.registry import Action, Quarantine, QuarantineHost, Release, ReleaseHost, Restart
from foretide.errors import ForetideError

if TYPE_CHECKING:
    from foretide.control.world.observed import Observed
    from foretide.control.world.setup import Target
    from foretide.control_folder.folder import ControlFolder


class Orders:
    """Reads orders. What makes no sense is told in `problem`, and what held before holds on."""

    def __init__(self, folder: ControlFolder, since: float) -> None:
        self._folder, self._since = folder, since
        self._were_out: frozenset[str] = frozenset()
        self.problem: str | None = None

    def target(self, initial: Target) -> Target:
        """The target with what a person has changed."""
        try:
            target = self._folder.orders.target().apply(initial)
        except ForetideError as error:
            self.problem = f"the target that was set makes no sense ({error}); the earlier one is held"
            return initial
        self.problem = None
        return target

    def actions(self, observed: Observed) -> tuple[Action, ...]:
        """What a person has asked for and is not in force."""
        drained = observed.drained
        wanted: list[Action] = [_out(place, observed) for place in sorted(drained)]
        wanted += [_in(place, observed) for place in sorted(self._were_out - drained)]
        self._were_out = drained | {place for place in self._were_out if not _in(place, observed).in_force(observed)}
        restart = self._restart(observed)
        wanted += [] if restart is None else [restart]
        return tuple(action for action in wanted if not action.in_force(observed))

    def _restart(self, observed: Observed) -> Restart | None:
        """A restart that was asked for since this loop began, and has not been tried; older ones are the past."""
        try:
            order = self._folder.orders.restart()
            if order is None or order.at < self._since or observed.started > order.at:
                return None
            return Restart(order.reason, order.state_partitions, order.pools, after=order.at)
        except ForetideError as error:
            self.problem = f"the restart that was asked for makes no sense: {error}"
            return None


def _out(place: str, observed: Observed) -> Quarantine | QuarantineHost:
    return Quarantine(place) if place in observed.executors else QuarantineHost(place)


def _in(place: str, observed: Observed) -> Release | ReleaseHost:
    return Release(place) if place in observed.executors else ReleaseHost(place)
